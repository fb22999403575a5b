"""What ``replica phase`` does: thresholds at one point, or lines over a second control."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import typer

from equations.numerals import real, shown

from ..dynamics.boundaries import BOUNDARIES, Boundaries
from ..errors import InputError, SolveError
from ..files import store
from ..files.writer import check_target
from ..jobs.run import JobOptions
from ..models import control_of
from ..phase.curve import curve
from ..phase.maps.branch_map import is_branch_map
from ..phase.maps.diagram import diagram
from ..phase.maps.diagram_table import TRANSITIONS
from ..phase.thresholds import ACCURACY, NAMES, WEAK, Thresholds, checked, thresholds
from ..sweeps.dataset import failures
from ..sweeps.sweep import grid, read_over
from .boundary import NEEDS_FILE, print_boundary, store_boundaries
from .shared import say


@dataclass(frozen=True)
class PhaseRequest:
    """What was asked on the command line."""

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


def print_or_store(request: PhaseRequest, work: JobOptions) -> None:
    """Thresholds or a boundary at one point, printed; a curve or a diagram, into a file. Exit code
    1 if a curve could not be followed or a point failed.
    """
    if request.model in BOUNDARIES:
        return _immediate(BOUNDARIES[request.model], request, work)
    limits = _limits(request.within)
    if request.whole:
        _store_curve(request, limits, work)
    elif not request.over:
        _print_thresholds(request, limits, work)
    elif work.file is None or request.as_json:
        raise InputError(NEEDS_FILE)
    else:
        _store_diagram(request, limits, work)


def _immediate(boundaries: Boundaries, request: PhaseRequest, work: JobOptions) -> None:
    """Boundaries that are formulas."""
    if work.resume or work.dask is not None or request.whole or request.grid is not None:
        raise InputError(
            f"the boundaries of {request.model} are immediate: leave out --resume, --dask, --curve"
            " and --grid"
        )
    if request.over:
        store_boundaries(boundaries, request.given, request.over, request.as_json, work)
    else:
        print_boundary(boundaries, request.given, request.control, request.as_json, work)


def _print_thresholds(
    request: PhaseRequest, limits: tuple[float, float] | None, work: JobOptions
) -> None:
    if work.file is not None or work.resume or work.dask is not None or request.grid is not None:
        raise InputError(
            "-o needs --over, and so do --grid, --resume and --dask: without it there is one point,"
            " use --json (or --curve)"
        )
    with _failures():
        found = thresholds(
            request.model,
            request.control,
            within=limits,
            accuracy=_accuracy(request),
            **request.given,
        )
    typer.echo(json.dumps(found.to_dict())) if request.as_json else _print(found)


def _store_diagram(
    request: PhaseRequest, limits: tuple[float, float] | None, work: JobOptions
) -> None:
    names = [pair.partition("=")[0].strip() for pair in request.over]
    built, _ = checked(request.model, request.control, request.given, tuple(names))
    quantity = control_of(built, request.control)
    values = None if request.grid is None else grid(quantity, request.grid, "--grid ")
    over = read_over(built, request.over)
    dataset = diagram(
        request.model,
        request.control,
        over,
        request.given,
        limits,
        request.accuracy,
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
    if not request.quiet:
        typer.echo(
            f"{work.file}: {total} {'points' if is_branch_map(dataset) else 'columns'}, {failed}"
            " failed"
        )
    for where, reason in why.items():
        say(f"replica: {where}: {reason}", err=True)
    if failed:
        raise typer.Exit(1)


def _store_curve(
    request: PhaseRequest, limits: tuple[float, float] | None, work: JobOptions
) -> None:
    if (
        request.over
        or work.file is None
        or request.as_json
        or request.grid is not None
        or work.resume
        or work.dask is not None
    ):
        raise InputError(
            "--curve stores one curve: give -o FILE.h5, and leave --over, --grid, --json, --resume"
            " and --dask out"
        )
    check_target(work.file, work.force)
    with _failures():
        found = curve(
            request.model,
            request.control,
            within=limits,
            accuracy=_accuracy(request),
            **request.given,
        )
    store.save(work.file, found.assign_attrs(work.attrs), force=work.force)
    if not request.quiet:
        folds = ", ".join(f"{f['value']:.8g}" for f in found.attrs["folds"]) or "none"
        typer.echo(
            f"{work.file}: {found.sizes['point']} points, transition: {found.attrs['transition']},"
            f" folds: {folds}"
        )


def _accuracy(request: PhaseRequest) -> float:
    return ACCURACY if request.accuracy is None else request.accuracy


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
        low, high = map(real, text.split(":"))
    except ValueError:
        raise InputError(f"cannot read --within {shown(text)}: write low:high") from None
    return low, high


def _print(found: Thresholds) -> None:
    fixed = ", ".join(f"{k}={v:g}" for k, v in found.controls.items())
    typer.echo(f"{found.model}  {fixed}  transition along {found.control}: {found.transition}")
    if found.alpha_weak is not None:
        words = f"{found.alpha_weak:.10g} ({found.error[WEAK]:.0e})"
        typer.echo(f"{WEAK:<11}{words:<27}trivial branch loses stability")
    meaning = ("informed branch appears", "free energies are equal", "uninformed branch disappears")
    for name, text in zip(NAMES, meaning, strict=True):
        value = getattr(found, name)
        words = (
            f"none in {found.within[0]:g}..{found.within[1]:g}"
            if value is None
            else f"{value:.10g} ({found.error[name]:.0e})"
        )
        typer.echo(f"{name:<10}{words:<28}{text}")
    for name, places in (("folds", found.folds), ("branch points", found.branch_points)):
        if places:
            values = ", ".join(f"{place['value']:.8g}" for place in places)
            typer.echo(f"{name}: {values}")
