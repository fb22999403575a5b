"""Bayes-optimal single-location regression: message passing at finite D against state evolution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from equations import Model

from ..errors import InputError, SolveError
from ..inputs import nearest
from ..jobs.checkpoint import TrialCheckpoint
from ..models import resolve
from ..runtime.precision import double_precision
from ..simulate import data, measure, message_passing
from ..simulate.defaults import DAMPING, MAX_STEPS
from ..simulate.posterior import Posterior, posterior
from ..solution import Branch, Solution
from ..solve import solve
from ..theories import theory_of
from .base import Asked, Log, experiment, silent
from .location import LocationPlan
from .options import MessageOptions
from .report import Report
from .trials import (
    TrialExperiment,
    compare_trials,
    read_trials,
    run_trials,
    trials_dataset,
    unconverged,
)

MODEL = "slr-bayes"
STARTS = ("uninformed", "informed")
PAIRS = {"m_k": "q_k", "q_k": "q_k", "m_v": "q_v", "q_v": "q_v", "risk": "risk"}
"""What is measured, and what of the theory it tends to: m = q, as the estimate is a posterior mean
(Nishimori).
"""


@dataclass(frozen=True)
class MessagePlan(LocationPlan):
    """Also how messages are started and damped."""

    start: str = "uninformed"
    damping: float = DAMPING
    steps: int = MAX_STEPS

    def how(self) -> dict[str, Any]:
        return {"start": self.start, "damping": self.damping, "steps": self.steps}

    def passed(self, drawn: data.Data, known: Posterior) -> message_passing.Messages:
        """The messages of one data set, at their end."""
        return message_passing.run(drawn, known, self.start, self.damping, self.steps)


def simulate_messages(
    plan: MessagePlan, tell: Log = silent, kept: TrialCheckpoint | None = None
) -> dict[str, np.ndarray]:
    """All trials, shape (sizes, trials)."""
    endings = list(message_passing.Settled)
    with double_precision():
        known = posterior(plan.model, plan.values)

    def trial(D: int, rng: np.random.Generator) -> dict[str, float]:
        with double_precision():  # the setting is per thread
            drawn = plan.draw(D, rng)
            found = plan.passed(drawn, known)
            predict = partial(_predicted, known, found.V[0])
            return measure.overlaps(drawn, found.k, found.v) | {
                "risk": plan.risk(rng, predict, drawn, found.k, found.v),
                "steps": found.steps,
                "change": found.change,
                "ended": endings.index(found.status),
            }

    return run_trials(plan.trials, trial, tell, kept, plan.at_once(kept))


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


def followed_branch(plan: MessagePlan) -> tuple[Solution, Branch]:
    """Every branch of the theory, and the one that message passing from ``plan.start`` follows."""
    solution = solve(plan.model, **plan.values)
    branch = solution.branch(plan.start)
    if not branch.ok:
        raise SolveError(
            f"the theory has no solution from the {plan.start} start: {branch.status.value}"
        )
    return solution, branch


@experiment(MODEL)
class MessagePassing(TrialExperiment):
    """Message passing against the branch that state evolution leads to from the same start."""

    options: ClassVar[type] = MessageOptions

    def prepare(self, asked: Asked, options: MessageOptions) -> MessagePlan:
        model, values = resolve(asked.model, asked.given)
        start, damping, steps = options.start, options.damping, options.steps
        if "location" in model.options:
            raise InputError(
                "message passing is there for a uniform location only so far: leave location out"
            )
        if start not in STARTS:
            raise InputError(f"there is no start {start!r}: {nearest(start, STARTS)}")
        if not 0 <= damping < 1:
            raise InputError(f"damping = {damping:g} must be at least 0 and less than 1")
        if steps < 1:
            raise InputError(f"steps = {steps} must be at least 1")
        trials = read_trials(options.sizes, options.trials, options.seed)
        return MessagePlan(model, values, trials, start, damping, steps)

    def perform(
        self, prepared: MessagePlan, tell: Log = silent, kept: TrialCheckpoint | None = None
    ) -> Report:
        prepared.announce(tell)
        solution, branch = followed_branch(prepared)
        tell("theory: done")
        results = simulate_messages(prepared, tell, kept)
        endings = list(message_passing.Settled)
        report = Report(
            MODEL,
            prepared.settings(),
            tuple(compare_trials(prepared, n, results[n], branch, of) for n, of in PAIRS.items()),
            {
                "share of runs that did not converge": float(np.mean(results["ended"] != 0)),
                "mean number of steps": float(results["steps"].mean()),
            },
            problems=unconverged(results["ended"], endings, "runs"),
            reasons=_reasons(solution),
        )
        labels = {"ended": {"flag_meanings": [s.value for s in endings]}}
        dataset = trials_dataset(prepared.trials, results, {}, labels, report, solution)
        return replace(report, dataset=dataset)


def _reasons(solution: Solution) -> tuple[str, ...]:
    if len(solution.branches) < 2:
        return ()
    return (
        "there are several branches here, and at finite D a run may end on another one than its"
        " start leads to",
    )
