"""Trained attention: minimisers at finite D against the replica-symmetric theory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import xarray as xr

from solvers import Status

from ..errors import InputError, SolveError
from ..inputs import nearest
from ..jobs.checkpoint import TrialCheckpoint
from ..models import resolve
from ..runtime.precision import double_precision
from ..simulate import erm, measure
from ..simulate.attention import attention
from ..solution import Branch, Solution
from ..solve import solve
from .base import Asked, Log, experiment, silent
from .location import LocationPlan
from .options import FitOptions
from .report import Report
from .trials import (
    TrialExperiment,
    compare_trials,
    read_trials,
    run_trials,
    trials_dataset,
    unconverged,
)

MODEL = "slr-erm"
STARTS = ("random", "informed")
OVERLAPS = ("m_k", "q_k", "m_v", "q_v")
MEASURED = (*OVERLAPS, "risk", "training_loss", "energy")
WORSE = 1e-7
"""Difference of objectives per D that makes two minima different."""


@dataclass(frozen=True)
class FitPlan(LocationPlan):
    """Also the optimiser, and the starts of every trial (the lowest objective counts)."""

    method: str = "lbfgs"
    starts: tuple[str, ...] = STARTS

    def how(self) -> dict[str, Any]:
        return {"method": self.method, "starts": list(self.starts)}

    @property
    def ridge(self) -> tuple[float, float]:
        return self.values["lam_k"], self.values["lam_v"]


class _Fitting:
    """The compiled programs of a plan; a trial draws data and fits from every start."""

    def __init__(self, plan: FitPlan) -> None:
        sigma = attention(plan.model, plan.values, plan.tokens)
        self.plan = plan
        self.compiled, self.predict = erm.programs(sigma), measure.predictor(sigma)
        with double_precision():
            self.images = measure.symmetry(self.predict, plan.tokens)

    def trial(self, D: int, rng: np.random.Generator) -> dict[str, list[float]]:
        """What is measured, by name, one number a start."""
        drawn = self.plan.draw(D, rng)
        objective = erm.Objective(drawn, self.compiled, self.plan.ridge)
        rows = [self.fit(objective, kind, rng) for kind in self.plan.starts]
        return {name: [row[name] for row in rows] for name in rows[0]}

    def fit(
        self, objective: erm.Objective, kind: str, rng: np.random.Generator
    ) -> dict[str, float]:
        """From one start; the minimum is one of several images, the one along the teacher."""
        drawn = objective.data
        found = erm.minimise(objective, erm.start(kind, drawn, rng), self.plan.method)
        k, v = self.images.aligned(drawn, found.k, found.v, self.plan.ridge)
        return measure.overlaps(drawn, k, v) | {
            "risk": self.plan.risk(rng, self.predict, drawn, k, v),
            "training_loss": found.training_loss,
            "energy": found.objective,
            "gradient_norm": found.gradient_norm,
            "steps": found.steps,
            "ended": list(erm.Ended).index(found.status),
        }


def simulate_fits(
    plan: FitPlan, tell: Log = silent, kept: TrialCheckpoint | None = None
) -> dict[str, np.ndarray]:
    """All trials: what is measured and how each fit ended, shape (sizes, trials, starts)."""
    fitting = _Fitting(plan)

    def trial(D: int, rng: np.random.Generator) -> dict[str, list[float]]:
        with double_precision():  # the setting is per thread
            return fitting.trial(D, rng)

    return run_trials(plan.trials, trial, tell, kept, plan.at_once(kept))


def lowest_energy(plan: FitPlan) -> tuple[Solution, Branch]:
    """Every branch of the theory, and the one of lowest energy."""
    solution = solve(plan.model, **plan.values)
    best = solution.equilibrium
    if best is None:
        raise SolveError(f"the theory has no solution here: {solution.branches[0].status.value}")
    return solution, best


@experiment(MODEL)
class Fits(TrialExperiment):
    """Independent fits against the branch of lowest energy."""

    options: ClassVar[type] = FitOptions

    def prepare(self, asked: Asked, options: FitOptions) -> FitPlan:
        model, values = resolve(asked.model, asked.given)
        method, start, every = options.method, options.start, (*STARTS, "best")
        if method not in erm.METHODS:
            raise InputError(f"there is no optimiser {method!r}: {nearest(method, erm.METHODS)}")
        if start not in every:
            raise InputError(f"there is no start {start!r}: {nearest(start, every)}")
        trials = read_trials(options.sizes, options.trials, options.seed)
        return FitPlan(model, values, trials, method, STARTS if start == "best" else (start,))

    def perform(
        self, prepared: FitPlan, tell: Log = silent, kept: TrialCheckpoint | None = None
    ) -> Report:
        prepared.announce(tell)
        solution, branch = lowest_energy(prepared)
        tell("theory: done")
        results = simulate_fits(prepared, tell, kept)
        best = _lowest(results)
        report = Report(
            MODEL,
            prepared.settings(),
            tuple(compare_trials(prepared, name, best[name], branch) for name in MEASURED),
            _references(results, best, branch),
            problems=unconverged(best["ended"], list(erm.Ended), "fits"),
            reasons=_reasons(branch),
        )
        return replace(report, dataset=_dataset(prepared, results, solution, report))


def _lowest(results: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Of the starts of each trial, the one that ended at the lowest objective."""
    lowest = results["energy"].argmin(axis=-1)[..., None]
    return {
        name: np.take_along_axis(values, lowest, axis=-1)[..., 0]
        for name, values in results.items()
    }


def _references(
    results: dict[str, np.ndarray], best: dict[str, np.ndarray], branch: Branch
) -> dict[str, float]:
    found = {
        "share of fits that did not converge": float(np.mean(results["ended"] != 0)),
        "replicon of the theory": branch.observables["replicon"],
    }
    if results["energy"].shape[-1] < 2:
        return found
    for i, start in enumerate(STARTS):
        worse = results["energy"][..., i] > best["energy"] + WORSE
        found[f"share of {start} starts in a worse minimum"] = float(np.mean(worse))
    return found


def _reasons(branch: Branch) -> tuple[str, ...]:
    if branch.status is Status.SUCCESSFUL:
        return ()
    replicon = f"replicon {branch.observables['replicon']:.3g}"
    return (f"the theory says why: {branch.status.value} ({replicon})",)


def _dataset(
    plan: FitPlan, results: dict[str, np.ndarray], solution: Solution, report: Report
) -> xr.Dataset:
    labels = {
        "ended": {"flag_meanings": [e.value for e in erm.Ended]},
        "gradient_norm": {"long_name": "root mean square gradient per coordinate"},
    }
    starts = {"start": list(plan.starts)}
    return trials_dataset(plan.trials, results, starts, labels, report, solution)
