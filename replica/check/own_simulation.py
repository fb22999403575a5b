"""Theory against the simulation that comes with a user's own model: ``simulate(controls, D,
generator)`` in its file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from equations import Model, Source

from ..errors import InputError
from ..inputs import nearest, printable
from ..jobs.checkpoint import TrialCheckpoint
from ..models import resolve
from ..own_model import named, simulation
from ..solve import solve
from . import trials as trial_runs
from .measurements import branch_of
from .report import Report
from .trials import Log, Trials


@dataclass(frozen=True)
class Plan:
    """A model with its file and controls, the sizes and trials, and the branch of the theory."""

    model: Model
    source: Source
    values: dict[str, float]
    trials: Trials
    simulate: Callable[..., Any]
    start: str


def plan(name: str, given: Mapping[str, Any], start: str = "best", **how: Any) -> Plan:
    """From what a user gives."""
    model, values = resolve(name, given)
    source = model.source
    simulate = None if source is None else simulation(source)
    if source is None or not callable(simulate):
        raise InputError(
            f"{name} has no simulate(): add simulate(controls, D, generator), which returns"
            " {overlap or observable: number}, or give your own measurements with --csv FILE"
        )
    return Plan(model, source, values, trial_runs.plan(**how), simulate, start)


def what(planned: Plan) -> dict[str, Any]:
    """What is run."""
    runs = {
        "D": list(planned.trials.sizes),
        "trials": planned.trials.trials,
        "seed": planned.trials.seed,
        "start": planned.start,
    }
    return dict(planned.model.options) | printable(planned.values) | runs


def check(
    planned: Plan, tell: Log = lambda _: None, kept: TrialCheckpoint | None = None
) -> tuple[Report, xr.Dataset]:
    """Theory, simulation, and their comparison; the dataset holds every trial and the theory."""
    model = planned.model
    solution = solve(model, **planned.values)
    branch = branch_of(solution, planned.start, planned.source.file)
    tell("theory: done")
    expected = {**branch.overlaps, **branch.observables}
    results = trial_runs.run(
        planned.trials, lambda D, rng: _trial(planned, D, rng, expected), tell, kept
    )
    rows = tuple(
        trial_runs.compared(planned.trials, n, values, expected[n], branch.error[n])
        for n, values in results.items()
    )
    lost = [n for n, values in results.items() if not np.all(np.isfinite(values))]
    problems = (
        (f"simulate() returned numbers that are not finite for {', '.join(lost)}",) if lost else ()
    )
    reasons = (
        ("there are several branches here: choose one with --start",)
        if len(solution.branches) > 1
        else ()
    )
    report = Report(model.name, what(planned), rows, {}, problems=problems, reasons=reasons)
    return report, trial_runs.to_dataset(planned.trials, results, {}, {}, report, solution)


def _trial(
    planned: Plan, D: int, rng: np.random.Generator, expected: Mapping[str, float]
) -> dict[str, float]:
    """One call of the user's function, checked."""
    file = planned.source.file
    with named(planned.source):
        found = planned.simulate(dict(planned.values), D, rng)
    if not isinstance(found, Mapping) or not found:
        raise InputError(
            f"{file}: simulate() returned {type(found).__name__}: it must return a dict {{overlap"
            " or observable: number}"
        )
    for name in found:
        if name not in expected:
            known = nearest(str(name), expected)
            raise InputError(
                f"{file}: simulate() returned {name!r}, which is no overlap or observable of"
                f" {planned.model.name}: {known}"
            )
    try:
        return {name: float(value) for name, value in found.items()}
    except (TypeError, ValueError):
        raise InputError(
            f"{file}: simulate() must return numbers, it returned {dict(found)!r}"
        ) from None
