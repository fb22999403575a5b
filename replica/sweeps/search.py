r"""The search for the best regularisation: an observable minimised over the logarithm of controls.

    g(t) = O(x*(t), t),     t = log lam,
    dg/dt = dO/dt + dO/dx (1 - J)^{-1} dF/dt   at the fixed point x* = F(x*, t)

With averages by quadrature, or on one fixed set of samples, g is smooth, and L-BFGS-B (SciPy)
finds its minimum on the branch of lowest free energy. The result is solved again from every start,
on as many samples as the accuracy needs. That the search used fewer moves the optimum by about
H^{-1} g', g' the gradient on the many samples and H the curvature, which is reported; the value
changes in second order only. Source: theory.md section 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from equations import Model
from solvers import Status

from ..runtime.precision import double_precision
from ..solution import Branch, Solution
from ..solve import solve
from ..theories import Settings, theory_of

RANGE = 1e-5, 1e5
"""Where controls are searched that may be any positive number."""
INSIDE = 1 - 1e-6
FLAT = 1e-4
"""Largest derivative in log lam that counts as zero."""
EVALUATIONS = 60
SEARCHES = 2
"""So often is the search begun anew on a better branch."""
STEP = 0.1
"""Of the differences, in log lam, that give the curvature."""


@dataclass(frozen=True)
class Optimum:
    """Where an observable is smallest.

    Attributes
    ----------
    at : dict of control -> value
        The best values of the controls searched over.
    value, error : float
        The observable there, and its error estimate (twice the standard error over the samples).
    error_at : dict of control -> float
        How far the optimum may lie from ``at``: by the gradient that the search has left over, or
        on the samples of ``solution``, to first order (NaN where the curvature is not positive).
    gradient : dict of control -> float
        d observable / d log control at the end of the search, on its samples.
    status : Status
        SUCCESSFUL, AT_EDGE (the minimum lies beyond the range searched), MAX_STEPS, or what stopped
        a fixed point.
    evaluations : int
        Fixed points solved during the search.
    solution : Solution
        Every branch at the optimum; the value is that of its best branch.
    """

    at: dict[str, float]
    value: float
    error: float
    error_at: dict[str, float]
    gradient: dict[str, float]
    status: Status
    evaluations: int
    solution: Solution

    @property
    def branch(self) -> Branch | None:
        """The branch the value belongs to."""
        return self.solution.equilibrium


def find_optimum(
    model: Model,
    begin: Mapping[str, float],
    observable: str,
    settings: Settings,
    values: dict[str, float],
) -> Optimum:
    """Search on few samples along one branch; solve from every start at its end, and search again
    if another branch is the best one there.
    """
    names, at, evaluations = list(begin), dict(begin), 0
    with double_precision():
        x = _best_start(model, {**values, **at}, settings)
        for _ in range(SEARCHES):
            goal = Objective(model, names, observable, settings, values, x)
            end = _descended(goal, np.log([at[n] for n in names]))
            at = dict(zip(names, map(float, np.exp(end.t)), strict=True))
            evaluations += goal.evaluations
            solution = solve(model, settings=settings, **values, **at)
            best = solution.equilibrium
            status = end.status
            if best is None or not status.is_point or _near(best, goal.branch.x):
                break
            x = _overlaps(best)
        else:  # the best branch at the optimum of each branch is another one
            status = Status.MAX_STEPS
        distance = np.full(len(names), np.nan)
        if best is not None and status is Status.SUCCESSFUL:
            distance = goal.branch.margin * np.abs(_refined_distance(goal, end.t, best))
    if status is Status.SUCCESSFUL:
        status = solution.branches[0].status if best is None else best.status
    return Optimum(
        at=at,
        value=np.nan if best is None else best.observables[observable],
        error=np.nan if best is None else best.error[observable],
        error_at={n: at[n] * float(d) for n, d in zip(names, distance, strict=True)},
        gradient=dict(zip(names, map(float, end.gradient), strict=True)),
        status=status,
        evaluations=evaluations,
        solution=solution,
    )


def _best_start(model: Model, values: dict[str, float], settings: Settings) -> np.ndarray:
    """The best branch where the search begins, at whatever accuracy."""
    solution = solve(model, settings=replace(settings, accuracy=np.inf), **values)
    best = solution.equilibrium
    if best is None:
        return theory_of(model).start_vector([*model.starts.values()][-1], values)
    return _overlaps(best)


def _overlaps(branch: Branch) -> np.ndarray:
    """In the order of the model's."""
    return np.array(list(branch.overlaps.values()))


