"""Continuation: every part of an S, folds to rounding, cusps, and curves that end."""

from __future__ import annotations

import numpy as np
import pytest

from solvers import Curve, Knot, Steps, fold, steepest, trace
from solvers.continuation import Field, at_level, correct, fold_shift, interpolate
from solvers.continuation import cubic as cubic_between


def cubic(a: float) -> Field:
    """t = x^3 - a x: folds at x = -+sqrt(a/3), t = +-2 (a/3)^(3/2); none for a < 0, a cusp at a =
    0.
    """

    def field(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, t = u
        return np.array([x**3 - a * x - t]), np.array([[3 * x**2 - a, -1.0]])

    return field


def s_of(field: Field, x: float = -3.0, to: float = 8.0, **more: object) -> Curve:
    start = at_level(field, np.array([x, -20.0]), 1e-12)
    assert start is not None
    return trace(field, start, lambda knots: bool(knots[-1].u[-1] > to), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("a", [0.5, 1.0, 3.0])
def test_folds_of_a_cubic(a: float) -> None:
    field = cubic(a)
    curve = s_of(field)
    assert curve.ended == "stopped" and len(curve.turns()) == 2
    folds = [fold(field, curve.knots[i], curve.knots[i + 1]) for i in curve.turns()]
    for knot, sign in zip(folds, (1, -1), strict=True):
        assert knot is not None
        assert knot.u[0] == pytest.approx(-sign * np.sqrt(a / 3), abs=1e-6)
        assert knot.u[1] == pytest.approx(sign * 2 * (a / 3) ** 1.5, abs=1e-12)


def test_every_knot_is_on_the_curve_and_its_tangent_is_tangent() -> None:
    field = cubic(1.0)
    for knot in s_of(field).knots:
        h, slope = field(knot.u)
        assert abs(h[0]) < 1e-8 and abs(slope @ knot.tangent)[0] < 1e-6 * np.linalg.norm(slope)
        assert np.linalg.norm(knot.tangent) == pytest.approx(1)


def test_travel_does_not_turn_back() -> None:
    x = [knot.u[0] for knot in s_of(cubic(1.0)).knots]
    assert np.all(np.diff(x) > 0)


def test_a_monotone_curve_has_no_fold() -> None:
    field = cubic(-0.1)
    curve = s_of(field)
    assert curve.turns() == []
    i, knot = steepest(field, curve)
    assert knot.u[0] == pytest.approx(0, abs=1e-4) and knot.tangent[-1] == pytest.approx(
        0.1 / np.hypot(1, 0.1), abs=1e-6
    )
    assert curve.knots[i].u[0] <= knot.u[0]


@pytest.mark.parametrize(("a", "sign"), [(1e-3, -1), (-1e-3, 1)])
def test_steepest_tells_a_small_fold_pair_from_none(a: float, sign: int) -> None:
    field = cubic(a)
    assert np.sign(steepest(field, s_of(field))[1].tangent[-1]) == sign


def test_room_keeps_a_small_s_from_being_jumped() -> None:
    """A wiggle of length 0.05 on a straight curve: long steps cross it, steps of 0.01 do not."""

    def field(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, t = u
        z = x / 0.01
        bump = np.exp(-(z**2) / 2)
        return np.array([x - 0.02 * z * bump - t]), np.array([[1 - 2 * (1 - z**2) * bump, -1.0]])

    start = at_level(field, np.array([-1.003, -1.003]), 1e-12)
    assert start is not None
    ends = [
        trace(field, start, lambda knots: bool(knots[-1].u[0] > 1), room)
        for room in (None, lambda u: np.array([0.003, np.inf]))
    ]
    assert len(ends[1].turns()) > 0 and len(ends[1].turns()) % 2 == 0
    assert (
        np.max(np.abs(np.diff([knot.u[0] for knot in ends[1].knots])))
        < 0.004
        < np.max(np.diff([knot.u[0] for knot in ends[0].knots]))
    )


def test_room_keeps_a_sudden_rise_from_being_jumped() -> None:
    """x = tanh(100 t)/2 is flat on both sides: tangents alone do not see the rise."""

    def field(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, t = u
        rise = np.tanh(100 * t)
        return np.array([x - rise / 2]), np.array([[1.0, -50 * (1 - rise**2)]])

    start = Knot(np.array([-0.5, -1.03]), np.array([0.0, 1.0]))
    curve = trace(
        field, start, lambda knots: bool(knots[-1].u[-1] > 1), lambda u: np.array([0.1, np.inf])
    )
    assert curve.ended == "stopped" and np.max(np.diff([knot.u[0] for knot in curve.knots])) <= 0.2


def test_a_curve_that_ends_says_so() -> None:
    """x = sqrt(1 - t) continued to where the field is NaN."""

    def field(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, t = u
        value = x - t if x < 0.5 else np.nan
        return np.array([value]), np.array([[1.0, -1.0]])

    curve = trace(field, Knot(np.zeros(2), np.array([1.0, 1.0]) / np.sqrt(2)), lambda knots: False)
    assert curve.ended == "stuck" and curve.knots[-1].u[0] == pytest.approx(0.5, abs=1e-6)
    assert s_of(cubic(1.0), to=np.inf, steps=Steps(most=5)).ended == "too long"


def test_newton_that_does_not_meet_the_tolerance_is_no_point() -> None:
    field: Field = lambda u: (np.array([u[0] ** 2 + 1]), np.array([[2 * u[0], 0.0]]))  # noqa: E731
    assert correct(field, np.array([1.0, 0.0]), np.array([0.0, 1.0]), 1e-12) is None
    assert (
        correct(
            lambda u: (np.array([np.nan]), np.ones((1, 2))),
            np.zeros(2),
            np.array([0.0, 1.0]),
            1e-12,
        )
        is None
    )


def test_shift_of_a_fold_is_its_derivative() -> None:
    """Adding d to H moves t of both folds of x^3 - x - t + d by d."""
    field = cubic(1.0)
    curve = s_of(field)
    knot = fold(field, curve.knots[curve.turns()[0]], curve.knots[curve.turns()[0] + 1])
    assert knot is not None
    assert fold_shift(field(knot.u)[1], np.array([1e-3])) == pytest.approx(1e-3, rel=1e-6)


def test_interpolation_on_a_stretch_that_ends_at_a_fold() -> None:
    field = cubic(1.0)
    curve = s_of(field)
    i = curve.turns()[0]
    end = fold(field, curve.knots[i], curve.knots[i + 1])
    assert end is not None
    stretch = (*curve.knots[: i + 1], end)
    assert interpolate(field, stretch, float(end.u[-1]), 1e-11) is end
    middle = interpolate(field, stretch, 0.0, 1e-11)
    assert middle is not None and middle.u[0] == pytest.approx(-1, abs=1e-9)
    assert interpolate(field, stretch, 1.0, 1e-11) is None


def test_the_cubic_between_two_knots_has_their_places_and_tangents() -> None:
    places = np.array([0.0, 0.2]), np.array([0.7, 1.1])
    tangents = np.array([1.0, 0.0]), np.array([0.6, -0.8])
    a, b = (Knot(u, tangent) for u, tangent in zip(places, tangents, strict=True))
    step = 1e-6
    for knot, end, inside in ((a, 0.0, step), (b, 1.0, 1.0 - step)):
        assert cubic_between(a, b, end) == pytest.approx(knot.u, abs=1e-14)
        along = (cubic_between(a, b, inside) - knot.u) / (inside - end) / np.linalg.norm(b.u - a.u)
        assert along == pytest.approx(knot.tangent, abs=1e-5)
