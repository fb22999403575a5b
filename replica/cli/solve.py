"""``replica solve``: one point from every start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ..files import store
from ..files.writer import check_target
from ..solution import Solution
from ..solve import solve as solve_point
from ..sweeps.dataset import to_dataset
from ..theories import Settings
from .shared import (
    Accuracy,
    Damping,
    Force,
    Json,
    MaxSteps,
    ModelName,
    Route,
    Set,
    Tol,
    command_line,
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
    if output is not None:
        check_target(output, force)
    how = Settings(tol=tol, accuracy=accuracy, damping=damping, max_steps=max_steps, route=route)
    solution = solve_point(model, settings=how, **parsed(settings))
    if output is not None:
        store.save(output, to_dataset(solution).assign_attrs(command=command_line()), force=force)
    if as_json:
        typer.echo(json.dumps(solution.to_dict()))
    else:
        _print_solution(solution)
    failed = [b for b in solution.branches if not b.ok]
    for branch in failed:
        typer.echo(f"replica: {branch.start}: {branch.message}", err=True)
    if failed:
        raise typer.Exit(1)


def _print_solution(solution: Solution) -> None:
    branches, first = solution.branches, solution.branches[0]
    fixed = ", ".join(f"{k}={v:g}" for k, v in solution.controls.items())
    table = Table("", *(b.start for b in branches), title=f"{solution.model.name}  {fixed}")
    for kind in ("overlaps", "conjugates", "observables"):
        for name in getattr(first, kind):
            table.add_row(name, *(_number(getattr(b, kind)[name], b.error[name]) for b in branches))
    if solution.theory.energy_is_shown:
        phi = "free entropy" if solution.model.best == "largest" else "objective"
        table.add_row(phi, *(_number(b.free_energy, b.error["free_energy"]) for b in branches))
    table.add_row("status", *(b.message for b in branches))
    table.add_row("residual", *(f"{b.residual:.1e}" for b in branches))
    table.add_row("steps", *(str(b.steps) for b in branches))
    table.add_row("best", *("*" if i == solution.best else "" for i in range(len(branches))))
    console = Console()
    console.print(table)
    if len(branches) > 1 and solution.risks:
        risks = (f"{k.replace('_', '-')} {v:.6g}" for k, v in solution.risks.items())
        console.print(f"risk: {', '.join(risks)}")


def _number(value: float, error: float) -> str:
    """A value and its error."""
    return f"{value:.10g} ({error:.0e})"
