r"""Curves of fixed points through their folds: pseudo-arclength continuation.

    H(x, t) = F(x; t) - x = 0,        n equations for the n + 1 unknowns u = (x, t)

is a smooth curve where plain iteration sees only its stable parts. Each step predicts along the
tangent (the null vector of dH/du) and corrects by Newton orthogonally to it; folds are the zeros of
the tangent's t-component.

Source: H. B. Keller, in Applications of Bifurcation Theory (1977), 359; E. L. Allgower, K. Georg,
Numerical Continuation Methods (1990), chapter 6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize_scalar

Field = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""u (n + 1,) -> H (n,) and dH/du (n, n + 1); NaN outside the domain."""
CORRECTIONS = 8
LEFT = 0.1
"""A point between two knots lies nearer to the line between them than this share of its length."""


class Knot(NamedTuple):
    """A point of the curve.

    Attributes
    ----------
    u : array, shape (n + 1,)
        The unknowns and, last, t.
    tangent : array, shape (n + 1,)
        Of length one, along the direction of travel.
    """

    u: np.ndarray
    tangent: np.ndarray


@dataclass(frozen=True)
class Steps:
    """How to step along a curve.

    Attributes
    ----------
    first, smallest, largest : float
        Arclengths of a step.
    turn : float
        Largest turn of the tangent in one step, in radians.
    tol : float
        Newton's, on max|H|.
    most : int
        Largest number of knots.
    """

    first: float = 0.05
    smallest: float = 1e-8
    largest: float = 0.5
    turn: float = 0.3
    tol: float = 1e-9
    most: int = 2000


@dataclass(frozen=True)
class Curve:
    """Knots in order and how the curve ended: where asked, where no step succeeded, or at the most
    knots allowed.
    """

    knots: tuple[Knot, ...]
    ended: Literal["stopped", "stuck", "too long"]

    def turns(self) -> list[int]:
        """Indices i such that a fold lies between knots i and i + 1."""
        sides = [k.tangent[-1] > 0 for k in self.knots]
        return [i for i in range(len(sides) - 1) if sides[i] != sides[i + 1]]


def correct(
    field: Field, guess: np.ndarray, normal: np.ndarray, tol: float, most: int = CORRECTIONS
) -> Knot | None:
    """Newton from ``guess`` in the plane normal . (u - guess) = 0; None unless max|H| <= tol is
    met.

    The tangent is oriented along ``normal``.
    """
    u = np.array(guess, dtype=float)
    for _ in range(most):
        h, slope = field(u)
        if not (np.all(np.isfinite(h)) and np.all(np.isfinite(slope))):
            return None
        system = np.vstack([slope, normal])
        if np.max(np.abs(h)) <= tol:
            return Knot(u, _tangent(slope, normal))
        try:
            u = u - np.linalg.solve(system, np.append(h, normal @ (u - guess)))
        except np.linalg.LinAlgError:
            return None
    return None


def _tangent(slope: np.ndarray, along: np.ndarray) -> np.ndarray:
    tangent = np.linalg.svd(slope)[2][-1]
    return tangent if tangent @ along >= 0 else -tangent


def at_level(field: Field, guess: np.ndarray, tol: float) -> Knot | None:
    """The point of the curve with the t of ``guess`` near it, tangent towards larger t."""
    return correct(field, guess, np.eye(len(guess))[-1], tol)


def trace(
    field: Field,
    start: Knot,
    stop: Callable[[list[Knot]], bool],
    room: Callable[[np.ndarray], np.ndarray] | None = None,
    steps: Steps | None = None,
) -> Curve:
    """Follow the curve from ``start`` along its tangent until ``stop(knots)``.

    A step is halved when Newton fails, the tangent turns too far or a coordinate moves further than
    twice ``room(u)`` (otherwise a step may jump across a small S), and grows on straight stretches.

    Parameters
    ----------
    field : Field
        The curve is its zero set.
    start : Knot
        A point on the curve with its tangent; the direction is the tangent's.
    stop : callable
        Asked after every step, with all knots so far.
    room : callable, optional
        Coordinates (n,) -> largest move of each in half a step.
    steps : Steps, optional
        Sizes of the steps.

    Returns
    -------
    Curve
        Its knots, and why it ended.
    """
    steps = steps or Steps()
    room = room or (lambda u: np.full(len(u), np.inf))
    knots, size = [start], steps.first
    while len(knots) < steps.most:
        last = knots[-1]
        allowed = room(last.u)
        size = min(size, float(np.min(allowed / np.maximum(np.abs(last.tangent), 1e-12))))
        new = correct(field, last.u + size * last.tangent, last.tangent, steps.tol)
        angle = (
            np.pi if new is None else float(np.arccos(np.clip(new.tangent @ last.tangent, -1, 1)))
        )
        if new is None or angle > steps.turn or np.any(np.abs(new.u - last.u) > 2 * allowed):
            size /= 2
            if size < steps.smallest:
                return Curve(tuple(knots), "stuck")
            continue
        knots.append(new)
        if stop(knots):
            return Curve(tuple(knots), "stopped")
        size = min(
            steps.largest, size * float(np.clip(0.6 * steps.turn / max(angle, 1e-3), 0.5, 2.0))
        )
    return Curve(tuple(knots), "too long")


