"""Bayes-optimal single-location regression: message passing at finite D against state evolution."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr

from equations import Model

from ..errors import InputError, SolveError
from ..inputs import nearest
from ..jobs.checkpoint import TrialCheckpoint
from ..models import resolve
from ..precision import double_precision
from ..simulate import data, measure, message_passing
from ..simulate.posterior import Posterior, posterior
from ..solution import Branch, Solution
from ..solve import solve
from ..theories import theory_of
from . import trials as trial_runs
from .report import Report
from .trials import Log

MODEL = "slr-bayes"
STARTS = ("uninformed", "informed")
PAIRS = {"m_k": "q_k", "q_k": "q_k", "m_v": "q_v", "q_v": "q_v", "risk": "risk"}
"""What is measured, and what of the theory it tends to: m = q, as the estimate is a posterior mean
(Nishimori).
"""


@dataclass(frozen=True)
class Plan(trial_runs.Plan):
    """Also how messages are started and damped."""

    start: str = "uninformed"
    damping: float = message_passing.DAMPING
    steps: int = message_passing.MAX_STEPS

    def how(self) -> dict[str, Any]:
        return {"start": self.start, "damping": self.damping, "steps": self.steps}

    def passed(self, drawn: data.Data, known: Posterior) -> message_passing.Messages:
        return message_passing.run(drawn, known, self.start, self.damping, self.steps)


def plan(
    given: dict[str, Any],
    start: str = "uninformed",
    damping: float = message_passing.DAMPING,
    steps: int | None = None,
    **options: Any,
) -> Plan:
    """From settings and options."""
    model, values = resolve(MODEL, given)
    if "location" in model.options:
        raise InputError(
            "message passing is there for a uniform location only so far: leave location out"
        )
    if start not in STARTS:
        raise InputError(f"there is no start {start!r}: {nearest(start, STARTS)}")
    if not 0 <= damping < 1:
        raise InputError(f"damping = {damping:g} must be at least 0 and less than 1")
    steps = message_passing.MAX_STEPS if steps is None else steps
    if steps < 1:
        raise InputError(f"steps = {steps} must be at least 1")
    return Plan(model, values, trial_runs.plan(**options), start, damping, steps)


def simulate(
    planned: Plan, tell: Log = lambda _: None, kept: TrialCheckpoint | None = None
) -> dict[str, np.ndarray]:
    """All trials, shape (sizes, trials)."""
    endings = list(message_passing.Settled)
    with double_precision():
        known = posterior(planned.model, planned.values)

        def trial(D: int, rng: data.GENERATOR) -> dict[str, float]:
            drawn = planned.draw(D, rng)
            found = planned.passed(drawn, known)
            risk = planned.risk(
                rng, partial(_predicted, known, found.V[0]), drawn, found.k, found.v
            )
            how = {
                "steps": found.steps,
                "change": found.change,
                "ended": endings.index(found.status),
            }
            return measure.overlaps(drawn, found.k, found.v) | {"risk": risk} | how

        return trial_runs.run(planned.trials, trial, tell, kept)


def _predicted(
    known: Posterior, V_k: float, chi: np.ndarray, z: np.ndarray, present: np.ndarray | None
) -> np.ndarray:
    return np.asarray(known.predict(chi, z, present, V_k))


def state_evolution(
    model: Model, values: dict[str, float], steps: int, start: str = "uninformed"
) -> dict[str, np.ndarray]:
    """Overlaps at t = 0..steps: q <- F(q) with the map of the theory."""
    names = [q.name for q in model.overlaps]
    controls = jnp.array([values[q.name] for q in model.controls])
    with double_precision():
        theory = theory_of(model)
        sizes = theory.node_sizes(values)
        path = [np.array([float(model.starts[start][n]) for n in names])]
        for _ in range(steps):
            path.append(theory.state(controls, jnp.asarray(path[-1]), sizes).update)
    return dict(zip(names, np.array(path).T, strict=True))


def theory(planned: Plan) -> tuple[Solution, Branch]:
    """Every branch, and the one that message passing from ``planned.start`` follows."""
    solution = solve(planned.model, **planned.values)
    branch = solution.branch(planned.start)
    if not branch.ok:
        raise SolveError(
            f"the theory has no solution from the {planned.start} start: {branch.status.value}"
        )
    return solution, branch


def check(
    planned: Plan, tell: Log = lambda _: None, kept: TrialCheckpoint | None = None
) -> tuple[Report, xr.Dataset]:
    """Theory, simulation, and their comparison; the dataset holds every trial and the theory."""
    solution, branch = theory(planned)
    tell("theory: done")
    results = simulate(planned, tell, kept)
    expected = {**branch.overlaps, **branch.observables}
    rows = tuple(
        trial_runs.compared(planned.trials, n, results[n], expected[of], branch.error[of])
        for n, of in PAIRS.items()
    )
    problems = trial_runs.unconverged(results["ended"], list(message_passing.Settled), "runs")
    missed = float(np.mean(results["ended"] != 0))
    references = {
        "share of runs that did not converge": missed,
        "mean number of steps": float(results["steps"].mean()),
    }
    report = Report(
        MODEL,
        planned.settings(),
        rows,
        references,
        problems=problems,
        reasons=_reasons(solution, branch),
    )
    labels = {"ended": {"flag_meanings": [s.value for s in message_passing.Settled]}}
    return report, trial_runs.to_dataset(planned.trials, results, {}, labels, report, solution)


def _reasons(solution: Solution, branch: Branch) -> tuple[str, ...]:
    if len(solution.branches) < 2:
        return ()
    return (
        (
            "there are several branches here, and at finite D a run may end on another one than its"
            " start leads to"
        ),
    )
