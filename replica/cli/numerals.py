"""Numbers of options, read as those of ``--set``: strictly (``1_5`` is no number)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer


def _strict(reader: str, name: str) -> Callable[[Any], Any]:
    """What reads an option by that function of ``equations.numerals``."""

    def parse(text: Any) -> Any:
        if not isinstance(text, str):
            return text  # a default
        # With it comes SymPy, which --help and completion must not wait for.
        from equations import numerals

        try:
            return getattr(numerals, reader)(text)
        except ValueError as problem:
            raise typer.BadParameter(f"{numerals.shown(text)} {problem}") from None

    parse.__name__ = name  # what ``--help`` shows
    return parse


NUMBER = _strict("real", "float")
WHOLE = _strict("whole", "integer")
PARSERS = {float: NUMBER, int: WHOLE}
