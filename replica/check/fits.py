"""Trained attention: minimisers at finite D against the replica-symmetric theory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from solvers import Status

from ..errors import InputError, SolveError
from ..inputs import nearest
from ..jobs.checkpoint import TrialCheckpoint
from ..models import resolve
from ..precision import double_precision
from ..simulate import data, erm, measure
from ..simulate.attention import attention
from ..solution import Branch, Solution
from ..solve import solve
from . import trials as trial_runs
from .report import Report
from .trials import Log

MODEL = "slr-erm"
STARTS = ("random", "informed")
OVERLAPS = ("m_k", "q_k", "m_v", "q_v")
MEASURED = (*OVERLAPS, "risk", "training_loss", "energy")
WORSE = 1e-7
"""Difference of objectives per D that makes two minima different."""


@dataclass(frozen=True)
class Plan(trial_runs.Plan):
    """Also the optimiser, and the starts of every trial (the lowest objective counts)."""

    method: str = "lbfgs"
    starts: tuple[str, ...] = STARTS

    def how(self) -> dict[str, Any]:
        return {"method": self.method, "starts": list(self.starts)}

    @property
    def ridge(self) -> tuple[float, float]:
        return self.values["lam_k"], self.values["lam_v"]


def plan(given: dict[str, Any], method: str = "lbfgs", start: str = "best", **options: Any) -> Plan:
    """From settings and options; ``start`` is random, informed, or best (both, the lowest objective
    counts).
    """
    model, values = resolve(MODEL, given)
    if method not in erm.METHODS:
        raise InputError(f"there is no optimiser {method!r}: {nearest(method, erm.METHODS)}")
    if start not in (*STARTS, "best"):
        raise InputError(f"there is no start {start!r}: {nearest(start, (*STARTS, 'best'))}")
    return Plan(
        model, values, trial_runs.plan(**options), method, STARTS if start == "best" else (start,)
    )


def simulate(
    planned: Plan, tell: Log = lambda _: None, kept: TrialCheckpoint | None = None
) -> dict[str, np.ndarray]:
    """All trials: what is measured and how each fit ended, shape (sizes, trials, starts)."""
    sigma = attention(planned.model, planned.values, planned.tokens)
    compiled, predict = erm.programs(sigma), measure.predictor(sigma)
    with double_precision():
        images = measure.symmetry(predict, planned.tokens)

        def fitted(objective: erm.Objective, kind: str, rng: data.GENERATOR) -> dict[str, float]:
            drawn = objective.data
            fit = erm.minimise(objective, erm.start(kind, drawn, rng), planned.method)
            k, v = images.aligned(drawn, fit.k, fit.v, planned.ridge)
            risk = planned.risk(rng, predict, drawn, k, v)
            how = {
                "gradient_norm": fit.gradient_norm,
                "steps": fit.steps,
                "ended": list(erm.Ended).index(fit.status),
            }
            return (
                measure.overlaps(drawn, k, v)
                | {"risk": risk, "training_loss": fit.training_loss, "energy": fit.objective}
                | how
            )

        def trial(D: int, rng: data.GENERATOR) -> dict[str, list[float]]:
            drawn = planned.draw(D, rng)
            objective = erm.Objective(drawn, compiled, planned.ridge)
            rows = [fitted(objective, kind, rng) for kind in planned.starts]
            return {name: [row[name] for row in rows] for name in rows[0]}

        return trial_runs.run(planned.trials, trial, tell, kept)


def theory(planned: Plan) -> tuple[Solution, Branch]:
    """Every branch, and the one of lowest energy."""
    solution = solve(planned.model, **planned.values)
    if solution.best is None:
        raise SolveError(f"the theory has no solution here: {solution.branches[0].status.value}")
    return solution, solution.branches[solution.best]


def check(
    planned: Plan, tell: Log = lambda _: None, kept: TrialCheckpoint | None = None
) -> tuple[Report, xr.Dataset]:
    """Theory, simulation, and their comparison; the dataset holds every trial and the theory."""
    solution, branch = theory(planned)
    tell("theory: done")
    results = simulate(planned, tell, kept)
    lowest = results["energy"].argmin(axis=-1)[..., None]
    best = {
        name: np.take_along_axis(values, lowest, axis=-1)[..., 0]
        for name, values in results.items()
    }
    expected = {**branch.overlaps, **branch.observables}
    # The error of a sampled theory is twice its standard error.
    rows = tuple(
        trial_runs.compared(planned.trials, n, best[n], expected[n], branch.error[n] / 2)
        for n in MEASURED
    )
    problems = trial_runs.unconverged(best["ended"], list(erm.Ended), "fits")
    report = Report(
        MODEL,
        planned.settings(),
        rows,
        _references(results, best, branch),
        problems=problems,
        reasons=_reasons(branch),
    )
    return report, _dataset(planned, results, solution, report)


def _references(
    results: dict[str, np.ndarray], best: dict[str, np.ndarray], branch: Branch
) -> dict[str, float]:
    found = {
        "share of fits that did not converge": float(np.mean(results["ended"] != 0)),
        "replicon of the theory": branch.observables["replicon"],
    }
    for i, start in enumerate(STARTS if results["energy"].shape[-1] > 1 else ()):
        found[f"share of {start} starts in a worse minimum"] = float(
            np.mean(results["energy"][..., i] > best["energy"] + WORSE)
        )
    return found


def _reasons(branch: Branch) -> tuple[str, ...]:
    if branch.status is Status.SUCCESSFUL:
        return ()
    return (
        (
            f"the theory says why: {branch.status.value} (replicon"
            f" {branch.observables['replicon']:.3g})"
        ),
    )


def _dataset(
    planned: Plan, results: dict[str, np.ndarray], solution: Solution, report: Report
) -> xr.Dataset:
    labels = {
        "ended": {"flag_meanings": [e.value for e in erm.Ended]},
        "gradient_norm": {"long_name": "root mean square gradient per coordinate"},
    }
    return trial_runs.to_dataset(
        planned.trials, results, {"start": list(planned.starts)}, labels, report, solution
    )
