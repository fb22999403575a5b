"""``replica phase``: thresholds at one point, or lines over a second control into a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..numerals import NUMBER
from ..shared import (
    Dask,
    Force,
    Jobs,
    Json,
    ModelName,
    Quiet,
    Resume,
    Set,
    long_work,
    parsed,
)


def phase(
    model: ModelName,
    settings: Set = None,
    control: Annotated[
        str, typer.Option(help="The control whose thresholds are wanted.")
    ] = "alpha",
    over: Annotated[
        list[str] | None,
        typer.Option("--over", help="name=start:stop:num[:log]; a second control, with -o."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="HDF5 file to write (with --over).")
    ] = None,
    force: Force = False,
    within: Annotated[
        str | None, typer.Option(help="low:high, the range to search; 1e-3:1e3 by default.")
    ] = None,
    accuracy: Annotated[
        float | None,
        typer.Option(
            parser=NUMBER,
            help="Largest error of a threshold [1e-6], or of an overlap on a grid [the model's].",
        ),
    ] = None,
    grid: Annotated[
        str | None,
        typer.Option(
            help="start:stop:num[:log], values of the control for a model that is mapped on a grid."
        ),
    ] = None,
    as_json: Json = False,
    resume: Resume = False,
    dask: Dask = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
    whole: Annotated[
        bool,
        typer.Option(
            "--curve",
            help="Store the curve of fixed points, unstable parts too (with -o, without --over).",
        ),
    ] = False,
) -> None:
    """Thresholds along one control; with --over, as lines over a second one; with --curve, all
    fixed points.

    Example: replica phase slr-bayes --set L=4 --set nu=1 --set Delta=1e-4 --json

    Example: replica phase slr-bayes --set L=4 --set nu=1 --set Delta=1e-4 --curve -o curve.h5

    Example: replica phase slr-erm --over lam_k=0.1:2:8:log --grid 1:6:8 --set L=2 --set nu=1 --set
    Delta=0.1 --set lam_v=0.1 -o erm.h5
    """
    from ..phase import PhaseRequest, print_or_store

    with long_work(output, resume, force, dask, quiet, jobs) as work:
        request = PhaseRequest(
            model,
            parsed(settings),
            control,
            over or [],
            within,
            grid,
            accuracy,
            as_json,
            quiet,
            whole,
        )
        print_or_store(request, work)
