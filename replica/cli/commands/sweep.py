"""``replica sweep``: a grid of points into a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..shared import (
    Accuracy,
    Damping,
    Dask,
    Force,
    Jobs,
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
    jobs: Jobs = None,
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
    from ..sweep import SweepRequest, sweep_to_file

    how = {"tol": tol, "accuracy": accuracy, "damping": damping, "max_steps": max_steps}
    request = SweepRequest(model, parsed(settings), over, how, warm, optimise, as_json, quiet)
    with long_work(output, resume, force, dask, quiet, jobs) as work:
        sweep_to_file(request, work)
