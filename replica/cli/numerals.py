"""Numbers of options, read as those of ``--set``: strictly (``1_5`` is no number)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from equations.numerals import real, shown, whole


def _strict(read: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
    def parse(text: Any) -> Any:
        try:
            return read(text)
        except ValueError as problem:
            raise typer.BadParameter(f"{shown(text)} {problem}") from None

    parse.__name__ = name  # what ``--help`` shows
    return parse


NUMBER = _strict(real, "float")
WHOLE = _strict(whole, "integer")
PARSERS = {float: NUMBER, int: WHOLE}
