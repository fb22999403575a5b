"""What ``replica phase`` does: thresholds at one point, or lines over a second control
into a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from ..dynamics import recovery
from ..errors import InputError, SolveError
from ..files import store
from ..jobs.run import JobOptions
from ..phase.branch_map import is_branch_map
from ..phase.curve import curve
from ..phase.diagram import diagram
from ..phase.diagram_table import TRANSITIONS
from ..phase.thresholds import ACCURACY, NAMES, Thresholds, checked, thresholds
from ..sweeps.dataset import failures
from ..sweeps.sweep import grid, read_over
from . import sign as sign_command


@dataclass(frozen=True)
class Asked:
    """A command line."""

    model: str
    given: dict[str, Any]
    control: str
    over: list[str]
    within: str | None
    grid: str | None
    accuracy: float | None
    as_json: bool
    quiet: bool
    whole: bool


def run(asked: Asked, work: JobOptions) -> None:
    """One command line; exit code 1 if a curve could not be followed or a point failed."""
    if asked.model == recovery.MODEL:
        return _sign(asked, work)
    limits = _limits(asked.within)
    if asked.whole:
        _store_curve(asked, limits, work)
    elif not asked.over:
        _print_thresholds(asked, limits, work)
    elif work.file is None or asked.as_json:
        raise InputError(
            "a phase diagram is written to a file: give -o FILE.h5 (and leave --json out)"
        )
    else:
        _store_diagram(asked, limits, work)


def _sign(asked: Asked, work: JobOptions) -> None:
    if work.resume or work.dask is not None or asked.whole or asked.grid is not None:
        raise InputError(
            f"the boundaries of {asked.model} are immediate: leave out --resume, --dask, --curve"
            " and --grid"
        )
    file = None if work.file is None else Path(work.file)
    sign_command.run(
        asked.given,
        asked.control,
        asked.over,
        file,
        work.force,
        asked.as_json,
        str(work.attrs.get("command", "")),
    )


def _print_thresholds(asked: Asked, limits: tuple[float, float] | None, work: JobOptions) -> None:
    if work.file is not None or work.resume or work.dask is not None or asked.grid is not None:
        raise InputError(
            "-o needs --over, and so do --grid, --resume and --dask: without it there is one point,"
            " use --json (or --curve)"
        )
    with _failures():
        found = thresholds(
            asked.model, asked.control, within=limits, accuracy=_accuracy(asked), **asked.given
        )
    typer.echo(json.dumps(found.to_dict())) if asked.as_json else _print(found)


def _store_diagram(asked: Asked, limits: tuple[float, float] | None, work: JobOptions) -> None:
    names = [pair.partition("=")[0].strip() for pair in asked.over]
    built, _ = checked(asked.model, asked.control, asked.given, tuple(names))
    quantity = next(q for q in built.controls if q.name == asked.control)
    values = None if asked.grid is None else grid(quantity, asked.grid, "--grid ")
    over = read_over(built, asked.over)
    dataset = diagram(
        asked.model,
        asked.control,
        over,
        asked.given,
        limits,
        asked.accuracy,
        None,
        True,
        work,
        values,
    )
    if is_branch_map(dataset):
        total, failed, why = dataset["status"].size, failures(dataset["status"].values), {}
    else:
        total, failed = (
            dataset.transition.size,
            int((dataset.transition == TRANSITIONS.index("failed")).sum()),
        )
        why = dataset.attrs["failures"]
    if not asked.quiet:
        typer.echo(
            f"{work.file}: {total} {'points' if is_branch_map(dataset) else 'columns'}, {failed}"
            " failed"
        )
    for where, reason in why.items():
        typer.echo(f"replica: {where}: {reason}", err=True)
    if failed:
        raise typer.Exit(1)


def _store_curve(asked: Asked, limits: tuple[float, float] | None, work: JobOptions) -> None:
    if (
        asked.over
        or work.file is None
        or asked.as_json
        or asked.grid is not None
        or work.resume
        or work.dask is not None
    ):
        raise InputError(
            "--curve stores one curve: give -o FILE.h5, and leave --over, --grid, --json, --resume"
            " and --dask out"
        )
    store.check_target(work.file, work.force)
    with _failures():
        found = curve(
            asked.model, asked.control, within=limits, accuracy=_accuracy(asked), **asked.given
        )
    store.save(work.file, found.assign_attrs(work.attrs), force=work.force)
    if not asked.quiet:
        folds = ", ".join(f"{f['value']:.8g}" for f in found.attrs["folds"]) or "none"
        typer.echo(
            f"{work.file}: {found.sizes['point']} points, transition: {found.attrs['transition']},"
            f" folds: {folds}"
        )


def _accuracy(asked: Asked) -> float:
    return ACCURACY if asked.accuracy is None else asked.accuracy


@contextmanager
def _failures() -> Iterator[None]:
    """A curve that could not be followed is one sentence and exit code 1."""
    try:
        yield
    except SolveError as error:
        typer.echo(f"replica: {error}", err=True)
        raise typer.Exit(1) from None


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
        shown = (
            f"none in {found.within[0]:g}..{found.within[1]:g}"
            if value is None
            else f"{value:.10g} ({found.error[name]:.0e})"
        )
        typer.echo(f"{name:<10}{shown:<28}{text}")
