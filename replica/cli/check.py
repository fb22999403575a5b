"""What ``replica check`` does: run a simulation, print theory against simulation, exit 1 if they
disagree.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
import xarray as xr
from rich.console import Console

from .. import own_model
from ..check import ascent as subspace_check
from ..check import fits, measurements, own_simulation, state_evolution
from ..check.report import Report
from ..check.trials import Trials
from ..errors import InputError, SolveError
from ..files import store
from ..inputs import nearest
from ..jobs.checkpoint import TrialCheckpoint, keeping
from ..jobs.run import JobOptions
from ..models import resolve

Check = Callable[[dict[str, Any], dict[str, Any], JobOptions], Report]
"""(controls, options of the simulation, where to store it) -> report."""


def _stored(found: tuple[Report, xr.Dataset], work: JobOptions) -> Report:
    if work.file is not None:
        store.save(work.file, found[1].assign_attrs(work.attrs), force=work.force)
    return found[0]


def _once(work: JobOptions) -> None:
    """For what is stored at its end only."""
    if work.resume:
        raise InputError(
            "this check is stored at its end and has no --resume: leave it out, or pass --force to"
            " replace a file"
        )
    if work.file is not None:
        store.check_target(work.file, work.force)


def _subspace(given: dict[str, Any], options: dict[str, Any], work: JobOptions) -> Report:
    _once(work)
    _, values = resolve("subspace", given)
    ascent = subspace_check.plan(**values, **options)
    typer.echo(
        f"replica: {ascent.trials} trials of {ascent.steps} steps, {ascent.informative} of"
        f" {ascent.L} tokens informative, d = {ascent.d}, {ascent.tokens} tokens, {ascent.dtype}:"
        f" about {ascent.memory() / 1e6:.0f} MB",
        err=True,
    )
    return _stored(subspace_check.check(ascent), work)


def _tell(text: str) -> None:
    typer.echo(f"replica: {text}", err=True)


def _kept(
    trials: Trials,
    what: dict[str, Any],
    work: JobOptions,
    compare: Callable[[TrialCheckpoint], tuple[Report, xr.Dataset]],
) -> Report:
    """A check whose trials are stored as they finish; ``what`` says which."""
    with keeping(work, trials.sizes, trials.trials, what) as kept:
        report, dataset = compare(kept)
        kept.finish(dataset.assign_attrs(work.attrs))
    return report


def _trials(check: Any) -> Check:
    """A check by independent trials at several D."""

    def perform(given: dict[str, Any], options: dict[str, Any], work: JobOptions) -> Report:
        planned = check.plan(given, **options)
        what = {"kind": "check", "model": check.MODEL, "settings": planned.settings()}

        def compare(kept: TrialCheckpoint) -> tuple[Report, xr.Dataset]:
            largest, size = max(planned.trials.sizes), planned.memory() / 1e6
            _tell(f"trials one by one, one at D = {largest} takes {size:.0f} MB beyond the program")
            return check.check(planned, _tell, kept)

        return _kept(planned.trials, what, work, compare)

    return perform


CHECKS: dict[str, tuple[Check, tuple[str, ...]]] = {
    "subspace": (_subspace, ("trials", "steps", "batch", "tokens", "dtype", "seed")),
    "slr-erm": (_trials(fits), ("sizes", "trials", "method", "start", "seed")),
    "slr-bayes": (
        _trials(state_evolution),
        ("sizes", "trials", "start", "damping", "steps", "seed"),
    ),
}
"""What is run, and the options it has."""
FLAGS = {"sizes": "D"}
"""Names on the command line where they differ."""


def _user(path: Path, model: str | None) -> Check:
    """The check of a user's own measurements."""

    def perform(given: dict[str, Any], options: dict[str, Any], work: JobOptions) -> Report:
        _once(work)
        return _stored(measurements.check(path, model, given, tell=_tell, **options), work)

    return perform


def _own(model: str) -> Check:
    """The check of a user's own model by the simulation in its file."""

    def perform(given: dict[str, Any], options: dict[str, Any], work: JobOptions) -> Report:
        planned = own_simulation.plan(model, given, **options)
        what = {
            "kind": "check",
            "model": planned.model.name,
            "settings": own_simulation.what(planned),
            "source_sha256": planned.source.sha256,
        }
        return _kept(
            planned.trials, what, work, lambda kept: own_simulation.check(planned, _tell, kept)
        )

    return perform


def _chosen(model: str | None, file: Path | None) -> tuple[Check, tuple[str, ...]]:
    if file is not None:
        return _user(file, model), ("start",)
    if model is None:
        raise InputError(
            f"which model? There is {', '.join(CHECKS)}; or give your own simulations with --csv"
            " FILE"
        )
    if own_model.is_file(model):
        return _own(model), ("sizes", "trials", "start", "seed")
    if model not in CHECKS:
        raise InputError(
            f"there is no simulation of {model!r} to check against: {nearest(model, CHECKS)}"
        )
    return CHECKS[model]


def run(
    model: str | None,
    given: dict[str, Any],
    options: dict[str, Any],
    as_json: bool,
    work: JobOptions,
    file: Path | None = None,
) -> None:
    """One command line; options that are None take the check's own default, ``file`` holds
    measurements of the user's own.
    """
    perform, known = _chosen(model, file)
    options = {name: value for name, value in options.items() if value is not None}
    for name in options:
        if name not in known:
            flags = ", ".join(f"--{FLAGS.get(n, n)}" for n in known)
            raise InputError(
                f"the check of {model if file is None else file} has no --{FLAGS.get(name, name)}:"
                f" it has {flags}"
            )
    if work.resume and (work.file is None or work.force):
        raise InputError(
            "--resume continues the file of -o: give its name, and leave --force out, which"
            " replaces it"
        )
    try:
        report = perform(given, options, work)
    except SolveError as problem:  # a failed solve, not a mistake of the user's
        _tell(str(problem))
        raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps(report.to_dict(), indent=2))
    else:
        Console().print(report.table())
        typer.echo("\n".join(report.notes()))
        typer.echo(report.verdict)
    if not report.agrees:
        typer.echo(f"replica: {report.verdict}", err=True)
        raise typer.Exit(1)
