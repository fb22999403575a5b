"""Theory against the simulation that comes with a user's own model: ``simulate(controls, D,
generator)`` in its file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from equations import Model, Source

from ..errors import InputError
from ..inputs import nearest
from ..jobs.checkpoint import TrialCheckpoint
from ..models import resolve
from ..models.own_model import is_file, named, simulation
from ..solution import Solution
from ..solve import solve
from .base import Asked, Log, experiment, silent
from .measurements import chosen_branch
from .options import SimulationOptions
from .report import Report
from .trials import (
    TrialExperiment,
    TrialPlan,
    compare_trials,
    read_trials,
    run_trials,
    trials_dataset,
)


@dataclass(frozen=True)
class SimulationPlan(TrialPlan):
    """Also the user's function, the file it is in, and the branch of the theory."""

    source: Source
    simulate: Callable[..., Any]
    start: str

    def how(self) -> dict[str, Any]:
        return {"start": self.start}


@experiment("file")
class OwnSimulation(TrialExperiment):
    """The function of the user's file against the chosen branch."""

    options: ClassVar[type] = SimulationOptions
    of_one_model: ClassVar[bool] = False
    label: ClassVar[str] = "your own .py"

    def applies(self, asked: Asked) -> bool:
        if asked.csv is not None:
            return False
        if isinstance(asked.model, Model):
            return asked.model.source is not None
        return is_file(asked.model)

    def prepare(self, asked: Asked, options: SimulationOptions) -> SimulationPlan:
        model, values = resolve(asked.model, asked.given)
        source = model.source
        simulate = None if source is None else simulation(source)
        if source is None or not callable(simulate):
            raise InputError(
                f"{asked.name} has no simulate(): add simulate(controls, D, generator), which"
                " returns {overlap or observable: number}, or give your own measurements with"
                " --csv FILE"
            )
        trials = read_trials(options.sizes, options.trials, options.seed)
        return SimulationPlan(model, values, trials, source, simulate, options.start)

    def perform(
        self, prepared: SimulationPlan, tell: Log = silent, kept: TrialCheckpoint | None = None
    ) -> Report:
        solution = solve(prepared.model, **prepared.values)
        branch = chosen_branch(solution, prepared.start, prepared.source.file)
        tell("theory: done")
        expected = {**branch.overlaps, **branch.observables}
        results = run_trials(
            prepared.trials,
            lambda D, rng: _checked_trial(prepared, D, rng, expected),
            tell,
            kept,
            # Nobody but its author knows whether a function may run twice at a time.
            1 if kept is None or kept.jobs is None else kept.jobs,
        )
        report = Report(
            prepared.model.name,
            prepared.settings(),
            tuple(compare_trials(prepared, n, values, branch) for n, values in results.items()),
            {},
            problems=_problems(results),
            reasons=_reasons(solution),
        )
        dataset = trials_dataset(prepared.trials, results, {}, {}, report, solution)
        return replace(report, dataset=dataset)


def _problems(results: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    lost = [name for name, values in results.items() if not np.all(np.isfinite(values))]
    if not lost:
        return ()
    return (f"simulate() returned numbers that are not finite for {', '.join(lost)}",)


def _reasons(solution: Solution) -> tuple[str, ...]:
    if len(solution.branches) < 2:
        return ()
    return ("there are several branches here: choose one with --start",)


def _checked_trial(
    plan: SimulationPlan, D: int, rng: np.random.Generator, expected: Mapping[str, float]
) -> dict[str, float]:
    """One call of the user's function: numbers by names that the theory has."""
    file = plan.source.file
    with named(plan.source):
        found = plan.simulate(dict(plan.values), D, rng)
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
                f" {plan.model.name}: {known}"
            )
    try:
        return {name: float(value) for name, value in found.items()}
    except (TypeError, ValueError):
        raise InputError(
            f"{file}: simulate() must return numbers, it returned {dict(found)!r}"
        ) from None
