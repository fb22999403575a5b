"""Descent of a Gram matrix on a quadratic objective with known minimum, vectors of a Gram matrix,
and the sinc rule for a step.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import norm

from solvers import gram_descent, quadrature

FIXED = jnp.eye(3)[1:]


def objective(matrix):
    """(|w|^2 - 2 w.a)^2/2 + (w.b)^2 of one vector w and two fixed ones, G = (w, a, b): minimal on a
    sphere around a, across b.
    """
    return (matrix[0, 0] - 2 * matrix[0, 1]) ** 2 / 2 + matrix[0, 2] ** 2


def forces(matrix):
    slope = jax.grad(objective)(matrix)
    return jnp.array([[2 * slope[0, 0], slope[0, 1], slope[0, 2]]])


def at(x):
    w = jnp.concatenate([x, FIXED])
    return objective(w @ w.T)


def test_velocity_is_minus_the_gradient() -> None:
    x = jnp.array([[0.3, -0.7, 0.4]])
    np.testing.assert_allclose(
        gram_descent.velocity(forces, FIXED, x), -jax.grad(at)(x), atol=1e-14
    )
    speed, slope = gram_descent.slope(forces, FIXED, x)
    np.testing.assert_allclose(speed, -jax.grad(at)(x)[0], atol=1e-14)
    np.testing.assert_allclose(slope, -jax.hessian(lambda y: at(y[None]))(x[0]), atol=1e-6)


def test_the_flow_ends_where_it_rests_and_newton_finds_the_place() -> None:
    velocity = jax.jit(lambda x: gram_descent.velocity(forces, FIXED, x))
    end = gram_descent.flow_from(
        lambda x: np.asarray(velocity(x)), np.array([[0.8, 0.9, 0.5]]), 400.0, 1e3
    )
    speed, slope = gram_descent.slope(forces, FIXED, jnp.asarray(end.x))
    assert np.max(np.abs(speed)) < 2 * gram_descent.REST and end.time < 400
    x = np.asarray(end.x) + gram_descent.newton(np.asarray(speed), np.asarray(slope))
    assert np.max(np.abs(jax.grad(at)(jnp.asarray(x)))) < 1e-10
    assert np.abs(x[0, 2]) < 1e-10 and np.linalg.norm(x[0] - [0, 1, 0]) == pytest.approx(1)


def test_a_flow_that_needs_too_many_evaluations_or_grows_too_long_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    grows = gram_descent.flow_from(lambda x: x, np.ones((1, 2)), 400.0, 10.0)
    assert np.linalg.norm(grows.x) == pytest.approx(10, rel=1e-6)
    assert grows.time == pytest.approx(np.log(10 / np.sqrt(2)), rel=1e-5)
    monkeypatch.setattr(gram_descent, "MOST_EVALUATIONS", 50)
    turns = gram_descent.flow_from(
        lambda x: 30 * np.array([[-x[0, 1], x[0, 0]]]), np.array([[1.0, 0.0]]), 400.0, 10.0
    )
    assert turns.evaluations == 50 and turns.time == 0


def test_a_step_on_the_sphere_keeps_lengths_and_follows_the_tangent() -> None:
    x, size = jnp.array([[0.6, 0.8, 0.0]]), jnp.array([1e-6])
    new = gram_descent.step_on_spheres(forces, FIXED, x, size)
    assert float(jnp.linalg.norm(new)) == pytest.approx(1, abs=1e-15)
    speed = gram_descent.velocity(forces, FIXED, x)
    tangent = speed - (speed @ x.T) * x
    np.testing.assert_allclose((new - x) / size[0], tangent, atol=1e-5)


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_vectors_of_a_gram_matrix(rank: int) -> None:
    w = np.random.default_rng(rank).standard_normal((4, rank))
    found = gram_descent.vectors(w @ w.T)
    assert found is not None
    np.testing.assert_allclose(found @ found.T, w @ w.T, atol=1e-12)
    assert (
        gram_descent.vectors(w @ w.T - 0.5 * np.diag([1, 0, 0, 0]) * (w @ w.T)[0, 0] * 2.5) is None
    )


@given(st.lists(st.floats(-1.2, 1.2), min_size=8, max_size=8))
@example([0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 2.8394783905867552e-08, 0.0])
def test_vectors_that_nearly_depend_on_one_another(entries: list[float]) -> None:
    """Two trained vectors, and two fixed ones along the first axes."""
    w = np.concatenate([np.reshape(entries, (2, 4)), np.eye(4)[:2]])
    found = gram_descent.vectors(w @ w.T)
    assert found is not None
    np.testing.assert_allclose(found @ found.T, w @ w.T, atol=1e-12)
    np.testing.assert_allclose(found[2:], [[0, 1, 0, 0], [1, 0, 0, 0]], atol=1e-12)


def test_the_step_is_integrated_like_a_smooth_function() -> None:
    nodes, matrix = quadrature.trapezoid_gaussian(41), quadrature.below(41)
    np.testing.assert_allclose(matrix @ nodes.weights, norm.cdf(nodes.points), atol=1e-12)
    np.testing.assert_allclose(
        matrix @ (nodes.weights * nodes.points), -norm.pdf(nodes.points), atol=1e-12
    )
