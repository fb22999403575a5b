"""The table from SymPy nodes to JAX: one row per function. Log-domain where it matters.

``replica.lower`` walks expressions and calls these rows; a node with no row here is an error there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special as jsp
import sympy as sp

from equations.calculus import special_functions

Row = Callable[..., jax.Array]
FRACTION_BELOW = -3.5
"""Below this the Mills functions use their continued fraction: nothing cancels, error < 1e-15 at
every x.
"""
TERMS = 40
LARGEST = 40.0
"""Above this phi/Phi is zero."""


def log_ndtr(x: jax.Array) -> jax.Array:
    """log Phi(x) to 1e-14 relative, in both tails (JAX's own: 6e-12 at -23, 5e-2 at 8)."""
    left, right = jnp.minimum(x, FRACTION_BELOW), jnp.maximum(x, 0.0)
    tail = -(left**2) / 2 - jnp.log(2 * jnp.pi) / 2 - jnp.log(_mills_fraction(left)[0] - left)
    middle = jnp.where(
        x > 0, jnp.log1p(-jsp.ndtr(-right)), jsp.log_ndtr(jnp.clip(x, FRACTION_BELOW, 0.0))
    )
    return jnp.where(x < FRACTION_BELOW, tail, middle)


def _mills_fraction(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """g = x + phi/Phi and v = 1 - m g for x <= -3.5.

    With t = -x and k_n = n/(t + k_{n+1}) (Laplace's continued fraction), phi/Phi = t + k_1: so g =
    k_1 and v = 1 - (t + k_1) k_1 = k_1 (k_2 - k_1), where k_2 - k_1 is about k_1.
    """
    t = -x
    k = jnp.zeros_like(t)
    for n in range(TERMS, 1, -1):
        k = n / (t + k)
    gap = 1 / (t + k)
    return gap, gap * (k - gap)


def _mills_direct(x: jax.Array) -> jax.Array:
    middle = jnp.clip(x, FRACTION_BELOW, LARGEST)
    return jnp.exp(-(middle**2) / 2 - jnp.log(2 * jnp.pi) / 2 - jsp.log_ndtr(middle))


def mills_gap(x: jax.Array) -> jax.Array:
    """x + phi(x)/Phi(x)."""
    fraction = _mills_fraction(jnp.minimum(x, FRACTION_BELOW))[0]
    return jnp.where(
        x < FRACTION_BELOW, fraction, jnp.maximum(x, FRACTION_BELOW) + _mills_direct(x)
    )


def inverse_mills(x: jax.Array) -> jax.Array:
    """phi(x)/Phi(x)."""
    return jnp.where(x < FRACTION_BELOW, mills_gap(x) - x, _mills_direct(x))


def truncated_variance(x: jax.Array) -> jax.Array:
    """1 - m (x + m), m = phi/Phi: the variance of a Gaussian truncated at x."""
    m = _mills_direct(x)
    direct = 1 - m * (jnp.clip(x, FRACTION_BELOW, LARGEST) + m)
    return jnp.where(x < FRACTION_BELOW, _mills_fraction(jnp.minimum(x, FRACTION_BELOW))[1], direct)


def log_cosh(x: jax.Array) -> jax.Array:
    """log cosh x without overflow."""
    size = jnp.abs(x)
    return size + jnp.log1p(jnp.exp(-2 * size)) - jnp.log(2.0)


def log_interval(a: jax.Array, b: jax.Array) -> jax.Array:
    """log(Phi(b) - Phi(a)), taken in the tail where both are small."""
    low, high = jnp.where(a + b > 0, -b, a), jnp.where(a + b > 0, -a, b)
    upper = log_ndtr(high)
    return upper + jnp.log(-jnp.expm1(log_ndtr(low) - upper))


def rounded(x: jax.Array) -> jax.Array:
    """0 for what is negative by rounding, NaN for what is negative."""
    return jnp.where(x > -1e-9, jnp.maximum(x, 0.0), jnp.nan)


def unit_power(base: jax.Array, n: jax.Array) -> jax.Array:
    """base^n for a probability known to about 1e-16."""
    return jnp.exp(n * jnp.log(jnp.maximum(base, 1e-16)))


def sign(x: jax.Array) -> jax.Array:
    """-1, 0, 1; NaN stays NaN."""
    return jnp.sign(x)


def heaviside(x: jax.Array, at_zero: jax.Array | float = 0.5) -> jax.Array:
    """0, 1/2, 1; NaN stays NaN."""
    return jnp.where(jnp.isnan(x), x, jnp.heaviside(x, at_zero))


def polygamma(order: jax.Array, x: jax.Array) -> jax.Array:
    """psi^(n)(x) for x > 0; numbers arrive as floats and JAX wants an integer order."""
    n = jnp.asarray(order, dtype=int)
    return jnp.where(n == 0, jsp.digamma(x), jsp.polygamma(jnp.maximum(n, 1), x))


def _fold(pair: Row) -> Row:
    def row(first: jax.Array, *rest: jax.Array) -> jax.Array:
        for value in rest:
            first = pair(first, value)
        return first

    return row


FUNCTIONS: dict[Any, Row] = {
    sp.exp: jnp.exp,
    sp.log: jnp.log,
    sp.sin: jnp.sin,
    sp.cos: jnp.cos,
    sp.tan: jnp.tan,
    sp.asin: jnp.arcsin,
    sp.acos: jnp.arccos,
    sp.atan: jnp.arctan,
    sp.sinh: jnp.sinh,
    sp.cosh: jnp.cosh,
    sp.tanh: jnp.tanh,
    sp.asinh: jnp.arcsinh,
    sp.acosh: jnp.arccosh,
    sp.atanh: jnp.arctanh,
    sp.sech: lambda x: 1 / jnp.cosh(x),
    sp.erf: jsp.erf,
    sp.erfc: jsp.erfc,
    sp.erfinv: jsp.erfinv,
    sp.gamma: lambda x: (
        jnp.where(x > 0, 1.0, jnp.sign(jnp.cos(jnp.pi * jnp.floor(x)))) * jnp.exp(jsp.gammaln(x))
    ),
    sp.loggamma: jsp.gammaln,
    sp.digamma: jsp.digamma,
    sp.polygamma: polygamma,
    sp.Heaviside: heaviside,
    sp.sign: sign,
    sp.Abs: jnp.abs,
    sp.Max: _fold(jnp.maximum),
    sp.Min: _fold(jnp.minimum),
    sp.KroneckerDelta: lambda i, j: jnp.where(i == j, 1.0, 0.0),
    sp.StrictLessThan: jnp.less,
    sp.LessThan: jnp.less_equal,
    sp.StrictGreaterThan: jnp.greater,
    sp.GreaterThan: jnp.greater_equal,
    sp.And: _fold(jnp.logical_and),
    sp.Or: _fold(jnp.logical_or),
    sp.Not: jnp.logical_not,
    special_functions.LogNdtr: log_ndtr,
    special_functions.InverseMills: inverse_mills,
    special_functions.MillsGap: mills_gap,
    special_functions.TruncatedVariance: truncated_variance,
    special_functions.Softplus: lambda x: jnp.logaddexp(x, 0.0),
    special_functions.Logistic: jax.nn.sigmoid,
    special_functions.LogCosh: log_cosh,
    special_functions.UnitPower: unit_power,
    special_functions.LogInterval: log_interval,
    special_functions.Rounded: rounded,
    special_functions.Width: lambda v: jnp.maximum(v, 1e-30),
}
