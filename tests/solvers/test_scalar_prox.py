"""The minimiser of (z - omega)^2/(2V) + l(z): faults reported elsewhere, and the optimality
condition for any convex loss.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers import scalar_prox


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def logistic(z: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Derivatives of log(1 + e^-z)."""
    s = jax.nn.sigmoid(-z)
    return -s, s * (1 - s)


def hinge(z: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Of max(0, 1 - z)."""
    return jnp.where(z < 1, -1.0, 0.0), jnp.zeros_like(z)


def minimiser(loss, centre: float, width: float) -> float:
    return float(
        scalar_prox.minimiser(
            loss, jnp.asarray(centre, dtype=float), jnp.asarray(width, dtype=float)
        )
    )


def test_logistic_where_plain_newton_oscillates() -> None:
    assert minimiser(logistic, -50, 100) == pytest.approx(0, abs=1e-13)
    assert minimiser(logistic, 0, 1) == pytest.approx(0.40105813754154707, abs=1e-14)


def test_hinge_and_its_corner() -> None:
    assert [minimiser(hinge, omega, 1) for omega in (2, 0.5, -3)] == pytest.approx(
        [2, 1, -2], abs=1e-12
    )
    assert minimiser(hinge, 0.5, 1e-12) == pytest.approx(0.5, abs=1e-11)


@given(st.floats(-1e3, 1e3), st.floats(1e-8, 1e6))
def test_the_minimiser_is_stationary(omega: float, width: float) -> None:
    with jax.enable_x64(True):
        z = minimiser(logistic, omega, width)
        slope = float(logistic(jnp.asarray(z))[0])
    assert z == pytest.approx(omega - width * slope, abs=1e-9 * (1 + abs(omega) + width))
    assert omega <= z + 1e-12 * (1 + abs(omega)) and z <= omega + width * (1 + 1e-12)


def test_nan_and_no_width_are_nan() -> None:
    assert np.isnan(
        [
            minimiser(logistic, np.nan, 1),
            minimiser(logistic, 0, np.nan),
            minimiser(logistic, 0, 0),
            minimiser(logistic, 0, -1),
        ]
    ).all()


@pytest.mark.parametrize("at_the_corner", [-1.0, -0.5, 0.0])
def test_a_corner_holds_the_minimiser_whatever_its_slope_is_called(at_the_corner: float) -> None:
    """Also at the centre at which that slope would be the one that stationarity asks for."""

    def loss(z: jax.Array) -> tuple[jax.Array, jax.Array]:
        beside = jnp.where(z < 1, -1.0, 0.0)
        return jnp.where(z == 1, at_the_corner, beside), jnp.zeros_like(z)

    width = jnp.asarray(0.8)
    centres = jnp.array([0.1, 0.21, 0.4, 0.6, 0.8, 0.99, 1.01, 2.0])
    z = scalar_prox.minimiser(loss, centres, width)
    slopes = scalar_prox.slope(loss, z, centres, width)
    assert slopes.tolist() == [1, 0, 0, 0, 0, 0, 1, 1]


@given(st.floats(-20, 20), st.floats(1e-3, 1e3))
def test_the_slope_is_the_derivative_of_the_minimiser(centre: float, width: float) -> None:
    z = jnp.asarray(minimiser(logistic, centre, width))
    slope = scalar_prox.slope(logistic, z, jnp.asarray(centre), jnp.asarray(width))
    step = 1e-5 * (1 + abs(centre))
    ends = [minimiser(logistic, centre + side * step, width) for side in (1, -1)]
    assert float(slope) == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-5)
