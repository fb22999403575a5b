"""What ``replica phase`` does for a model whose boundaries are formulas: one, printed, or a diagram
over two controls into a file.
"""

from __future__ import annotations

import json
from typing import Any

import typer

from ..dynamics.boundaries import Boundaries
from ..errors import InputError, SolveError
from ..files import store
from ..files.writer import check_target
from ..jobs.run import JobOptions
from ..models import built
from ..sweeps.sweep import read_over

NEEDS_FILE = "a phase diagram is written to a file: give -o FILE.h5 (and leave --json out)"


def print_boundary(
    boundaries: Boundaries, given: dict[str, Any], control: str, as_json: bool, work: JobOptions
) -> None:
    """One boundary; exit code 1 if there is none."""
    boundaries.check(given)
    if work.file is not None:
        flags = " and ".join(f"--over {name}=start:stop:num" for name in boundaries.axes)
        raise InputError(f"-o needs {flags}: without them there is one point, use --json")
    try:
        found = boundaries.one(given, control)
    except SolveError as error:
        typer.echo(f"replica: {error}", err=True)
        raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    fixed = ", ".join(f"{k}={v:g}" for k, v in found["controls"].items())
    typer.echo(f"{boundaries.model}  {fixed}")
    typer.echo(f"{control:<10}{found['boundary']:<22.12g}{found['meaning']}")


def store_boundaries(
    boundaries: Boundaries, given: dict[str, Any], over: list[str], as_json: bool, work: JobOptions
) -> None:
    """The diagram, into the file of ``work``."""
    boundaries.check(given)
    if work.file is None or as_json:
        raise InputError(NEEDS_FILE)
    check_target(work.file, work.force)
    axes = read_over(built(boundaries.model, given)[0], over)
    dataset = boundaries.over(axes, given)
    store.save(work.file, dataset.assign_attrs(work.attrs), force=work.force)
    sizes = " x ".join(str(axes[name].size) for name in boundaries.axes)
    typer.echo(f"{work.file}: {sizes} points")
