"""What ``replica phase subspace`` does: where -xi attracts too, as one boundary or as a diagram
over theta and r.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from ..dynamics import recovery
from ..errors import InputError, SolveError
from ..files import store
from ..models import resolve
from ..sweeps.sweep import read_over

MEANING = {
    "theta": "smallest theta at which -xi attracts too (L = infinity)",
    "r": "largest r at which -xi attracts too (L = infinity; 0: at none)",
}
CROWDING = "(d - 1)/L above which -xi attracts too (0: at L = infinity already)"


def run(
    given: dict[str, Any],
    control: str,
    over: list[str],
    output: Path | None,
    force: bool,
    as_json: bool,
    command: str,
) -> None:
    """One command line."""
    if {"d", "L"} & set(given):
        raise InputError(
            "the boundary is given at L = infinity, and as a value of (d - 1)/L: leave out d and L"
        )
    if over:
        return _diagram(given, over, output, force, as_json, command)
    if output is not None:
        raise InputError(
            "-o needs --over theta=start:stop:num and --over r=start:stop:num: without them there"
            " is one point, use --json"
        )
    found = boundary(given, control)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        typer.echo(
            f"{recovery.MODEL}  {', '.join(f'{k}={v:g}' for k, v in found['controls'].items())}"
        )
        typer.echo(f"{control:<10}{found['boundary']:<22.12g}{found['meaning']}")


def boundary(given: dict[str, Any], control: str) -> dict[str, Any]:
    """The boundary along theta, along r, or (control "d/L") along (d - 1)/L."""
    if control not in ("theta", "r", "d/L"):
        raise InputError(
            f"the sign of subspace has a boundary along theta, r or d/L, not {control!r}: give"
            " --control theta"
        )
    if control in given:
        raise InputError(f"{control} is both searched and fixed: give it once")
    _, values = resolve(recovery.MODEL, given, partial=[control])
    beta = values["beta"]
    try:
        if control == "theta":
            value = recovery.boundary_theta(values["r"], beta)
        elif control == "r":
            value = float(recovery.boundary_share(values["theta"], beta))
        else:
            value = float(recovery.boundary_crowding(values["theta"], values["r"], beta))
    except SolveError as error:
        typer.echo(f"replica: {error}", err=True)
        raise typer.Exit(1) from None
    return {
        "model": recovery.MODEL,
        "control": control,
        "controls": values,
        "boundary": value,
        "meaning": MEANING.get(control, CROWDING),
    }


def _diagram(
    given: dict[str, Any],
    over: list[str],
    output: Path | None,
    force: bool,
    as_json: bool,
    command: str,
) -> None:
    if output is None or as_json:
        raise InputError(
            "a phase diagram is written to a file: give -o FILE.h5 (and leave --json out)"
        )
    store.check_target(output, force)
    built, values = resolve(recovery.MODEL, given, partial=["theta", "r"])
    axes = read_over(built, over)
    if set(axes) != {"theta", "r"} or {"theta", "r"} & set(given):
        raise InputError(
            "the diagram of subspace is over theta and r: give --over theta=start:stop:num and"
            " --over r=start:stop:num"
        )
    dataset = recovery.sign_diagram(axes["theta"], axes["r"], values["beta"])
    store.save(output, dataset.assign_attrs(command=command), force=force)
    typer.echo(f"{output}: {axes['theta'].size} x {axes['r'].size} points")
