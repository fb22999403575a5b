"""``replica eval``: everything a model defines at given overlaps."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from equations.numerals import real, shown

from ..errors import InputError
from ..inputs import assignments
from ..solve import evaluate
from .shared import Json, ModelName, Set, parsed


def evaluate_at(
    model: ModelName,
    at: Annotated[str, typer.Option("--at", help="overlap=value,overlap=value")] = "",
    settings: Set = None,
    as_json: Json = False,
) -> None:
    """Evaluate everything a model defines at given overlaps, without iterating.

    Example: replica eval slr-bayes --set alpha=1 --set L=4 --set nu=1 --set Delta=0.1 --at
    q_k=0.3,q_v=0.5
    """
    overlaps = assignments([p for p in at.split(",") if p], "--at")
    try:
        values = {k: real(v) for k, v in overlaps.items()}
    except ValueError:
        raise InputError(
            f"cannot read --at {shown(at)}: write overlap=number,overlap=number"
        ) from None
    result = evaluate(model, values, **parsed(settings))
    if as_json:
        typer.echo(json.dumps(result))
        return
    for group, entries in result.items():
        for name, value in entries.items() if isinstance(entries, dict) else [("", entries)]:
            typer.echo(f"{group:<16}{name:<24}{value}")
