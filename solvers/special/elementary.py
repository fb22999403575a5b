r"""log(1 + x) and what rests on it, by fdlibm's form.

    u = 1 + x = 2^k (1 + f),  sqrt(1/2) <= 1 + f < sqrt(2),  s = f/(2 + f)
    log u = k log 2 + f - f^2/2 + s (f^2/2 + R(s^2)),   R of degree 7

and the rounding error c of 1 + x is put back as c/u. Below the square roots u is not formed at all:
f = x. Source: fdlibm, s_log1p.c (Sun Microsystems, 1993), error below one unit in the last place.
Without branches, so that the compiler's loop runs along the vector registers: XLA calls the C
library element by element.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

LOG2_HIGH, LOG2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""log 2 in two parts, the first with so many zeros at its end that k times it is exact."""
SERIES = (
    1.479819860511658591e-01,
    1.531383769920937332e-01,
    1.818357216161805012e-01,
    2.222219843214978396e-01,
    2.857142874366239149e-01,
    3.999999999940941908e-01,
    6.666666666666735130e-01,
)
ROOT_HALF = 0x3FE6A09E << 32
ONE = 0x3FF00000 << 32
MANTISSA = (1 << 52) - 1
TINY = 1e-290
"""Below, log(1 + x) is x."""
NEAR_ZERO = (-0.2928932188134524, 0.4142135623730950)
"""Where 1 + x lies between the square roots of 1/2 and 2."""


def polynomial(coefficients: Sequence[float], x: jax.Array) -> jax.Array:
    """By Horner's rule, the highest power first."""
    total = jnp.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


def double(x: jax.Array | float) -> jax.Array:
    """As a 64-bit array.

    Raises
    ------
    TypeError
        JAX is in single precision, for which these forms are not made.
    """
    x = jnp.asarray(x, dtype=float)
    if x.dtype != jnp.float64:
        raise TypeError("special functions are made for double precision: set jax_enable_x64")
    return x


def log_of_sum(u: jax.Array, near: jax.Array, f: jax.Array, lost: jax.Array) -> jax.Array:
    """log(u + lost) for a normal u > 0; where ``near``, f = u + lost - 1 is used instead of u."""
    bits = jax.lax.bitcast_convert_type(u, jnp.int64) + (ONE - ROOT_HALF)
    scaled = jax.lax.bitcast_convert_type((bits & MANTISSA) + ROOT_HALF, jnp.float64)
    k = jnp.where(near, 0.0, ((bits >> 52) - 1023).astype(jnp.float64))
    f = jnp.where(near, f, scaled - 1)
    lost = jnp.where(near, 0.0, lost / u)
    s, half = f / (2 + f), f * f / 2
    z = s * s
    rest = s * (half + z * polynomial(SERIES, z))
    return k * LOG2_HIGH - ((half - (rest + (k * LOG2_LOW + lost))) - f)


@jax.custom_jvp
def log1p(x: jax.Array) -> jax.Array:
    """log(1 + x); -inf at -1, NaN below."""
    x = double(x)
    inside = (x > -1) & (x < jnp.inf)
    safe = jnp.where(inside, x, 0.0)
    u = 1 + safe
    lost = jnp.where(safe > 1, 1 - (u - safe), safe - (u - 1))
    near = (safe > NEAR_ZERO[0]) & (safe < NEAR_ZERO[1])
    value = log_of_sum(u, near, safe, lost)
    outside = jnp.where(x == -1, -jnp.inf, jnp.where(x == jnp.inf, jnp.inf, jnp.nan))
    # XLA flushes subnormal numbers that it calculates with; x itself stays.
    value = jnp.where(jnp.abs(safe) < TINY, safe, value)
    return jnp.where(inside, value, outside)


@log1p.defjvp
def _(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    (x,), (dx,) = primals, tangents
    return log1p(x), dx / (1 + x)


@jax.custom_jvp
def softplus(x: jax.Array) -> jax.Array:
    """log(1 + e^x) without overflow."""
    x = double(x)
    # The sum of the two would lose NaN in the maximum's place on some processors.
    return jnp.where(jnp.isnan(x), x, jnp.maximum(x, 0.0) + log1p(jnp.exp(-jnp.abs(x))))


@softplus.defjvp
def _(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    (x,), (dx,) = primals, tangents
    return softplus(x), dx * jax.nn.sigmoid(x)
