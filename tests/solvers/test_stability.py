"""Linear response on the host: what bounds the distance to a fixed point, also a critical one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from solvers import largest_step, leading_eigenvalue, newton_step, radius_of, second_order

SMALL = st.floats(1e-6, 1e-2)


@given(st.floats(0.01, 3.0), SMALL, st.floats(-0.98, 0.98))
def test_the_distance_is_bounded_beside_another_fixed_point(
    bend: float, apart: float, share: float
) -> None:
    """F(x) = x - bend x (x - apart): a root at 0 and one at ``apart``."""
    x = np.array([apart * (0.5 + share) if share > 0 else apart * share])

    def slope(at: np.ndarray) -> np.ndarray:
        return np.array([[1 - bend * (2 * at[0] - apart)]])

    residual = np.abs(bend * x * (x - apart))
    assume(slope(x)[0, 0] != 1)
    error = largest_step(slope(x), residual)
    bound = error * second_order(slope, x, slope(x), error)
    distance = min(abs(x[0]), abs(x[0] - apart))
    assert bound[0] >= distance * (1 - 1e-6) - 1e-300


def test_it_is_of_no_account_far_from_critical_points_and_unbounded_at_one() -> None:
    straight, error = np.array([[0.5]]), np.array([1e-10])
    assert second_order(lambda x: straight + x, np.zeros(1), straight, error) == 1.0
    assert second_order(lambda x: 1 - x, np.zeros(1), np.eye(1), error) == np.inf
    assert second_order(lambda x: 1 - x, np.full(1, 1e-12), np.eye(1) - 1e-12, error) == np.inf
    assert second_order(lambda x: 1 - x, np.zeros(1), np.full((1, 1), np.nan), error) == 1.0


def test_the_largest_step_is_reached_by_some_defect() -> None:
    slope = np.array([[0.5, 0.4], [-0.3, 0.2]])
    size = np.array([1e-3, 2e-3])
    signs = [(a, b) for a in (1, -1) for b in (1, -1)]
    steps = np.array([np.abs(newton_step(slope, size * s)) for s in signs])
    assert largest_step(slope, size) == pytest.approx(steps.max(axis=0))


def test_what_is_not_finite_or_singular_is_said() -> None:
    critical, one = np.eye(1), np.ones(1)
    for broken in (np.array([[np.nan]]), np.array([[np.inf]])):
        for value in (radius_of, leading_eigenvalue):
            assert np.isnan(value(broken))
        assert np.isnan(newton_step(broken, one)[0]) and np.isnan(largest_step(broken, one)[0])
    assert newton_step(critical, one)[0] == largest_step(critical, one)[0] == np.inf
    empty = np.zeros((0, 0))
    assert radius_of(empty) == 0.0 and leading_eigenvalue(empty) == -np.inf
