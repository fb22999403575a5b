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
from solvers import special

Row = Callable[..., jax.Array]


def log_cosh(x: jax.Array) -> jax.Array:
    """log cosh x without overflow."""
    size = jnp.abs(x)
    return size + special.log1p(jnp.exp(-2 * size)) - jnp.log(2.0)


SMALLEST_WIDTH = 1e-30
"""Variances below are evaluated as this one: overlaps below it are not told from zero."""


def sech(x: jax.Array) -> jax.Array:
    """1/cosh x without overflow."""
    decay = jnp.exp(-jnp.abs(x))
    return 2 * decay / (1 + decay**2)


def log_interval(a: jax.Array, b: jax.Array) -> jax.Array:
    """log(Phi(b) - Phi(a)), taken in the tail where both are small."""
    low, high = jnp.where(a + b > 0, -b, a), jnp.where(a + b > 0, -a, b)
    return special.log_ndtr(high) + jnp.log(-jnp.expm1(_log_share(low, high)))


def interval_density(a: jax.Array, b: jax.Array) -> jax.Array:
    """phi(a)/(Phi(b) - Phi(a)): in a tail by inverse Mills ratios, as the exponents of density and
    probability cancel there.
    """
    is_upper = a + b > 0
    low, high = jnp.where(is_upper, -b, a), jnp.where(is_upper, -a, b)
    at_high = special.inverse_mills(high) / -jnp.expm1(_log_share(low, high))
    return jnp.where(is_upper, at_high, at_high * jnp.exp((high - low) * (high + low) / 2))


def _log_share(low: jax.Array, high: jax.Array) -> jax.Array:
    """log(Phi(low)/Phi(high)), low < high and low + high <= 0; without the difference of two large
    numbers where both are in the tail.
    """
    ratio = jnp.log(special.inverse_mills(high) / special.inverse_mills(low))
    in_tail = (high - low) * (high + low) / 2 + ratio
    plain = special.log_ndtr(low) - special.log_ndtr(high)
    return jnp.where(high < -1, in_tail, plain)


def rounded(x: jax.Array) -> jax.Array:
    """0 for what is negative by rounding, NaN for what is negative."""
    return jnp.where(x > -1e-9, jnp.maximum(x, 0.0), jnp.nan)


def log_add(a: jax.Array, b: jax.Array) -> jax.Array:
    """log(e^a + e^b)."""
    return jnp.maximum(a, b) + special.softplus(-jnp.abs(a - b))


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
    sp.sech: sech,
    sp.erf: special.erf,
    sp.erfc: special.erfc,
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
    special_functions.LogNdtr: special.log_ndtr,
    special_functions.InverseMills: special.inverse_mills,
    special_functions.MillsGap: special.mills_gap,
    special_functions.TruncatedVariance: special.truncated_variance,
    special_functions.Softplus: special.softplus,
    special_functions.Logistic: jax.nn.sigmoid,
    special_functions.LogAdd: log_add,
    special_functions.LogCosh: log_cosh,
    special_functions.UnitPower: unit_power,
    special_functions.LogInterval: log_interval,
    special_functions.IntervalDensity: interval_density,
    special_functions.Rounded: rounded,
    special_functions.Width: lambda v: jnp.maximum(v, SMALLEST_WIDTH),
}
