"""``replica solve``: one point from every start."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..shared import (
    Accuracy,
    Damping,
    Force,
    Json,
    MaxSteps,
    ModelName,
    Route,
    Set,
    Tol,
    parsed,
)


def solve(
    model: ModelName,
    settings: Set = None,
    as_json: Json = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Also store the branches in this HDF5 file."),
    ] = None,
    force: Force = False,
    tol: Tol = 1e-10,
    accuracy: Accuracy = None,
    damping: Damping = 0.0,
    max_steps: MaxSteps = 100_000,
    route: Route = "exact",
) -> None:
    """Solve one point from every start.

    Example: replica solve slr-bayes --set alpha=1.4 --set L=4 --set nu=1 --set Delta=1e-4

    Example: replica solve ./my_model.py --set alpha=1.4
    """
    from ..solve import solve_and_print

    how = {
        "tol": tol,
        "accuracy": accuracy,
        "damping": damping,
        "max_steps": max_steps,
        "route": route,
    }
    solve_and_print(model, parsed(settings), how, output, force, as_json)