def _near(branch: Branch, x: np.ndarray) -> bool:
    """Whether the branch is the one followed on fewer samples."""
    return bool(np.all(np.abs(_overlaps(branch) - x) <= 0.1 * (1 + np.abs(x))))


# g and its minimum -------------------------------------------------------------------------------


class StoppedError(Exception):
    """A fixed point failed during the search."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.value)
        self.status = status


class Objective:
    """g and its gradient in t, following one branch from one evaluation to the next."""

    def __init__(
        self,
        model: Model,
        names: Sequence[str],
        observable: str,
        settings: Settings,
        values: Mapping[str, float],
        x: np.ndarray,
    ) -> None:
        self.model, self.names, self.values = model, list(names), dict(values)
        self.branch = theory_of(model).followed(x, settings, observable)
        all_names = [q.name for q in model.controls]
        self.columns = [all_names.index(n) for n in names]
        self.evaluations = 0

    def controls(self, t: np.ndarray) -> np.ndarray:
        """All controls, in the model's order."""
        values = {**self.values, **dict(zip(self.names, np.exp(t), strict=True))}
        return np.array([values[q.name] for q in self.model.controls])

    def ranges(self) -> np.ndarray:
        """Where the controls are searched, shape (2, controls): below the end of their range."""
        ends = [quantity.high for quantity in self.model.controls]
        return np.array([[RANGE[0], min(RANGE[1], INSIDE * ends[i])] for i in self.columns]).T

    def __call__(self, t: np.ndarray) -> tuple[float, np.ndarray]:
        moved = self.branch.to(self.controls(t), self.basis(t))
        self.evaluations += 1
        if moved.status is not Status.SUCCESSFUL:
            raise StoppedError(moved.status)
        return moved.value, moved.gradient

    def basis(self, t: np.ndarray) -> np.ndarray:
        """d controls / d t, one row per entry of t."""
        c = self.controls(t)
        basis = np.zeros((len(t), len(c)))
        basis[range(len(t)), self.columns] = c[self.columns]
        return basis


class Descent(NamedTuple):
    """Where a search has ended, the gradient there, and how it ended."""

    t: np.ndarray
    gradient: np.ndarray
    status: Status


def _descended(goal: Objective, begin: np.ndarray) -> Descent:
    """L-BFGS-B inside ``RANGE``."""
    low, high = np.log(goal.ranges())
    seen: list[tuple[float, np.ndarray, np.ndarray]] = []

    def value(t: np.ndarray) -> tuple[float, np.ndarray]:
        f, slope = goal(t)
        seen.append((f, np.array(t), slope))
        return f, slope

    try:
        result = minimize(
            value,
            begin,
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(low, high, strict=True)),
            options={"gtol": goal.branch.aim, "ftol": goal.branch.level_off, "maxfun": EVALUATIONS},
        )
    except StoppedError as stop:
        if not seen:
            return Descent(begin, np.full(len(begin), np.nan), stop.status)
        _, t, slope = min(seen, key=lambda s: s[0])
        return Descent(t, slope, stop.status)
    edge = (result.x <= low + 1e-9) | (result.x >= high - 1e-9)
    if edge.any():
        status = Status.AT_EDGE
    elif np.max(np.abs(result.jac)) <= FLAT or result.success:
        status = Status.SUCCESSFUL
    else:
        status = Status.MAX_STEPS
    return Descent(result.x, result.jac, status)


def _refined_distance(goal: Objective, t: np.ndarray, branch: Branch) -> np.ndarray:
    """H^{-1} g: how far, in t, the optimum on the samples of ``branch`` (as many as its accuracy
    needed) may lie from ``t``.

    g is the gradient there, H the curvature on the first samples from differences of gradients. NaN
    where H is not positive.
    """
    x, rows = _overlaps(branch), []
    try:
        for e in np.eye(len(t)):
            rows.append((goal(t + STEP * e)[1] - goal(t - STEP * e)[1]) / (2 * STEP))
    except StoppedError:
        return np.full(len(t), np.nan)
    slope = goal.branch.gradient_at(x, goal.controls(t), branch.level, goal.basis(t))
    curvature = np.array(rows)
    curvature = (curvature + curvature.T) / 2
    if not np.all(np.isfinite(curvature)) or np.min(np.linalg.eigvalsh(curvature)) <= 0:
        return np.full(len(t), np.nan)
    return np.linalg.solve(curvature, slope)
