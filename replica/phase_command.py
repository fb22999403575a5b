"""What ``replica phase`` does: thresholds at one point, or lines over a second control into a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from . import recovery, sign_command, store
from .diagram import TRANSITIONS, phase_diagram
from .errors import InputError, SolveError
from .phase import NAMES, Thresholds, checked, thresholds
from .sweep import progress_bar, read_over


def run(
    model: str, given: dict[str, Any], control: str, over: list[str], output: Path | None, force: bool, within: str | None, accuracy: float,
    as_json: bool, quiet: bool, command: str,
) -> None:  # fmt: skip
    """One command line; exit code 1 if a curve could not be followed."""
    if model == recovery.MODEL:
        return sign_command.run(given, control, over, output, force, as_json, command)
    limits = _limits(within)
    if not over:
        if output is not None:
            raise InputError("-o needs --over: without it there is one point, use --json")
        try:
            found = thresholds(model, control, within=limits, accuracy=accuracy, **given)
        except SolveError as error:
            typer.echo(f"replica: {error}", err=True)
            raise typer.Exit(1) from None
        typer.echo(json.dumps(found.to_dict())) if as_json else _print(found)
        return
    if output is None or as_json:
        raise InputError("a phase diagram is written to a file: give -o FILE.h5 (and leave --json out)")
    _diagram(model, given, control, over, output, force, limits, accuracy, quiet, command)


def _diagram(
    model: str,
    given: dict[str, Any],
    control: str,
    over: list[str],
    output: Path,
    force: bool,
    within: tuple[float, float] | None,
    accuracy: float,
    quiet: bool,
    command: str,
) -> None:
    store.check_target(output, force)
    names = [pair.partition("=")[0].strip() for pair in over]
    built, _ = checked(model, control, given, tuple(names))
    axes = read_over(built, over)
    with progress_bar(False if quiet else None) as bar:
        job = bar.add_task(built.name, total=sum(map(len, axes.values())))
        dataset = phase_diagram(model, control, over=axes, within=within, accuracy=accuracy, done=lambda n: bar.advance(job, n), **given)
    store.save(output, dataset.assign_attrs(command=command), force=force)
    failed = int((dataset.transition == TRANSITIONS.index("failed")).sum())
    if not quiet:
        typer.echo(f"{output}: {dataset.transition.size} columns, {failed} failed")
    for where, why in dataset.attrs["failures"].items():
        typer.echo(f"replica: {where}: {why}", err=True)
    if failed:
        raise typer.Exit(1)


def _limits(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        low, high = map(float, text.split(":"))
    except ValueError:
        raise InputError(f"cannot read --within {text!r}: write low:high") from None
    return low, high


def _print(found: Thresholds) -> None:
    fixed = ", ".join(f"{k}={v:g}" for k, v in found.controls.items())
    typer.echo(f"{found.model}  {fixed}  transition along {found.control}: {found.transition}")
    meaning = ("informed branch appears", "free energies are equal", "uninformed branch disappears")
    for name, text in zip(NAMES, meaning, strict=True):
        value = getattr(found, name)
        shown = f"none in {found.within[0]:g}..{found.within[1]:g}" if value is None else f"{value:.10g} ({found.error[name]:.0e})"
        typer.echo(f"{name:<10}{shown:<28}{text}")
