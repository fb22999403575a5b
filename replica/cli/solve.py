"""What ``replica solve`` does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from ..files.writer import check_target
from ..solution import Solution
from ..solve import solve
from ..theories import Settings
from .shared import command_line


def solve_and_print(
    model: str,
    given: Mapping[str, Any],
    how: Mapping[str, Any],
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Solve, store if asked, print; exit code 1 if a branch failed."""
    if output is not None:
        check_target(output, force)
    solution = solve(model, settings=Settings(**how), **given)
    if output is not None:
        _store(output, solution, force)
    if as_json:
        typer.echo(json.dumps(solution.to_dict()))
    else:
        _print_solution(solution)
    failed = [b for b in solution.branches if not b.ok]
    for branch in failed:
        typer.echo(f"replica: {branch.start}: {branch.message}", err=True)
    if failed:
        raise typer.Exit(1)


def _store(output: Path, solution: Solution, force: bool) -> None:
    # xarray and pandas take longer to import than many a solve.
    from ..files import store
    from ..sweeps.dataset import to_dataset

    store.save(output, to_dataset(solution).assign_attrs(command=command_line()), force=force)


def _print_solution(solution: Solution) -> None:
    from rich.console import Console
    from rich.table import Table

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
