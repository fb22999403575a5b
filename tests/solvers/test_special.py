"""Special functions against mpmath over the whole range, and their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

from solvers import special

DIGITS = 60


def mills(t: float) -> tuple[Any, Any, Any]:
    """m = phi/Phi, g = t + m and 1 - m g; by Laplace's continued fraction far on the left."""
    z = mp.mpf(float(t))
    if z > -12:
        m = mp.npdf(z) / (mp.erfc(-z / mp.sqrt(2)) / 2)
        return m, z + m, 1 - m * (z + m)
    k = mp.mpf(0)
    for n in range(400, 1, -1):
        k = n / (-z + k)
    g = 1 / (-z + k)
    return g - z, g, g * (k - g)


def log_ndtr(t: float) -> Any:
    z = mp.mpf(float(t))
    if z < -12:
        return -z * z / 2 - mp.log(2 * mp.pi) / 2 - mp.log(mills(t)[0])
    upper = mp.erfc(abs(z) / mp.sqrt(2)) / 2
    return mp.log(upper) if z < 0 else mp.log1p(-upper)


rng = np.random.default_rng(0)
NORMAL = np.concatenate(
    [
        rng.uniform(-1, 1, 150),
        rng.uniform(-7, 7, 300),
        rng.uniform(-38, 36, 150),
        *(s * 10 ** rng.uniform(-290, 1.4, 50) for s in (-1, 1)),
        -(10 ** rng.uniform(1.5, 140, 40)),
    ]
)
LOG = np.concatenate(
    [
        rng.uniform(-0.3, 0.45, 200),
        rng.uniform(-1, 30, 200),
        10 ** rng.uniform(-300, 300, 100),
        -(10 ** rng.uniform(-300, 0, 100)),
        -1 + 10 ** rng.uniform(-15, 0, 50),
    ]
)
Case = tuple[Callable[[jax.Array], jax.Array], np.ndarray, Callable[[float], Any], float]
CASES: dict[str, Case] = {
    "erf": (special.erf, NORMAL, lambda t: mp.erf(mp.mpf(float(t))), 1.0),
    "erfc": (special.erfc, NORMAL[NORMAL < 26], lambda t: mp.erfc(mp.mpf(float(t))), 5.0),
    "log1p": (special.log1p, LOG, lambda t: mp.log1p(mp.mpf(float(t))), 1.5),
    "softplus": (
        special.softplus,
        NORMAL[np.abs(NORMAL) < 700],
        lambda t: mp.log1p(mp.exp(mp.mpf(float(t)))),
        2.5,
    ),
    "log_ndtr": (special.log_ndtr, NORMAL, log_ndtr, 5.0),
    "inverse_mills": (special.inverse_mills, NORMAL, lambda t: mills(t)[0], 5.0),
    "mills_gap": (special.mills_gap, NORMAL, lambda t: mills(t)[1], 40.0),
    "mills_gap, left": (special.mills_gap, NORMAL[NORMAL < -3.5], lambda t: mills(t)[1], 5.0),
    "truncated_variance": (special.truncated_variance, NORMAL, lambda t: mills(t)[2], 1000.0),
    "truncated_variance, left": (
        special.truncated_variance,
        NORMAL[NORMAL < -3.5],
        lambda t: mills(t)[2],
        6.0,
    ),
}


def units(value: float, exact: Any) -> float:
    """Error in units of the last place."""
    return float(abs(mp.mpf(value) - exact) / mp.mpf(np.spacing(abs(float(exact)))))


@pytest.mark.parametrize("name", CASES)
def test_values_over_the_whole_range(name: str) -> None:
    f, points, exact, allowed = CASES[name]
    found = np.asarray(jax.jit(f)(jnp.array(points)))
    with mp.workdps(DIGITS):
        wrong = [units(float(v), exact(t)) for v, t in zip(found, points, strict=True)]
    assert max(wrong) <= allowed, points[int(np.argmax(wrong))]


INF, NAN = np.inf, np.nan
ENDS = {
    "erf": (special.erf, [0.0, 1.0, -1.0, NAN]),
    "erfc": (special.erfc, [1.0, 0.0, 2.0, NAN]),
    "log1p": (special.log1p, [0.0, INF, NAN, NAN]),
    "softplus": (special.softplus, [np.log(2), INF, 0.0, NAN]),
    "log_ndtr": (special.log_ndtr, [-np.log(2), 0.0, -INF, NAN]),
    "inverse_mills": (special.inverse_mills, [np.sqrt(2 / np.pi), 0.0, INF, NAN]),
    "mills_gap": (special.mills_gap, [np.sqrt(2 / np.pi), INF, 0.0, NAN]),
    "truncated_variance": (special.truncated_variance, [1 - 2 / np.pi, 1.0, 0.0, NAN]),
}


@pytest.mark.parametrize("name", ENDS)
def test_zero_infinities_and_nan(name: str) -> None:
    f, values = ENDS[name]
    found = np.asarray(jax.jit(f)(jnp.array([0.0, INF, -INF, NAN])))
    np.testing.assert_allclose(found, values, rtol=4e-16)


def test_ends_of_log1p_and_subnormal_numbers() -> None:
    smallest = np.array([5e-324, -5e-324, 1e-310, -0.0])
    assert np.array_equal(np.asarray(special.log1p(jnp.array(smallest))), smallest)
    assert float(special.log1p(-1.0)) == -INF and np.isnan(float(special.log1p(-1.1)))
    assert np.signbit(float(special.erf(-0.0))) and abs(float(special.erf(1e-310))) < 2e-310


@pytest.mark.parametrize("name", ENDS)
def test_derivatives_under_grad_vmap_and_jit(name: str) -> None:
    f = ENDS[name][0]
    points, step = jnp.array([-8.1, -2.2, -0.3, 0.4, 1.9]), 1e-5
    if name == "log1p":
        points = points + 8.2
    slope = jax.jit(jax.vmap(jax.grad(f)))(points)
    difference = (f(points + step) - f(points - step)) / (2 * step)
    np.testing.assert_allclose(slope, difference, rtol=1e-8, atol=1e-10)
    second = jax.vmap(jax.grad(jax.grad(f)))(points)
    bend = jax.vmap(jax.grad(f))
    difference = (bend(points + step) - bend(points - step)) / (2 * step)
    np.testing.assert_allclose(second, difference, rtol=1e-7, atol=1e-9)


def test_single_precision_is_refused() -> None:
    with jax.enable_x64(False), pytest.raises(TypeError, match="double precision"):
        special.erf(jnp.float32(1.0))
