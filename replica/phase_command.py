"""What ``replica phase`` does: thresholds at one point, or lines over a second control into a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from . import recovery, sign_command
from .diagram import TRANSITIONS
from .diagram import run as phase_diagram
from .errors import InputError, SolveError
from .phase import NAMES, Thresholds, checked, thresholds
from .sweep import read_over
from .work import Work


def run(
    model: str, given: dict[str, Any], control: str, over: list[str], within: str | None, accuracy: float, as_json: bool, quiet: bool, work: Work
) -> None:
    """One command line; exit code 1 if a curve could not be followed."""
    if model == recovery.MODEL:
        if work.resume or work.dask is not None:
            raise InputError(f"the boundaries of {model} are immediate: leave out --resume and --dask")
        file = None if work.file is None else Path(work.file)
        return sign_command.run(given, control, over, file, work.force, as_json, str(work.attrs.get("command", "")))
    limits = _limits(within)
    if not over:
        if work.file is not None or work.resume or work.dask is not None:
            raise InputError("-o needs --over, and so do --resume and --dask: without it there is one point, use --json")
        try:
            found = thresholds(model, control, within=limits, accuracy=accuracy, **given)
        except SolveError as error:
            typer.echo(f"replica: {error}", err=True)
            raise typer.Exit(1) from None
        typer.echo(json.dumps(found.to_dict())) if as_json else _print(found)
        return
    if work.file is None or as_json:
        raise InputError("a phase diagram is written to a file: give -o FILE.h5 (and leave --json out)")
    names = [pair.partition("=")[0].strip() for pair in over]
    built, _ = checked(model, control, given, tuple(names))
    dataset = phase_diagram(model, control, read_over(built, over), given, limits, accuracy, None, True, work)
    failed = int((dataset.transition == TRANSITIONS.index("failed")).sum())
    if not quiet:
        typer.echo(f"{work.file}: {dataset.transition.size} columns, {failed} failed")
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
