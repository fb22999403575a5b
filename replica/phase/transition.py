"""Where the branches of a model begin, end and exchange stability along one control, at one rule.

From the uninformed point the curve of fixed points is followed through its folds (a first-order
transition). If vanishing conjugates are a fixed point at every value of the control (a trivial
branch), its loss of stability is found by linear response, and the informed branch is followed down
to it or to its own fold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from solvers import leading_eigenvalue, onset, radius_of
from solvers.bifurcation.branch_point import locate, orientation_at
from solvers.continuation import (
    Curve,
    Knot,
    Steps,
    at_level,
    fold,
    fold_shift,
    steepest,
    trace,
)

from ..errors import SolveError
from ..lowering.lower import FLOOR
from ..theories.one_parameter import OneParameter
from .branches import TOL, Best, Branch, Limit, Standing, Stretch, stability_limit

FLAT = 0.3
"""A curve steeper than this everywhere (as a tangent's component) hides no fold between knots."""
BEYOND = 4.0
"""The curve is followed to this factor beyond its folds, as another S may begin there (to the end
of the range, for a control with a sign).
"""
JUMP = 1e-7
"""A difference of free energies larger than this is no crossing."""
THERE = 0.05
"""A branch that meets a trivial one this near (along the control) to where that loses stability
meets it there.
"""
SAME = 1e-6
"""Two points closer than this are one."""


@dataclass(frozen=True)
class Transition:
    """Both branches, and the ends of their ranges where they have any in the range searched."""

    uninformed: Branch
    informed: Branch | None = None
    appears: Limit | None = None
    disappears: Limit | None = None
    continuous: bool = False
    pieces: tuple[
        tuple[Knot, ...], ...
    ] = ()  # of the curve, in the order they were followed, folds among the knots
    folds: tuple[Limit, ...] = ()


def find_transition(line: OneParameter, low: float, high: float) -> Transition:
    """Search from ``low`` (the end with less information) to ``high`` for the ends of the
    uninformed and the informed branch.
    """
    trivial = line.no_information()
    if is_standing(line, trivial, low, high):
        return _from_trivial(line, trivial, low, high)
    return _from_curve(line, low, high)


def is_standing(line: OneParameter, x: np.ndarray, low: float, high: float) -> bool:
    """Whether x is a fixed point at both ends and in between."""
    between = line.value((line.level(low) + line.level(high)) / 2)
    return all(
        bool(np.max(np.abs(line.at(x, c).update - x)) <= 1e-12) for c in (low, between, high)
    )


def crossing(line: OneParameter, pair: Transition, low: float, high: float) -> Limit | None:
    """Where both branches have the same free energy; None if one of them is the better
    throughout.
    """
    a = pair.appears.value if pair.appears else low
    b = pair.disappears.value if pair.disappears else high
    if pair.informed is None or pair.continuous or not line.level(a) < line.level(b):
        return None
    informed, uninformed = pair.informed, pair.uninformed
    if isinstance(uninformed, Best) and isinstance(
        informed, Stretch
    ):  # the outermost fold is not the informed branch's own
        a = max(a, line.value(informed.knots[0].u[-1]), key=line.level)

    def gap(t: float) -> float:
        c = line.value(t)
        return float(
            line.at(informed.at(c), c).free_energy - line.at(uninformed.at(c), c).free_energy
        )

    ends = line.level(a), line.level(b)
    sides = gap(ends[0]), gap(ends[1])
    if not np.all(np.isfinite(sides)):
        raise SolveError(
            f"{line.model.name}: the free energy is not finite at the ends of a branch"
        )
    if not sides[0] * sides[1] < 0:
        return None
    c = line.value(float(brentq(gap, *ends, xtol=1e-11, rtol=1e-12)))
    if abs(gap(line.level(c))) > JUMP:
        raise SolveError(
            f"{line.model.name}: the best free energy jumps at {line.control} = {c:g}, where a"
            " branch ends"
        )
    return Limit(c, crossing_error(line, c, informed.at(c), uninformed.at(c)))


def crossing_error(line: OneParameter, c: float, *points: np.ndarray) -> float:
    """Error of Phi (stationary in x, so at the same x) over the difference of dPhi/dc."""
    here = [line.at(x, c) for x in points]
    unstable = [s for s in here if leading_eigenvalue(s.slope) > 1 + SAME]
    if unstable:
        raise SolveError(
            f"{line.model.name}: a branch became unstable before {line.control} = {c:g}"
        )
    defect = line.gap_error(c, *points)
    dPhi_dc = abs(float(here[0].dPhi_dc - here[1].dPhi_dc))
    return float(defect) / dPhi_dc + 1e-11 * c


# first order: the curve from the uninformed point ------------------------------------------------


def _from_curve(line: OneParameter, low: float, high: float) -> Transition:
    curve = unfolded(line, s_curve(line, low, high))
    turns = curve.turns()
    folds = [fold_at(line, curve, i) for i in turns]
    if not turns:
        return _without_fold(line, curve, low, high)
    last = turns[-1]
    limits, piece = (
        tuple(limit for _, limit in folds),
        with_folds(curve, [knot for knot, _ in folds]),
    )
    uninformed = _below(line, curve, [knot for knot, _ in folds])
    disappears = max((limit for _, limit in folds[::2]), key=lambda limit: line.level(limit.value))
    if (
        len(turns) % 2
    ):  # the unstable part left the range searched: the informed branch is there all the way down
        informed, appears = _informed_from_above(line, low, high)
        return Transition(
            uninformed,
            informed,
            appears,
            disappears,
            pieces=(piece, *_pieces(informed)),
            folds=_joined(limits, appears),
        )
    informed = Stretch(line, (folds[-1][0], *curve.knots[last + 1 :]))
    appears = min((limit for _, limit in folds[1::2]), key=lambda limit: line.level(limit.value))
    return Transition(uninformed, informed, appears, disappears, pieces=(piece,), folds=limits)


def _below(line: OneParameter, curve: Curve, folds: Sequence[Knot]) -> Branch:
    """The stretches with growing control before the last fold: the uninformed branch, and others if
    there are more than two folds.
    """
    turns = curve.turns()
    first = Stretch(line, (*curve.knots[: turns[0] + 1], folds[0]))
    others = [
        Stretch(line, (folds[i], *curve.knots[turns[i] + 1 : turns[i + 1] + 1], folds[i + 1]))
        for i in range(1, len(turns) - 1, 2)
    ]
    return Best(line, (first, *others)) if others else first


def with_folds(curve: Curve, folds: Sequence[Knot]) -> tuple[Knot, ...]:
    """All knots of a curve, with its folds between them."""
    knots = list(curve.knots)
    for i, knot in reversed(list(zip(curve.turns(), folds, strict=True))):
        knots.insert(i + 1, knot)
    return tuple(knots)


def _pieces(branch: Branch) -> tuple[tuple[Knot, ...], ...]:
    """The stretch of curve that a branch is, if it is one."""
    return (branch.knots,) if isinstance(branch, Stretch) else ()


def _joined(limits: tuple[Limit, ...], one: Limit | None) -> tuple[Limit, ...]:
    return limits if one is None else (*limits, one)


def s_curve(line: OneParameter, low: float, high: float, steps: Steps | None = None) -> Curve:
    """The curve of fixed points from the uninformed point at ``low``, stable and unstable parts.

    It ends outside the range, at perfect recovery, or well past its folds where the informed start
    leads to it too.
    """
    informed = line.start("informed", high)
    recovered = informed if is_standing(line, informed, low, high) else None
    limits = line.level(low) - 1e-9, line.level(high)
    beyond = np.log(BEYOND) if line.logarithmic else np.inf

    def stop(knots: list[Knot]) -> bool:
        x, t = line.overlaps(knots[-1].u), float(knots[-1].u[-1])
        if not limits[0] <= t <= limits[1]:
            return True
        if recovered is not None and np.max(np.abs(x - recovered)) < SAME:
            return True
        turns = Curve(tuple(knots), "stopped").turns()
        if (
            len(turns) < 2
            or len(turns) % 2
            or t <= max(k.u[-1] for k in knots[: turns[-1] + 1]) + beyond
        ):
            return False
        solve_start = line.iterated(informed, line.value(t), tol=1e-5)
        knot = (
            None if solve_start is None else at_level(line.field, line.place(solve_start, t), TOL)
        )
        return knot is not None and bool(np.max(np.abs(line.overlaps(knot.u) - x)) < SAME)

    curve = trace(line.field, _iterated_knot(line, "uninformed", low), stop, line.room, steps)
    if curve.ended != "stopped":
        end = line.value(curve.knots[-1].u[-1])
        raise SolveError(
            f"{line.model.name}: the curve of fixed points could not be followed beyond"
            f" {line.control} = {end:.6g}"
        )
    return curve


def unfolded(line: OneParameter, curve: Curve) -> Curve:
    """The curve with a knot on a fold pair that lies between two knots, if there is one."""
    if curve.turns() or min(k.tangent[-1] for k in curve.knots) > FLAT:
        return curve
    i, knot = steepest(line.field, curve)
    return (
        curve
        if knot.tangent[-1] >= 0
        else Curve((*curve.knots[: i + 1], knot, *curve.knots[i + 1 :]), curve.ended)
    )


def fold_at(line: OneParameter, curve: Curve, i: int) -> tuple[Knot, Limit]:
    """The fold between knots i and i + 1, with the shift of its control value under a finer rule as
    its error.
    """
    knot = fold(line.field, curve.knots[i], curve.knots[i + 1])
    if knot is None:
        raise SolveError(
            f"{line.model.name}: the fold near {line.control} ="
            f" {line.value(curve.knots[i].u[-1]):.6g} was not resolved"
        )
    residual, slope = line.field(knot.u)
    shift = line.uncertainty(lambda at: fold_shift(slope, at.field(knot.u)[0])) + abs(
        fold_shift(slope, np.full_like(residual, 1e-11))
    )
    value = line.value(knot.u[-1])
    return knot, Limit(value, shift * (value if line.logarithmic else 1.0) + FLOOR)


def _without_fold(line: OneParameter, curve: Curve, low: float, high: float) -> Transition:
    """The uninformed branch goes on to ``high``: is the informed one another?"""
    uninformed = Stretch(line, curve.knots)
    x = line.iterated(line.start("informed", high), high)
    if x is None:
        raise SolveError(
            f"{line.model.name}: the informed branch did not converge at {line.control} = {high:g}"
        )
    if np.max(np.abs(x - uninformed.at(high))) < SAME:
        return Transition(uninformed, pieces=(curve.knots,))
    informed, appears = _informed_from_above(line, low, high)
    return Transition(
        uninformed,
        informed,
        appears,
        pieces=(curve.knots, *_pieces(informed)),
        folds=_joined((), appears),
    )


def _iterated_knot(line: OneParameter, start: str, c: float) -> Knot:
    x = line.iterated(line.start(start, c), c)
    knot = None if x is None else at_level(line.field, line.place(x, line.level(c)), TOL)
    if knot is None:
        raise SolveError(
            f"{line.model.name}: the {start} branch did not converge at {line.control} = {c:g}"
        )
    return knot


# the informed branch, followed towards less information ----------------------------------------


def _informed_from_above(
    line: OneParameter, low: float, high: float, also: Callable[[Knot], bool] = lambda _: False
) -> tuple[Branch, Limit | None]:
    """The informed branch from ``high`` down to its fold, to ``low``, or to where
    ``also`` holds.
    """
    x = line.start("informed", high)
    if is_standing(line, x, low, high):
        return Standing(x), None
    top = _iterated_knot(line, "informed", high)
    start = Knot(top.u, -top.tangent)
    side = orientation_at(line.field, start)

    def stop(knots: list[Knot]) -> bool:
        last = knots[-1]
        turned = last.u[-1] < line.level(low) or last.tangent[-1] > 0
        return turned or orientation_at(line.field, last) * side < 0 or also(last)

    curve = trace(line.field, start, stop, line.room)
    if orientation_at(line.field, curve.knots[-1]) * side < 0:
        point = locate(line.field, *curve.knots[-2:])
        if point is not None:
            end = Knot(point.u, point.along)
            also(end)
            return Stretch(line, (*curve.knots[:-1], end)), None
    turns = curve.turns()
    if turns:
        knot, limit = fold_at(line, curve, turns[0])
        return Stretch(line, (*curve.knots[: turns[0] + 1], knot)), limit
    if curve.ended != "stopped" and not also(curve.knots[-1]):
        raise SolveError(
            f"{line.model.name}: the informed branch was lost at {line.control} ="
            f" {line.value(curve.knots[-1].u[-1]):.6g}"
        )
    return Stretch(line, curve.knots), None


def _from_trivial(line: OneParameter, x: np.ndarray, low: float, high: float) -> Transition:
    """A trivial branch x, which ends where it loses stability."""
    trivial = Standing(x)
    start = line.iterated(line.start("informed", high), high)
    disappears = _instability(line, x, low, high)
    if start is None and disappears is None:
        raise SolveError(
            f"{line.model.name}: the informed branch did not converge at {line.control} = {high:g}"
        )
    if start is None or np.max(np.abs(start - x)) < SAME:
        return Transition(trivial, disappears=disappears)
    met: list[float] = []

    def arrived(knot: Knot) -> bool:
        near = bool(np.max(np.abs(line.overlaps(knot.u) - x)) < 1e-3)
        if near:
            met.append(line.value(knot.u[-1]))
        return near

    informed, appears = _informed_from_above(line, low, high, arrived)
    if (
        met
        and disappears is not None
        and appears is None
        and abs(line.level(met[-1]) - line.level(disappears.value)) < THERE
    ):
        return Transition(
            trivial, None, disappears, disappears, continuous=True, pieces=_pieces(informed)
        )
    return Transition(
        trivial, informed, appears, disappears, pieces=_pieces(informed), folds=_joined((), appears)
    )


def _instability(line: OneParameter, x: np.ndarray, low: float, high: float) -> Limit | None:
    """Where the spectral radius of dF/dx at the trivial branch crosses 1."""

    def radius(at: OneParameter, level: float) -> float:
        return radius_of(at.at(x, at.value(level)).slope)

    ends = line.level(low), line.level(high)
    sides = radius(line, ends[0]), radius(line, ends[1])
    if not np.all(np.isfinite(sides)):
        raise SolveError(
            f"{line.model.name}: the linear response of the trivial branch is not finite"
        )
    if not sides[0] < 1 < sides[1]:
        return None
    return stability_limit(line, onset(lambda level: radius(line, level), *ends), radius)
