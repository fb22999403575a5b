"""What ``replica eval`` does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import typer

from equations.numerals import real, shown

from ..errors import InputError
from ..inputs import assignments
from ..solve import evaluate


def print_values(model: str, at: str, given: Mapping[str, Any], as_json: bool) -> None:
    """Evaluate and print."""
    overlaps = assignments([p for p in at.split(",") if p], "--at")
    try:
        values = {k: real(v) for k, v in overlaps.items()}
    except ValueError:
        raise InputError(
            f"cannot read --at {shown(at)}: write overlap=number,overlap=number"
        ) from None
    result = evaluate(model, values, **given)
    if as_json:
        typer.echo(json.dumps(result))
        return
    for group, entries in result.items():
        for name, value in entries.items() if isinstance(entries, dict) else [("", entries)]:
            typer.echo(f"{group:<16}{name:<24}{value}")
