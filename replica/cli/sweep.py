"""What ``replica sweep`` does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import typer

from ..errors import InputError
from ..files import info
from ..jobs.options import JobOptions
from ..models import built
from ..sweeps.dataset import failures
from ..sweeps.optimise import optima
from ..sweeps.sweep import read_over, swept
from ..theories import Settings


@dataclass(frozen=True)
class SweepRequest:
    """What was asked on the command line."""

    model: str
    given: dict[str, Any]
    over: list[str]
    how: Mapping[str, Any]
    warm: str | None
    optimise: str | None
    as_json: bool
    quiet: bool


def sweep_to_file(request: SweepRequest, work: JobOptions) -> None:
    """The sweep, into the file of ``work``; exit code 1 if a point failed."""
    grids = read_over(built(request.model, request.given)[0], request.over)
    how = Settings(**request.how)
    if request.optimise is not None and request.warm is not None:
        raise InputError(
            "the search for the best controls has its own starts: leave --warm or --optimise out"
        )
    if request.optimise is None:
        dataset = swept(request.model, grids, request.given, how, request.warm, None, work)
    else:
        names = [name.strip() for name in request.optimise.split(",")]
        dataset = optima(request.model, names, None, grids, {}, how, request.given, work)
    failed = failures(dataset["status"].values)
    if request.as_json:
        found = {
            "file": str(work.file),
            "points": dataset["status"].size,
            "failed": failed,
            "statuses": info.statuses(dataset),
        }
        typer.echo(json.dumps(found))
    elif not request.quiet:
        typer.echo(f"{work.file}: {dataset['status'].size} points, {failed} failed")
    if failed:
        raise typer.Exit(1)
