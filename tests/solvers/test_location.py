"""The law of the largest noisy key, and the samples planted by it, against one-dimensional
quadrature and closed forms.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, logsumexp
from scipy.stats import norm

from solvers.attention import location_law


@partial(jax.jit, static_argnums=3)
def log_probabilities(
    omega: jax.Array, variance: jax.Array, nu: jax.Array, nodes: int
) -> jax.Array:
    law = location_law.noise(variance, nu)
    h = law.rate * omega
    return location_law._winning(law, h, jnp.ones(omega.shape[1], bool), nodes, h[:, :1])[3]


def probabilities(omega: list[float], variance: float, nu: float, nodes: int = 57) -> np.ndarray:
    """P_l of keys given in falling order."""
    return np.exp(
        np.asarray(
            log_probabilities(jnp.array([omega]), jnp.asarray(variance), jnp.asarray(nu), nodes)[0]
        )
    )


def two_tokens(gap: float, variance: float, nu: float) -> float:
    """P_1 at L = 2 is the mean of a logistic function of one Gaussian: no Gumbel noise, no product
    of distribution functions.
    """
    if np.isinf(nu):
        return float(norm.cdf(gap / np.sqrt(2 * variance)))
    t = np.linspace(-9, 9, 100_001)
    return float(np.trapezoid(norm.pdf(t) * expit(nu * (gap + np.sqrt(2 * variance) * t)), t))


@pytest.mark.parametrize("nu", [0.0, 0.3, 1.0, 2.0, 7.0, 60.0, 1e4, np.inf])
@pytest.mark.parametrize("variance", [1.0, 0.3, 1e-2, 1e-5, 1e-10])
def test_two_tokens_by_another_formula(nu: float, variance: float) -> None:
    for gap in (0.0, 0.5 * np.sqrt(variance), 0.02, 1.3):
        p = probabilities([0.4 + gap, 0.4], variance, nu)
        assert p.sum() == pytest.approx(1, abs=1e-6)
        assert p[0] == pytest.approx(two_tokens(gap, variance, nu), abs=1e-6)


def test_indicator_where_the_keys_are_known() -> None:
    assert probabilities([0.3, 0.2, -1.0], 0.0, np.inf) == pytest.approx([1, 0, 0], abs=1e-9)
    assert probabilities([0.3, 0.2], 0.0, 3.0) == pytest.approx(
        [expit(0.3), 1 - expit(0.3)], abs=1e-6
    )


def test_a_large_strength_is_the_largest_key() -> None:
    keys = [1.1, 0.7, 0.1, -0.4]
    assert probabilities(keys, 0.2, 1e6) == pytest.approx(
        probabilities(keys, 0.2, np.inf), abs=1e-7
    )


@pytest.mark.parametrize("tokens", [2, 5, 40])
@pytest.mark.parametrize("width", [1e-4, 0.3, 100.0])
def test_sorted_keys_have_the_law_of_order_statistics(tokens: int, width: float) -> None:
    points = location_law.base_points(tokens, 13, 1, 0)
    drawn = jax.jit(location_law.sorted_keys)(
        jnp.asarray(points.keys[0]), jnp.asarray(float(tokens)), jnp.asarray(width)
    )
    keys, weight = map(np.asarray, drawn)
    assert np.all(np.diff(keys[:, : location_law._ordered(tokens)], axis=1) <= 0)
    assert weight.mean() == pytest.approx(1, abs=2e-4)
    assert (weight * (keys**2).sum(axis=1)).mean() == pytest.approx(tokens, rel=1e-2)
    x = np.linspace(-9, 9, 20_001)
    largest = np.trapezoid(x * tokens * norm.pdf(x) * norm.cdf(x) ** (tokens - 1), x)
    assert (weight * keys[:, 0]).mean() == pytest.approx(largest, abs=5e-3)
    near = (weight * (keys[:, 0] - keys[:, 1] < 1e-3)).mean()
    pairs = tokens * (tokens - 1) * np.trapezoid(norm.pdf(x) ** 2 * norm.cdf(x) ** (tokens - 2), x)
    if width < 1e-3:
        assert near == pytest.approx(1e-3 * pairs, rel=0.02), "near ties are resolved"


@pytest.mark.parametrize(("tokens", "count"), [(3, 3), (5, 3), (60, 60), (60, 20)])
def test_locations_sum_to_one(tokens: int, count: int) -> None:
    """Explicit locations and representatives of the others; tokens beyond ``count`` are absent."""
    points = location_law.base_points(tokens, 11, 1, 0)
    law = location_law.noise(jnp.asarray(0.4), jnp.asarray(np.inf))
    part = location_law.Points(*(jnp.asarray(a[0]) for a in points))
    samples = jax.jit(
        lambda p: location_law.planted(
            p,
            jnp.asarray(float(count)),
            law,
            jnp.asarray(0.6),
            jnp.asarray(0.5),
            jnp.asarray(0.6),
            36,
        )
    )(part)
    assert float(samples.location_weight.sum(axis=1).mean()) == pytest.approx(
        1, abs=1e-6 if tokens <= 16 else 0.02
    )
    assert np.allclose(np.asarray(samples.probability).sum(axis=1), 1, atol=1e-7)
    assert np.all(np.asarray(samples.probability)[:, count:] == 0)
    assert np.all(np.asarray(samples.key_score)[:, :, count:] == 0)


@pytest.mark.parametrize("nu", [2.0, np.inf])
def test_scores_are_derivatives_of_log_z(nu: float) -> None:
    """By finite differences of log sum_l P_l N(y; omega_v,l, V), the probabilities computed afresh
    for moved keys.
    """
    points = location_law.base_points(3, 3, 1, 0)
    part = location_law.Points(*(jnp.asarray(a[0]) for a in points))
    q_k, q_v, width, count = 0.5, 0.6, 0.5, jnp.asarray(3.0)
    law = location_law.noise(jnp.asarray(1 - q_k), jnp.asarray(nu))
    samples = jax.jit(
        lambda p: location_law.planted(
            p, count, law, jnp.asarray(q_k), jnp.asarray(q_v), jnp.asarray(width), 80
        )
    )(part)
    narrow = location_law.near_tie(count, law.rate * np.sqrt(q_k))
    keys = np.sqrt(q_k) * np.asarray(location_law.sorted_keys(part.keys, count, narrow)[0])
    values = np.sqrt(q_v) * np.asarray(part.values)
    label = values + np.sqrt(width) * np.asarray(part.label)[:, None]

    def log_z(k: np.ndarray, v: np.ndarray) -> np.ndarray:
        """(sample, location)."""
        order = np.argsort(-k, axis=1)
        sorted_log_p = np.asarray(
            log_probabilities(
                jnp.asarray(np.take_along_axis(k, order, 1)),
                jnp.asarray(1 - q_k),
                jnp.asarray(nu),
                80,
            )
        )
        log_p = np.take_along_axis(sorted_log_p, np.argsort(order, axis=1), 1)
        terms = log_p[:, None, :] - (label[:, :, None] - v[:, None, :]) ** 2 / (2 * width)
        return logsumexp(terms, axis=2) - np.log(2 * np.pi * width) / 2

    assert np.allclose(samples.log_z, log_z(keys, values), atol=1e-6)
    for j, unit in enumerate(np.eye(3)):
        by_key = (log_z(keys + 1e-3 * unit, values) - log_z(keys - 1e-3 * unit, values)) / 2e-3
        by_value = (log_z(keys, values + 1e-4 * unit) - log_z(keys, values - 1e-4 * unit)) / 2e-4
        assert np.allclose(samples.key_score[:, :, j], by_key, atol=3e-4)
        assert np.allclose(samples.value_score[:, :, j], by_value, atol=1e-5)
