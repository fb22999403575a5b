"""What ``replica show`` does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import typer

from ..errors import InputError
from ..show import chosen, document, entries, text


def print_model(model: str, given: Mapping[str, Any], as_json: bool, latex: bool) -> None:
    """A model as text, JSON or LaTeX."""
    ready = chosen(model, given)
    if latex and as_json:
        raise InputError("--latex and --json are two formats: give one of them")
    if as_json:
        typer.echo(json.dumps(entries(ready)))
    else:
        typer.echo(document(ready) if latex else text(ready))
