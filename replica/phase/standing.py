"""Branches that do not move along the control - a trivial point, perfect recovery - and where they
gain or lose stability.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from solvers.bifurcation.branch_point import BranchPoint, branch_point_at, signed_least
from solvers.bifurcation.branches import BY_BRANCH_POINT, Domain, Seed
from solvers.continuation import Knot, correct

from ..theories.one_parameter import OneParameter
from ..theories.point_programs import growth
from .branches import TOL, Limit, stability_limit

STANDING = 33
"""Points on a branch that does not move."""
PROBES = 49
"""Values of the control at which the stability of a branch that does not move is asked for."""
DEEPEST = 1e-11
"""A logarithmic overlap is followed down to here."""
BESIDE = 1e-10, 1e-8
"""Overlaps at which a free energy is asked whether it has a limit at 0."""
RATE = 1e-4
"""A free energy that grows by more than this per factor e of an overlap has no limit."""


class StandingPoint(NamedTuple):
    """Where a branch that does not move gains or loses stability.

    ``crossing`` is None at the end of a logarithmic overlap's range, which no curve meets.
    """

    t: float
    limit: Limit
    u: np.ndarray
    crossing: BranchPoint | None


def standing_knots(line: OneParameter, x: np.ndarray, window: tuple[float, float]) -> list[Knot]:
    """The branch x as a curve."""
    upwards = np.eye(len(x) + 1)[-1]
    return [Knot(line.place(x, t), upwards) for t in np.linspace(*window, STANDING)]


def standing_points(
    line: OneParameter, x: np.ndarray, window: tuple[float, float]
) -> list[StandingPoint]:
    """Every place where an eigenvalue of dF/dx at the fixed point ``x`` passes through 1."""

    def side(t: float) -> float:
        return signed_least(line.at(x, line.value(t)).slope - np.eye(len(x)))

    levels = np.linspace(*window, PROBES)
    sides = np.array([side(t) for t in levels])
    found = []
    apart = np.flatnonzero(sides)  # without those that are the place itself
    for i, j in pairwise(apart):
        if sides[i] * sides[j] < 0:
            t: float = brentq(side, levels[i], levels[j], xtol=1e-12, rtol=1e-14)  # type: ignore[assignment]
            found.append(_standing_point(line, x, t))
    return found


def _standing_point(line: OneParameter, x: np.ndarray, t: float) -> StandingPoint:
    def nearest(at: OneParameter, level: float) -> float:
        """The eigenvalue nearest to 1."""
        values = np.linalg.eigvals(at.at(x, at.value(level)).slope)
        return float(np.real(values[np.argmin(np.abs(values - 1))]))

    limit, u = stability_limit(line, t, nearest), line.place(x, t)
    if not np.all(np.isfinite(u)):
        return StandingPoint(t, limit, u, None)
    along = np.eye(len(u))[-1]
    return StandingPoint(t, limit, u, branch_point_at(line.field(u)[1], u, along))


def border_seed(line: OneParameter, domain: Domain, point: StandingPoint) -> list[Seed]:
    """What meets perfect recovery where that gains stability, as a point just inside the range."""
    inside = np.where(np.isfinite(point.u[:-1]), point.u[:-1], domain.low)
    moved = np.flatnonzero(~np.isfinite(point.u[:-1]))
    if len(moved) != 1:
        return []
    normal = np.eye(len(point.u))[moved[0]]
    knot = correct(line.field, np.append(inside, point.t), normal, TOL)
    return [] if knot is None else [Seed(knot, BY_BRANCH_POINT)]


def borders(line: OneParameter, trivial: np.ndarray | None, t: float) -> tuple[np.ndarray, ...]:
    """Ends of the range of each unknown: those declared, the smallest logarithm that is followed,
    and a trivial point beyond which the equations end.
    """
    low = np.where(line.is_log, np.log(DEEPEST), line.low)
    with np.errstate(divide="ignore"):
        high = np.where(line.is_log, np.log(np.where(line.is_log, line.high, 1.0)), line.high)
    if trivial is None or not np.all(np.isfinite(line.place(trivial, t))):
        return low, high
    at = line.place(trivial, t)
    for i in np.flatnonzero(np.isinf(high)):
        beyond = at + 1e-6 * np.eye(len(at))[i]
        if np.any(np.isnan(line.field(beyond)[0])):
            high[i] = at[i]
    return low, high


def is_unbounded(line: OneParameter, x: np.ndarray, c: float) -> bool:
    """Whether the free energy grows without limit towards a point at the end of a logarithmic
    overlap's range.
    """
    lost = line.is_log & (x == 0)
    if not np.any(lost):
        return False
    return abs(growth(lambda beside: line.free_energy(beside, c), x, lost, BESIDE)) > RATE
