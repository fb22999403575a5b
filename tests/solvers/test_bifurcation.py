"""Branch points and every branch through them, on curves with known folds."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import Polynomial

from solvers.bifurcation.branch_point import branch_point_at, locate, orientation, rays, refined
from solvers.bifurcation.branches import (
    BY_BRANCH_POINT,
    Branches,
    Domain,
    Part,
    Seed,
    follow_branches,
    lies_on,
)
from solvers.continuation import Field, Knot, at_level, fold

REACH = 1.2
UP = np.array([0.0, 1.0])


def grown(shape: Polynomial, low: float) -> Field:
    """x (t - 1 - shape(x^2)) = 0: x = 0, and a branch born there at t = 1; the domain is
    x >= low.
    """
    slope = shape.deriv()

    def field(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, t = u
        if not low - 1e-9 <= x <= REACH + 1e-9:
            return np.full(1, np.nan), np.full((1, 2), np.nan)
        y = x * x
        gap = t - 1 - shape(y)
        return np.array([x * gap]), np.array([[gap - 2 * y * slope(y), x]])

    return field


def from_trivial(shape: Polynomial, low: float) -> Branches:
    """Everything that hangs on x = 0."""
    field = grown(shape, low)
    window = (-3.0, 5.0)
    room = lambda u: np.array([0.3 * max(min(u[0] - low, REACH - u[0]), 1e-3), np.inf])  # noqa: E731
    domain = Domain(field, window, np.array([low]), np.array([REACH]), room)
    trivial = [Knot(np.array([0.0, t]), UP) for t in np.linspace(*window, 17)]
    born = np.array([0.0, 1.0])
    found = Branches([Part(tuple(trivial), "start", ("range", "range"))])
    found.points.append(branch_point_at(field(born)[1], born, UP))
    return follow_branches(domain, found, [])


def turns(field: Field, part: Part) -> list[float]:
    """t where a part turns."""
    found = []
    for a, b in pairwise(part.knots[1:]):
        knot = fold(field, a, b) if a.tangent[-1] * b.tangent[-1] < 0 else None
        if knot is not None:
            found.append(float(knot.u[-1]))
    return found


@settings(max_examples=12, deadline=None)
@given(
    places=st.lists(st.floats(0.08, 0.9), min_size=1, max_size=3, unique=True),
    sign=st.sampled_from((-1.0, 1.0)),
    symmetric=st.booleans(),
)
def test_every_fold_of_a_branch_born_at_a_trivial_point(
    places: list[float], sign: float, symmetric: bool
) -> None:
    """d shape/dy has its zeros at the places (apart from one another): there the branch turns, on
    both sides of x = 0 if the domain has both.
    """
    places = sorted(places)
    places = [p for i, p in enumerate(places) if i == 0 or p - places[i - 1] > 0.1]
    slope = Polynomial.fromroots(places)
    shape = (sign * slope / abs(slope(0.0))).integ()
    found = from_trivial(shape, -REACH if symmetric else 0.0)
    (point,) = found.points
    np.testing.assert_allclose(point.u, [0.0, 1.0], atol=1e-12)
    born = found.parts[1:]
    assert len(born) == 1 + symmetric
    for part in born:
        assert part.found_by == BY_BRANCH_POINT and part.ended[0] == "branch point"
        assert part.ended[1] in ("border", "range")
        seen = turns(grown(shape, -REACH if symmetric else 0.0), part)
        assert len(seen) == len(places)
        np.testing.assert_allclose(seen, [1 + shape(p) for p in places], atol=1e-9)
        for knot in part.knots[5:]:  # H is x times what is compared
            assert knot.u[1] == pytest.approx(1 + shape(knot.u[0] ** 2), abs=1e-6)
    ends = {np.sign(part.knots[-1].u[0]) for part in born}
    assert ends == ({-1.0, 1.0} if symmetric else {1.0})


def asymmetric(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x (t - 1 - x^2 + .3 x y) = 0 and y = t^2/4 - .2 x^2: a transcritical point at (0, 1/4, 1), on
    a branch that moves.
    """
    x, y, t = u
    gap = t - 1 - x * x + 0.3 * x * y
    along_x = gap + x * (-2 * x + 0.3 * y)
    h = np.array([x * gap, y - t * t / 4 + 0.2 * x * x])
    return h, np.array([[along_x, 0.3 * x * x, x], [0.4 * x, 1.0, -t / 2]])


EVERYWHERE = np.full(2, np.inf)


