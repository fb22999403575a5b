"""Proximal minimisation against SciPy, brute force and the two routes against each other."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from solvers import Status
from solvers.attention import affine_prox, global_prox, prox
from solvers.attention.data import single_location, whiten
from solvers.attention.expansion import expand, measure, solve, solve_spd
from solvers.attention.problem import (
    Attention,
    Channel,
    Norm,
    TokenWeight,
    reduced,
    values,
)
from solvers.warm_start import warm_fixed_point

SCALE = 1.3


def erf(chi: jax.Array, _: jax.Array) -> jax.Array:
    return 1 + jax.scipy.special.erf(chi - 0.3)


def softplus(chi: jax.Array, present: jax.Array) -> jax.Array:
    return present * jax.nn.softplus(chi)


def exponent(chi: jax.Array, present: jax.Array) -> jax.Array:
    return SCALE * chi + jnp.log(present)


def relu(chi: jax.Array, _: jax.Array) -> jax.Array:
    return jnp.maximum(chi - 0.2, 0.0)


ATTENTION = {
    "softmax": Attention(
        lambda chi, here: jax.nn.softmax(exponent(chi, here), axis=0),
        token=TokenWeight(exponent, Norm.SOFTMAX),
    ),
    "erf": Attention(erf, token=TokenWeight(erf)),
    "linear": Attention(lambda chi, _: 1 + chi),
    "softplus": Attention(
        lambda chi, here: softplus(chi, here) / jnp.sum(softplus(chi, here), axis=0),
        token=TokenWeight(softplus, Norm.SUM),
    ),
    "relu": Attention(relu, (0.2,), TokenWeight(relu)),
}


AFFINE = Attention(lambda c, _: 0.3 + 1.4 * c)


def channel(tokens: int, n: int, key_width: float = 3.0, value_width: float = 0.7) -> Channel:
    rng = np.random.default_rng(0)
    draw = [jnp.array(rng.normal(size=(tokens, n))) for _ in range(2)]
    return Channel(
        draw[0],
        draw[1],
        jnp.array(rng.normal(size=n)),
        jnp.array(key_width),
        jnp.array(value_width),
        jnp.ones((tokens, n)),
    )


@pytest.mark.parametrize("name", [n for n in ATTENTION if n != "linear"])
def test_closed_forms_are_what_automatic_differentiation_gives(name: str) -> None:
    """h, its slope, its gradient and (H + tau)^-1, at random points, kinks and absent tokens."""
    closed, rng = ATTENTION[name], np.random.default_rng(5)
    present = np.ones((3, 40))
    if name in ("softmax", "softplus"):
        present[2, ::3] = 0
    at = channel(3, 40)._replace(present=jnp.array(present))
    chi = rng.normal(size=(3, 40))
    chi[0, :10] = 0.2
    right = tuple(jnp.array(rng.normal(size=(3, 40))))

    def found(attend: Attention) -> tuple[np.ndarray, ...]:
        def program(chi: jax.Array) -> list[jax.Array]:
            rows = tuple(chi)
            slopes, matrix = expand(attend, at, rows)
            x, positive = solve(matrix, 0.3, right)
            moved = jnp.stack(x) * positive
            return [*measure(attend, at, rows), jnp.stack(slopes), moved, positive]

        return tuple(map(np.asarray, jax.jit(program)(jnp.array(chi))))

    for ours, automatic in zip(found(closed), found(closed._replace(token=None)), strict=True):
        np.testing.assert_allclose(ours, automatic, atol=1e-11)
    assert 0.2 < np.mean(found(closed)[-1]) < 1


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=() if n == "softmax" else pytest.mark.slow)
        for n in ATTENTION
        if n != "relu"
    ],
)
def test_elimination_and_search_agree_with_scipy_on_the_full_problem(name: str) -> None:
    """No start of a joint minimisation over (chi, z) by SciPy lies lower, and one of them lies as
    low.
    """
    attend, at, tokens = ATTENTION[name], channel(3, 6), 3
    chi, _, failed = global_prox.search(attend, at, at.key)
    height = reduced(attend, at, chi)
    assert not np.any(failed)
    rng = np.random.default_rng(1)
    for i in range(6):

        def full(flat: np.ndarray, i: int = i) -> float:
            c, z = jnp.array(flat[:tokens, None]), flat[tokens:]
            fit = (at.label[i] - jnp.sum(attend(c, jnp.ones_like(c))[:, 0] * z)) ** 2 / 2
            return float(
                fit
                + jnp.sum((c[:, 0] - at.key[:, i]) ** 2) / 6.0
                + jnp.sum((z - at.value[:, i]) ** 2) / 1.4
            )

        base = np.concatenate([at.key[:, i], at.value[:, i]])
        lowest = min(
            minimize(full, base + rng.normal(size=6) * s, method="BFGS").fun for s in (0, 1, 2)
        )
        assert height[i] <= lowest + 1e-7
        z = values(attend, at, chi)[:, i]
        assert full(np.concatenate([chi[:, i], z])) == pytest.approx(float(height[i]), abs=1e-12)


@pytest.mark.slow
def test_search_is_not_beaten_by_many_random_starts() -> None:
    attend, at = ATTENTION["softmax"], channel(3, 1000, key_width=8.0, value_width=1.2)
    chi, _, _ = global_prox.search(attend, at, at.key)
    height, rng = reduced(attend, at, chi), np.random.default_rng(2)
    for scale in (1.0, 3.0, 3.0, 6.0, 6.0, 9.0):
        other = prox.descend(
            attend, at, at.key + scale * jnp.array(rng.normal(size=at.key.shape)), tolerance=1e-6
        )
        assert np.mean(other.height < height - 1e-6) <= 0.001


@pytest.mark.slow
def test_a_single_start_is_not_enough_and_the_search_says_how_often() -> None:
    attend, at = ATTENTION["softmax"], channel(3, 1000, key_width=8.0, value_width=1.2)
    alone = prox.descend(attend, at, at.key)
    chi, changed, _ = global_prox.search(attend, at, at.key)
    gain = alone.height - reduced(attend, at, chi)
    assert np.array_equal(changed, gain > 1e-8 * (1 + np.abs(alone.height)))
    assert 0 < np.mean(changed) < 0.2


def test_a_bend_of_the_attention_holds_tokens_and_is_searched_exactly() -> None:
    """relu: no point of a fine grid lies lower; some minima sit on the kink, where no gradient
    vanishes.
    """
    attend, at = ATTENTION["relu"], channel(2, 40)
    chi, _, failed = global_prox.search(attend, at, at.key)
    height = reduced(attend, at, chi)
    assert not np.any(failed)
    assert 0.05 < np.mean(chi == 0.2) < 0.6
    axis = np.linspace(-6, 6, 81)
    grid = np.stack(np.meshgrid(axis, axis)).reshape(2, -1)  # every point of it for every sample
    sample, point = (i.ravel() for i in np.meshgrid(np.arange(40), np.arange(grid.shape[1])))
    everywhere = reduced(attend, at.of(sample), jnp.asarray(grid[:, point])).reshape(-1, 40)
    assert np.all(everywhere.min(axis=0) >= height - 1e-9)


@pytest.mark.slow
def test_held_tokens_do_not_respond() -> None:
    attend, at = ATTENTION["relu"], channel(2, 40)
    search = jax.jit(lambda at, known: global_prox.search(attend, at, known)[0])
    chi = search(at, at.key)

    def minimum(value_width: jax.Array) -> jax.Array:
        return prox.responsive(attend, at._replace(value_width=value_width), chi)

    step = 1e-6
    slope = jax.jvp(minimum, (at.value_width,), (jnp.array(1.0),))[1]
    sides = [search(at._replace(value_width=at.value_width + s * step), chi) for s in (1, -1)]
    np.testing.assert_allclose(slope, (sides[0] - sides[1]) / (2 * step), atol=1e-5)
    assert np.all(slope[chi == 0.2] == 0)


def test_affine_attention_by_its_scalar_equation_and_by_newton() -> None:
    at = channel(4, 500)
    chi, _, failed = global_prox.search(AFFINE, at, at.key)
    r = affine_prox.residual(at, jnp.array(0.3), jnp.array(1.4))
    exact, z = affine_prox.minimiser(at, jnp.array(0.3), jnp.array(1.4), r)
    assert not np.any(failed)
    np.testing.assert_allclose(exact, chi, atol=1e-8)
    np.testing.assert_allclose(z, values(AFFINE, at, chi), atol=1e-8)
    np.testing.assert_allclose(r, at.label - jnp.sum((0.3 + 1.4 * exact) * z, axis=0), atol=1e-10)


@pytest.mark.parametrize("name", [pytest.param("softmax", marks=pytest.mark.slow), "linear"])
def test_the_response_of_the_minimiser_is_its_derivative(name: str) -> None:
    attend, at = ATTENTION[name], channel(2, 50, key_width=1.0)

    def minimum(value_width: jax.Array) -> jax.Array:
        moved = at._replace(value_width=value_width)
        if name == "linear":
            return affine_prox.minimiser(
                moved,
                jnp.array(1.0),
                jnp.array(1.0),
                affine_prox.residual(moved, jnp.array(1.0), jnp.array(1.0)),
            )[0]
        return prox.responsive(attend, moved, prox.descend(attend, moved, at.key).chi)

    width, step = jnp.array(0.7), 1e-5
    slope = jax.jvp(minimum, (width,), (jnp.array(1.0),))[1]
    difference = (minimum(width + step) - minimum(width - step)) / (2 * step)
    np.testing.assert_allclose(slope, difference, atol=1e-7)


def test_solve_spd() -> None:
    rng = np.random.default_rng(3)
    root = rng.normal(size=(5, 5, 7))
    matrix = np.einsum("ikn,jkn->ijn", root, root) + 0.1 * np.eye(5)[:, :, None]
    right = rng.normal(size=(5, 7))
    x, positive = solve_spd(jnp.array(matrix), jnp.array(right))
    assert np.all(positive)
    np.testing.assert_allclose(np.einsum("ijn,jn->in", matrix, x), right, atol=1e-9)
    assert not np.any(solve_spd(-jnp.array(matrix), jnp.array(right))[1])


def test_a_nan_centre_is_reported_as_failed() -> None:
    at = channel(2, 4)
    at = at._replace(key=at.key.at[0, 1].set(jnp.nan))
    assert list(global_prox.search(ATTENTION["softmax"], at, at.key)[2]) == [
        False,
        True,
        False,
        False,
    ]


def test_whitened_points_have_exact_second_moments() -> None:
    points = whiten(np.random.default_rng(4).normal(size=(64, 5)))
    np.testing.assert_allclose(points.mean(axis=0), 0, atol=1e-14)
    np.testing.assert_allclose(points.T @ points / 64, np.eye(5), atol=1e-13)


def test_laws_of_the_location() -> None:
    """Mean of chi* on the relevant token: sqrt(nu); E max of 3 Gaussians = 3/(2 sqrt(pi)); both
    limits of softmax weights.
    """

    def mean(rule: str, nu: float) -> float:
        data = single_location(3, rule, nu, 12, 2, 0)
        np.testing.assert_allclose(data.weights.sum(axis=1), 1, atol=1e-12)
        return float(np.mean(np.sum(data.weights * data.tokens[:, 0, :, 0], axis=1)))

    assert mean("spiked", 4.0) == pytest.approx(2.0, abs=1e-12)
    assert mean("max", np.inf) == pytest.approx(3 / (2 * np.sqrt(np.pi)), abs=2e-3)
    assert mean("max", 0.0) == pytest.approx(0.0, abs=1e-12)
    assert mean("max", 200.0) == pytest.approx(3 / (2 * np.sqrt(np.pi)), abs=5e-3)


def test_warm_fixed_point_judges_the_undamped_residual_and_refuses_nan() -> None:
    def always(x: np.ndarray) -> bool:
        return True

    def image(x: np.ndarray, state: int) -> tuple[np.ndarray, int]:
        return x / 2 + 1, state + 1

    end = warm_fixed_point(
        image,
        lambda x, s: np.array([[0.5]]),
        np.array([9.0]),
        0,
        tol=1e-12,
        max_steps=100,
        damping=0.9,
        inside=always,
    )
    assert end.status is Status.SUCCESSFUL and end.residual <= 1e-12 and end.state == end.steps
    with np.errstate(invalid="ignore"):
        bad = warm_fixed_point(
            lambda x, s: (np.sqrt(x - 3), s),
            lambda x, s: np.eye(1),
            np.array([1.0]),
            0,
            tol=1e-9,
            max_steps=9,
            damping=0.0,
            inside=always,
        )
    assert bad.status is Status.NON_FINITE
    short = warm_fixed_point(
        image,
        lambda x, s: np.array([[0.5]]),
        np.array([9.0]),
        0,
        tol=1e-12,
        max_steps=2,
        damping=0.0,
        inside=always,
    )
    assert short.status is Status.MAX_STEPS
