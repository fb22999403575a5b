"""Flows: closed-form trajectories and times, errors that are not understated, zeros of scalar
fields.
"""

import jax.numpy as jnp
import numpy as np
import pytest

from solvers import Status, ode


def logistic(rate: float, x):
    return rate * x * (1 - x)


def exact(rate: float, x0: np.ndarray, t: np.ndarray) -> np.ndarray:
    return 1 / (1 + (1 / x0 - 1) * np.exp(-rate * t[:, None]))


def test_trajectory_of_the_logistic_equation() -> None:
    x0, times = np.array([0.01, 0.4, 1.5]), np.array([0.0, 0.3, 2.0, 9.0])
    run = ode.trajectory(logistic, 1.7, jnp.asarray(x0), jnp.asarray(times))
    error = np.max(np.abs(np.asarray(run.x) - exact(1.7, x0, times)))
    assert Status.of(int(run.status)) is Status.SUCCESSFUL
    assert error <= max(float(run.error), 1e-12)
    assert error < 1e-8


def test_arrival_time_and_levels_that_are_never_reached() -> None:
    run = ode.arrival(logistic, 1.7, jnp.asarray(0.01), lambda x: x - 0.9)
    time = np.log(99 * 9) / 1.7
    assert float(run.time) == pytest.approx(time, abs=1e-6)
    assert abs(float(run.time) - time) <= max(float(run.error), 1e-11)
    never = ode.arrival(logistic, 1.7, jnp.asarray(0.01), lambda x: x - 1.1, latest=50.0)
    assert float(never.time) == np.inf
    assert Status.of(int(never.status)) is Status.SUCCESSFUL


def test_a_field_that_explodes_is_not_called_successful() -> None:
    run = ode.trajectory(lambda p, x: x**2, None, jnp.asarray(1.0), jnp.asarray([2.0]))
    assert Status.of(int(run.status)) is not Status.SUCCESSFUL


def test_zeros_inside_the_interval_only() -> None:
    found = ode.zeros(lambda x: (x - 0.25) * (x + 0.999) * (1 - x), -1.0, 1.0)
    assert found == pytest.approx([-0.999, 0.25], abs=1e-14)
    assert ode.zeros(lambda x: 1 - x**2 + 0.1, -1.0, 1.0) == []
    with pytest.raises(ValueError, match="vanishes"):
        ode.zeros(lambda x: np.maximum(x, 0.0), -1.0, 1.0)
    with pytest.raises(ValueError, match="finite"):
        ode.zeros(lambda x: np.full_like(x, np.nan), -1.0, 1.0)
