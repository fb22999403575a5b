"""``replica sweep``: a grid of points into a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from ..files import info
from ..models import built
from ..sweeps.dataset import failures
from ..sweeps.optimise import optima
from ..sweeps.sweep import read_over, swept
from ..theories import Settings
from .shared import (
    Accuracy,
    Damping,
    Dask,
    Force,
    Json,
    MaxSteps,
    ModelName,
    Quiet,
    Resume,
    Set,
    Tol,
    long_work,
    parsed,
)


def sweep(
    model: ModelName,
    output: Annotated[Path, typer.Option("-o", "--output", help="HDF5 file to write.")],
    over: Annotated[
        list[str], typer.Option("--over", help="name=start:stop:num[:log]. Repeat it.")
    ],
    settings: Set = None,
    warm: Annotated[str | None, typer.Option(help="Control to warm-start along.")] = None,
    force: Force = False,
    resume: Resume = False,
    dask: Dask = None,
    tol: Tol = 1e-10,
    accuracy: Accuracy = None,
    damping: Damping = 0.0,
    max_steps: MaxSteps = 100_000,
    quiet: Quiet = False,
    as_json: Json = False,
    optimise: Annotated[
        str | None,
        typer.Option(
            help="Controls to choose at each point such that the risk is smallest, as lam_k,lam_v."
        ),
    ] = None,
) -> None:
    """Solve a model over a grid and store every branch, as they come.

    Example: replica sweep slr-bayes --over alpha=0.5:2.5:41 --set L=4 --set nu=1 --set Delta=1e-4
    -o slr.h5

    Example: replica sweep slr-erm --over alpha=1:8:8 --optimise lam_k,lam_v --set L=4 --set nu=1
    --set Delta=0.1 -o softmax.h5
    """
    given = parsed(settings)
    grids = read_over(built(model, given)[0], over)
    how = Settings(tol=tol, accuracy=accuracy, damping=damping, max_steps=max_steps)
    if optimise is not None and warm is not None:
        raise InputError(
            "the search for the best controls has its own starts: leave --warm or --optimise out"
        )
    with long_work(output, resume, force, dask, quiet) as work:
        if optimise is None:
            dataset = swept(model, grids, given, how, warm, None, work)
        else:
            over_these = [name.strip() for name in optimise.split(",")]
            dataset = optima(model, over_these, None, grids, {}, how, given, work)
    failed = failures(dataset["status"].values)
    if as_json:
        found = {
            "file": str(output),
            "points": dataset["status"].size,
            "failed": failed,
            "statuses": info.statuses(dataset),
        }
        typer.echo(json.dumps(found))
    elif not quiet:
        typer.echo(f"{output}: {dataset['status'].size} points, {failed} failed")
    if failed:
        raise typer.Exit(1)