def fold(field: Field, before: Knot, after: Knot, tol: float = 1e-11) -> Knot | None:
    """The fold between two neighbouring knots: the zero of the tangent's t-component along the arc.

    t is extremal there, so its error is of second order in that of the place (1e-7 of the step).

    Parameters
    ----------
    field : Field
        The curve is its zero set.
    before, after : Knot
        Neighbours on a traced curve.
    tol : float
        Of Newton's correction back to the curve.

    Returns
    -------
    Knot or None
        None if the tangent's t-component has the same sign at both, or the place cannot be found.
    """
    chord = after.u - before.u
    length = float(before.tangent @ chord)
    found: dict[float, Knot] = {}

    def turning(s: float) -> float:
        knot = correct(field, before.u + s / length * chord, before.tangent, tol)
        if knot is None:
            raise _Lost
        found[s] = knot
        return float(knot.tangent[-1])

    try:
        place: float = brentq(turning, 0.0, length, xtol=1e-7 * length, rtol=1e-12)  # type: ignore[assignment]
    except (_Lost, ValueError):
        return None
    return found.get(place) or correct(
        field, before.u + place / length * chord, before.tangent, tol
    )


def steepest(field: Field, curve: Curve, tol: float = 1e-11) -> tuple[int, Knot]:
    """Where the tangent's t-component is least, between the knots too: (i, the point, which follows
    knot i).

    A curve that starts towards larger t has a fold iff it is negative; it vanishes where two folds
    merge (a cusp).

    Parameters
    ----------
    field : Field
        The curve is its zero set.
    curve : Curve
        Traced before.
    tol : float
        Of Newton's correction back to the curve.

    Returns
    -------
    int
        The knot before it.
    Knot
        The place itself.
    """
    knots = curve.knots
    i = min(range(len(knots)), key=lambda j: knots[j].tangent[-1])
    best = i, knots[i]
    for j in (i - 1, i):
        if not 0 <= j < len(knots) - 1:
            continue
        before, chord = knots[j], knots[j + 1].u - knots[j].u
        seen: list[Knot] = []

        def rate(
            s: float, before: Knot = before, chord: np.ndarray = chord, seen: list[Knot] = seen
        ) -> float:
            knot = correct(field, before.u + s * chord, before.tangent, tol)
            if knot is None:
                return np.inf
            seen.append(knot)
            return float(knot.tangent[-1])

        minimize_scalar(rate, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-5})
        best = min([best, *((j, knot) for knot in seen)], key=lambda pair: pair[1].tangent[-1])
    return best


class _Lost(Exception):
    """Newton did not come back to the curve."""


def fold_shift(slope: np.ndarray, defect: np.ndarray) -> float:
    """How far t of a fold moves when H changes by ``defect``: -(w . defect)/(w . dH/dt), w the left
    null vector of dH/dx.
    """
    left = np.linalg.svd(slope[:, :-1])[0][:, -1]
    return float(-(left @ defect) / (left @ slope[:, -1]))


def interpolate(field: Field, knots: tuple[Knot, ...], t: float, tol: float) -> Knot | None:
    """The point with the given t on a stretch of the curve along which t is monotone; its ends may
    be folds.
    """
    for end in (knots[0], knots[-1]):
        if abs(t - end.u[-1]) <= 1e-12 * max(
            1.0, abs(t)
        ):  # a fold, where Newton at fixed t is singular
            return end
    for a, b in pairwise(knots):
        low, high = sorted((a.u[-1], b.u[-1]))
        if low <= t <= high and high > low:
            guess = a.u + (t - a.u[-1]) / (b.u[-1] - a.u[-1]) * (b.u - a.u)
            guess[-1] = t
            knot = at_level(field, guess, tol)
            length = np.linalg.norm(b.u - a.u)
            if knot is not None and np.linalg.norm(knot.u - guess) <= LEFT * length:
                return knot
            # Where the curve bends, beside a branch point above all, the line between the knots may
            # lead to another branch: the cubic does not.
            return at_level(field, _on_cubic(a, b, t), tol)
    return None


def _on_cubic(a: Knot, b: Knot, t: float) -> np.ndarray:
    """The point with this t on the cubic between two neighbours."""
    place: float = brentq(lambda s: float(cubic(a, b, s)[-1]) - t, 0.0, 1.0)  # type: ignore[assignment]
    point = cubic(a, b, place)
    point[-1] = t
    return point


def cubic(a: Knot, b: Knot, s: float | np.ndarray) -> np.ndarray:
    """Points of the cubic that has the tangents of two neighbours, at the share ``s`` of the way.

    Parameters
    ----------
    a, b : Knot
        Arrays of shape (n + 1,), or (m, n + 1) for m pairs.
    s : float or array, shape (m, 1)
        Between 0 and 1.

    Returns
    -------
    array, shape (n + 1,) or (m, n + 1)
    """
    length = np.linalg.norm(b.u - a.u, axis=-1, keepdims=True)
    ends = (1 + 2 * s) * (1 - s) ** 2 * a.u + s**2 * (3 - 2 * s) * b.u
    return ends + length * s * (1 - s) * ((1 - s) * a.tangent - s * b.tangent)