def test_a_branch_point_on_a_branch_that_moves() -> None:
    domain = Domain(asymmetric, (0.0, 3.0), -EVERYWHERE, EVERYWHERE)
    start = at_level(asymmetric, np.zeros(3), 1e-12)
    assert start is not None
    found = follow_branches(domain, Branches(), [Seed(start, "start")])
    (point,) = found.points
    np.testing.assert_allclose(point.u, [0.0, 0.25, 1.0], atol=1e-11)
    assert point.simple
    assert [p.found_by for p in found.parts] == ["start", *[BY_BRANCH_POINT] * 3]
    assert all(p.ended == ("branch point", "range") for p in found.parts[1:])
    sides = [np.sign(np.round(p.knots[-1].u[0], 6)) for p in found.parts]
    assert sorted(sides) == [-1.0, 0.0, 0.0, 1.0]
    for part in found.parts[1:]:
        for knot in part.knots:
            assert np.max(np.abs(asymmetric(knot.u)[0])) < 1e-8


def test_the_second_direction_solves_the_branching_equation() -> None:
    """Near (0, 1/4, 1) the crossing branch is t = 1 - .3 y x + ...: dt/dx = -.075."""
    u = np.array([0.0, 0.25, 1.0])
    along = np.array([0.0, 0.5, 1.0]) / np.sqrt(1.25)
    point = branch_point_at(asymmetric(u)[1], u, along)
    pairs = rays(asymmetric, point, 1e-12)
    assert len(pairs) == 2
    for origin, knot in pairs:
        x, y, t = origin.tangent / origin.tangent[0]
        assert (x, y, t) == pytest.approx((1.0, -0.0375, -0.075), abs=1e-6)
        assert knot.u[0] * origin.tangent[0] > 0
        assert np.max(np.abs(asymmetric(knot.u)[0])) < 1e-12


def test_a_fold_is_no_branch_point() -> None:
    field: Field = lambda u: (np.array([u[0] ** 2 - u[1]]), np.array([[2 * u[0], -1.0]]))  # noqa: E731
    before, after = (
        Knot(np.array([x, x * x]), np.array([1.0, 2 * x]) / np.hypot(1, 2 * x)) for x in (-0.1, 0.1)
    )
    sides = [orientation(field(k.u)[1], k.tangent) for k in (before, after)]
    assert sides[0] * sides[1] > 0 and locate(field, before, after) is None
    assert refined(field, np.zeros(2)) is None


def test_an_imperfect_crossing_is_none() -> None:
    """x (t - x^2) = 1e-3 has no branch point."""
    field: Field = lambda u: (  # noqa: E731
        np.array([u[0] * (u[1] - u[0] ** 2) - 1e-3]),
        np.array([[u[1] - 3 * u[0] ** 2, u[0]]]),
    )
    domain = Domain(field, (-1.0, 1.0), np.array([-2.0]), np.array([2.0]))
    start = at_level(field, np.array([-0.001, -1.0]), 1e-12)
    assert start is not None
    found = follow_branches(domain, Branches(), [Seed(start, "start")])
    assert found.points == [] and len(found.parts) == 1
    assert refined(field, np.zeros(2)) is None


def test_a_closed_curve_ends_where_it_began() -> None:
    field: Field = lambda u: (np.array([u @ u - 1]), 2 * u[None, :])  # noqa: E731
    domain = Domain(field, (-5.0, 5.0), np.array([-5.0]), np.array([5.0]))
    seed = Seed(Knot(np.array([1.0, 0.0]), UP), "deflation")
    found = follow_branches(domain, Branches(), [seed])
    (part, *more) = found.parts
    assert not more and part.ended == ("joined", "joined")
    assert found.contains(Knot(np.array([0.0, 1.0]), np.array([-1.0, 0.0])))
    assert not lies_on(Knot(np.array([0.9, 0.0]), UP), part.knots)
    follow_branches(domain, found, [Seed(Knot(np.array([-1.0, 0.0]), UP), "deflation")])
    assert len(found.parts) == 1


def test_where_more_than_two_curves_may_cross_nothing_is_followed() -> None:
    """A double eigenvalue is said to be one."""
    for least, is_simple in ((0.0, False), (1e-9, False), (1e-2, True)):
        slope = np.array([[0.0, 0.0, 0.0], [least, 0.0, 0.0]])
        point = branch_point_at(slope, np.zeros(3), np.array([0.0, 0.0, 1.0]))
        assert point.simple == is_simple
