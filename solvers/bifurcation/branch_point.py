r"""Branch points: where two curves of fixed points cross, located, and the switch to the other one.

    H(u) = 0,   u = (x, t),   dH/du of rank n - 1 at u*,   w . dH/du = 0

Along a curve with tangent T the determinant of (dH/du; T) keeps its sign through folds and changes
it at a branch point. There dH/du has two null vectors: the tangent ``along`` and ``across``. A
direction of a branch solves the algebraic branching equation w . d2H[v, v] = 0; with v = along
known to solve it, the other one is

    v = across + k along,     k = -w . d2H[across, across] / (2 w . d2H[along, across])

Source: H. B. Keller, in Applications of Bifurcation Theory (1977), 359; W. Govaerts, Numerical
Methods for Bifurcations of Dynamical Equilibria (2000), chapter 4 (the extended system).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from ..continuation import Field, Knot, correct

DIFFERENCE = 1e-3
"""Step of second derivatives: one-sided differences of second order, as a branch point may lie on
the border of the domain.
"""
REFINEMENTS = 12
"""Newton steps on the extended system."""
FAR = 1e-2
"""The extended system is trusted this near to where the determinant changes its sign."""
OFFSETS = (1e-3, 1e-4, 1e-5)
"""Distances from a branch point at which the other branch is looked for."""
BESIDE = 1e-3
"""Share of a step along a curve at which its tangent beside a branch point is taken."""
SINGULAR = 1e-3
"""dH/du has lost its rank if its least singular value is below this share of that of the knots."""
SIMPLE = 1e-6
"""A second singular value below it: more than two curves may cross."""
STEEP = 1e6
"""Larger slopes of a direction say that the branching equation is degenerate."""


class BranchPoint(NamedTuple):
    """A point where two curves cross.

    Attributes
    ----------
    u : array, shape (n + 1,)
    along, across : array, shape (n + 1,)
        Orthonormal null vectors of dH/du, the first one tangent to the curve on which it was found.
    left : array, shape (n,)
        The null vector of (dH/du)^T.
    simple : bool
        Whether dH/du has no further null vector.
    """

    u: np.ndarray
    along: np.ndarray
    across: np.ndarray
    left: np.ndarray
    simple: bool = True


def orientation(slope: np.ndarray, tangent: np.ndarray) -> float:
    """The smallest singular value of (dH/du; T) with the sign of its determinant.

    Parameters
    ----------
    slope : array, shape (n, n + 1)
        dH/du.
    tangent : array, shape (n + 1,)
        Along the direction of travel.

    Returns
    -------
    float
        Changes its sign at a branch point and nowhere else; NaN where an entry is not finite.
    """
    return signed_least(np.vstack([slope, tangent]))


def orientation_at(field: Field, knot: Knot) -> float:
    """The orientation of a curve at one of its points."""
    return orientation(field(knot.u)[1], knot.tangent)


def signed_least(system: np.ndarray) -> float:
    """The smallest singular value of a square matrix with the sign of its determinant; NaN where an
    entry is not finite.
    """
    if not np.all(np.isfinite(system)):
        return float("nan")
    return float(np.linalg.slogdet(system)[0] * np.linalg.svd(system, compute_uv=False)[-1])


def branch_point_at(slope: np.ndarray, u: np.ndarray, along: np.ndarray) -> BranchPoint:
    """The branch point at ``u`` on a curve with the tangent ``along``."""
    left, values, right = np.linalg.svd(slope)
    null = right[-2:]
    # The tangent as the null space has it, and what is orthogonal to it there.
    along = null.T @ (null @ along)
    along = along / np.linalg.norm(along)
    across = null.T @ np.array([-(null[1] @ along), null[0] @ along])
    simple = len(values) < 2 or bool(values[-2] > SIMPLE * max(1.0, values[0]))
    return BranchPoint(np.array(u), along, across, left[:, -1], simple)


def locate(field: Field, before: Knot, after: Knot, tol: float = 1e-11) -> BranchPoint | None:
    """The branch point between two neighbouring knots of a traced curve.

    Parameters
    ----------
    field : Field
        The curve is its zero set.
    before, after : Knot
        Neighbours with orientations of different signs.
    tol : float
        Of Newton's correction back to the curve.

    Returns
    -------
    BranchPoint or None
        None if the orientation has the same sign at both, or jumps: then they lie on two curves.
    """
    chord = after.u - before.u
    length = float(before.tangent @ chord)
    ends = [orientation_at(field, k) for k in (before, after)]
    if not ends[0] * ends[1] <= 0 or length <= 0:
        return None

    def side(s: float) -> float:
        if s in (0.0, length):
            return ends[int(s > 0)]
        guess = before.u + s / length * chord
        knot = correct(field, guess, before.tangent, tol)
        if knot is None:  # at the branch point itself the system is singular: the chord stands in
            return orientation(field(guess)[1], before.tangent)
        return orientation_at(field, knot)

    try:
        place: float = brentq(side, 0.0, length, xtol=1e-9 * length, rtol=1e-12)  # type: ignore[assignment]
    except ValueError:  # not finite in between
        return None
    guess = before.u + place / length * chord
    knot = correct(field, guess, before.tangent, tol)
    u = refined(field, guess if knot is None else knot.u)
    if u is None:
        if knot is None:  # the chord has left the curve
            return None
        u = knot.u
    slope = field(u)[1]
    if not np.linalg.svd(slope, compute_uv=False)[-1] <= SINGULAR * max(map(abs, ends)):
        return None
    # The tangent there is the mean of those close by on both sides.
    beside = [
        correct(field, u + side * BESIDE * chord, before.tangent, tol) for side in (1.0, -1.0)
    ]
    tangents = [knot.tangent for knot in beside if knot is not None]
    along = np.sum(tangents, axis=0) if tangents else chord
    return branch_point_at(slope, u, along / np.linalg.norm(along))


def refined(field: Field, u: np.ndarray, tol: float = 1e-12) -> np.ndarray | None:
    """Newton on the extended system H + b w = 0, (dH/du)^T w = 0, |w| = 1 for (u, w, b).

    Parameters
    ----------
    field : Field
        The curves are its zero set.
    u : array, shape (n + 1,)
        Near a branch point.
    tol : float
        On the equations.

    Returns
    -------
    array or None
        The branch point; None if Newton leaves the neighbourhood or does not meet ``tol`` (the
        crossing is imperfect, or lies on the border of the domain).
    """
    n, first = len(u) - 1, u
    h, slope = field(u)
    if not np.all(np.isfinite(slope)):
        return None
    w, b = np.linalg.svd(slope)[0][:, -1], 0.0
    for _ in range(REFINEMENTS):
        h, slope = field(u)
        if not (np.all(np.isfinite(h)) and np.all(np.isfinite(slope))):
            return None
        residual = np.concatenate([h + b * w, slope.T @ w, [(w @ w - 1) / 2]])
        if np.max(np.abs(residual)) <= tol:
            return u if abs(b) <= tol * 1e3 else None
        curvature = np.array([_second(field, u, e) @ w for e in np.eye(n + 1)])
        if not np.all(np.isfinite(curvature)):
            return None
        system = np.block(
            [
                [slope, b * np.eye(n), w[:, None]],
                [curvature, slope.T, np.zeros((n + 1, 1))],
                [np.zeros((1, n + 1)), w[None, :], np.zeros((1, 1))],
            ]
        )
        try:
            step = np.linalg.solve(system, residual)
        except np.linalg.LinAlgError:
            return None
        u, w, b = u - step[: n + 1], w - step[n + 1 : -1], b - step[-1]
        if np.max(np.abs(u - first)) > FAR:
            return None
    return None


def _second(field: Field, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """d2H[v, .]^T by central differences, shape (n + 1, n)."""
    step = DIFFERENCE / 10
    return (field(u + step * v)[1] - field(u - step * v)[1]).T / (2 * step)


def _one_sided(field: Field, u: np.ndarray, v: np.ndarray, side: float) -> np.ndarray:
    """d2H[v, .] from points on one side of u alone."""
    step = side * DIFFERENCE
    at = [field(u + k * step * v)[1] for k in range(3)]
    return (-3 * at[0] + 4 * at[1] - at[2]) / (2 * step)


def rays(field: Field, point: BranchPoint, tol: float) -> list[tuple[Knot, Knot]]:
    """The other branch on each side of a branch point: the branch point itself with the tangent
    that leads away along it, and a point nearby; none on a side where there is no branch (the
    domain ends there).

    Parameters
    ----------
    field : Field
        The curves are its zero set.
    point : BranchPoint
        Where they cross.
    tol : float
        On max|H|.

    Returns
    -------
    list of (Knot, Knot)
        At most two pairs.
    """
    both = [_ray(field, point, side, tol) for side in (1.0, -1.0)]
    return [pair for pair in both if pair is not None]


def _ray(field: Field, point: BranchPoint, side: float, tol: float) -> tuple[Knot, Knot] | None:
    u, along, across, left = point.u, point.along, point.across, point.left
    mixed = [left @ _one_sided(field, u, along, s) @ across for s in (1.0, -1.0)]
    mixed = [m for m in mixed if np.isfinite(m)]
    bend = left @ _one_sided(field, u, across, side) @ across
    slope = 0.0
    if mixed and np.isfinite(bend) and abs(bend) < STEEP * abs(np.mean(mixed)):
        slope = float(-bend / (2 * np.mean(mixed)))
    direction = side * (across + slope * along)
    for offset in OFFSETS:
        # In the plane of points at this distance across, which the known curve does not meet.
        step = offset / max(1.0, abs(slope))
        knot = correct(field, u + step * direction, side * across, tol)
        if knot is not None and np.linalg.norm(knot.u - u) <= 10 * step * np.linalg.norm(direction):
            return Knot(u, direction / np.linalg.norm(direction)), knot
    return None
