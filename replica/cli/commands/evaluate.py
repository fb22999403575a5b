"""``replica eval``: everything a model defines at given overlaps."""

from __future__ import annotations

from typing import Annotated

import typer

from ..shared import (
    Json,
    ModelName,
    Set,
    parsed,
)


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
    from ..evaluate import print_values

    print_values(model, at, parsed(settings), as_json)
