r"""The error function, and the normal distribution function with its logarithmic derivatives.

With t = |x|/sqrt(2), one rational form serves all of them, chosen by t before the one division:

    erf(t) = t + t R(t^2)                               t <= 0.84375
    e^{t^2} erfc(t) = R(t)                              up to 4
    e^{t^2} erfc(t) = (1/sqrt(pi) - R(1/t^2)/t^2)/t     above

(the first from fdlibm, s_erf.c, Sun Microsystems, 1993; the others from W. J. Cody, Rational
Chebyshev approximations for the error function, Math. Comp. 23 (1969) 631).
e^{-t^2} is never formed where it cancels: in the left tail log Phi = log(erfcx/2) - x^2/2 and m =
phi/Phi = sqrt(2/pi)/erfcx. What cancels there itself, x + m and 1 - m (x + m), has rational forms
in 1/x^2 below -3.5, interpolated at Chebyshev points from 60 digits (3e-18 and 3e-17 off).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from .elementary import NEAR_ZERO, double, log_of_sum, polynomial

SMALL, LARGE = 0.84375, 4.0
NEAR = (
    (-2.37630166566501626084e-05, -5.77027029648944159157e-03, -2.84817495755985104766e-02)
    + (-3.25042107247001499370e-01, 1.28379167095512558561e-01),
    (-3.96022827877536812320e-06, 1.32494738004321644526e-04, 5.08130628187576562776e-03)
    + (6.50222499887672944485e-02, 3.97917223959155352819e-01, 1.0),
)
MIDDLE = (
    (2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0)
    + (6.61191906371416295e1, 2.98635138197400131e2, 8.81952221241769090e2)
    + (1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3),
    (1.0, 1.57449261107098347e1, 1.17693950891312499e2)
    + (5.37181101862009858e2, 1.62138957456669019e3, 3.29079923573345963e3)
    + (4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3),
)
TAIL = (
    (6.58749161529837803e-4, 1.60837851487422766e-2, 1.25781726111229246e-1)
    + (3.60344899949804439e-1, 3.05326634961232344e-1, 1.63153871373020978e-2),
    (2.33520497626869185e-3, 6.05183413124413191e-2, 5.27905102951428412e-1)
    + (1.87295284992346725e0, 2.56852019228982242e0, 1.0),
)
"""In t^2, after multiplication of both by its fifth power."""
GAP = (
    (1.0, 88.17542787401351, 2948.887192455799, 47716.931938501875, 395066.18028525787)
    + (1627751.7210303254, 2987512.590623106, 1869780.4294939633, 168958.15977775794),
    (1.0, 90.17542787401347, 3119.2380482038684, 53127.653756146705, 476096.0889850181)
    + (2223989.123594984, 5029396.291725624, 4622995.04741273, 1109957.0658199436),
)
"""|x| (x + m) in x^2, both multiplied by its eighth power; ``VARIANCE``: x^2 (1 - m (x + m))."""
VARIANCE = (
    (1.0, 98.38299369063978, 3679.200030495263, 66555.5600132395, 613270.4495924233)
    + (2777360.3705538977, 5431473.092390049, 3273528.441071693, 52995.12117891221),
    (1.0, 104.38299369063945, 4255.497992639525, 87387.39828431321, 972536.3304692251)
    + (5874088.843099581, 18212813.71005408, 25229016.002859086, 10985011.273724064),
)
TAIL_BELOW = -3.5
FURTHEST = 1e15
"""Beyond, 1/x^2 is no correction any more."""
VANISHED = 40.0
"""phi(x) is zero from here on."""
ROOT_HALF, INVERSE_ROOT_PI = float(np.sqrt(0.5)), float(1 / np.sqrt(np.pi))
LEADING = -(1 << 27)
"""Mask that leaves 26 bits of a mantissa, so that the square is exact."""


def _parts(t: jax.Array, tail: bool = True) -> tuple[jax.Array, jax.Array]:
    """erf(t) where t <= SMALL, else e^{t^2} erfc(t), t >= 0; above LARGE to eight digits only if
    not ``tail``.
    """
    square, small = jnp.minimum(t, FURTHEST) ** 2, t <= SMALL
    middle = jnp.minimum(t, LARGE) if tail else t
    over = polynomial(MIDDLE[0], middle)
    under = polynomial(MIDDLE[1], middle)
    if tail:
        far = square * polynomial(TAIL[1], square)
        far_over = INVERSE_ROOT_PI * far - polynomial(TAIL[0], square)
        over = jnp.where(t > LARGE, far_over, over)
        under = jnp.where(t > LARGE, far * t, under)
    over = jnp.where(small, polynomial(NEAR[0], square), over)
    under = jnp.where(small, polynomial(NEAR[1], square), under)
    ratio = over / under
    return small, jnp.where(small, t + t * ratio, ratio)


def _exp_of_square(x: jax.Array, factor: float) -> jax.Array:
    """e^{-factor x^2} for 0 <= x <= 40, without the rounding error of x^2."""
    bits = jax.lax.bitcast_convert_type(x, jnp.int64) & LEADING
    leading = jax.lax.bitcast_convert_type(bits, jnp.float64)
    rest = -factor * (x - leading) * (x + leading)  # below 3e-5
    value = jnp.exp(-factor * leading**2)
    return value + value * (rest * (1 + rest * (0.5 + rest / 6)))


def _tails(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Whether erfcx is known (and not erf), it, e^{-x^2/2}, and Phi(-|x|)."""
    size = jnp.abs(x)
    small, ratio = _parts(jnp.minimum(size * ROOT_HALF, FURTHEST))
    density = _exp_of_square(jnp.minimum(size, VANISHED), 0.5)
    tail = jnp.where(small, 0.5 - ratio / 2, ratio / 2 * density)
    return ~small, ratio, density, tail


@jax.custom_jvp
def erf(x: jax.Array) -> jax.Array:
    """(2/sqrt(pi)) int_0^x e^{-t^2} dt."""
    x = double(x)
    t = jnp.minimum(jnp.abs(x), 6.0)  # 1 from there on
    small, ratio = _parts(t, tail=False)
    value = jnp.where(small, ratio, 1 - ratio * jnp.exp(-(t**2)))
    return jnp.copysign(value, x)


@erf.defjvp
def _(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    (x,), (dx,) = primals, tangents
    return erf(x), dx * (2 * INVERSE_ROOT_PI) * jnp.exp(-(x**2))


@jax.custom_jvp
def erfc(x: jax.Array) -> jax.Array:
    """1 - erf(x), to full relative accuracy where it is small."""
    x = double(x)
    t = jnp.minimum(jnp.abs(x), VANISHED)
    small, ratio = _parts(t)
    value = jnp.where(small, 1 - ratio, ratio * _exp_of_square(t, 1.0))
    other = jnp.where(small, 1 + ratio, 2 - value)
    return jnp.where(x < 0, other, value)


@erfc.defjvp
def _(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    (x,), (dx,) = primals, tangents
    return erfc(x), -dx * (2 * INVERSE_ROOT_PI) * jnp.exp(-(x**2))


@jax.custom_jvp
def log_ndtr(x: jax.Array) -> jax.Array:
    """log Phi(x)."""
    x = double(x)
    scaled, ratio, _, tail = _tails(x)
    far = scaled & (x < 0)
    u = jnp.where(x < 0, jnp.where(far, ratio / 2, tail), 1 - tail)
    lost = jnp.where(x < 0, 0.0, -tail - (u - 1))
    near = (x >= 0) & (-tail > NEAR_ZERO[0])
    return log_of_sum(u, near, -tail, lost) - jnp.where(far, x**2 / 2, 0.0)


@log_ndtr.defjvp
def _(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    (x,), (dx,) = primals, tangents
    return log_ndtr(x), dx * inverse_mills(x)


def _mills(x: jax.Array) -> jax.Array:
    scaled, ratio, density, tail = _tails(x)
    far = scaled & (x < 0)
    over = jnp.where(far, 2 * INVERSE_ROOT_PI * ROOT_HALF, INVERSE_ROOT_PI * ROOT_HALF * density)
    under = jnp.where(far, ratio, jnp.where(x < 0, tail, 1 - tail))
    return over / under


def _far_gap(x: jax.Array) -> jax.Array:
    square = jnp.minimum(jnp.abs(x), FURTHEST) ** 2
    # XLA would make a/b/c a/(b c), which overflows.
    return polynomial(GAP[0], square) / polynomial(GAP[1], square) * (1 / jnp.abs(x))


@jax.custom_jvp
def inverse_mills(x: jax.Array) -> jax.Array:
    """m = phi(x)/Phi(x)."""
    x = double(x)
    return jnp.where(x < TAIL_BELOW, _far_gap(x) - x, _mills(x))


@inverse_mills.defjvp
def _(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    (x,), (dx,) = primals, tangents
    return inverse_mills(x), dx * (truncated_variance(x) - 1)


@jax.custom_jvp
def mills_gap(x: jax.Array) -> jax.Array:
    """x + phi(x)/Phi(x)."""
    x = double(x)
    return jnp.where(x < TAIL_BELOW, _far_gap(x), x + _mills(x))


@mills_gap.defjvp
def _(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    (x,), (dx,) = primals, tangents
    return mills_gap(x), dx * truncated_variance(x)


@jax.custom_jvp
def truncated_variance(x: jax.Array) -> jax.Array:
    """1 - m (x + m), m = phi/Phi: the variance of a Gaussian truncated at x."""
    x = double(x)
    square = jnp.minimum(jnp.abs(x), FURTHEST) ** 2
    far = polynomial(VARIANCE[0], square) / polynomial(VARIANCE[1], square) * (1 / x) ** 2
    m = _mills(x)
    return jnp.where(x < TAIL_BELOW, far, 1 - m * (jnp.minimum(x, VANISHED) + m))


@truncated_variance.defjvp
def _(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    (x,), (dx,) = primals, tangents
    v = truncated_variance(x)
    return v, dx * inverse_mills(x) * (mills_gap(x) ** 2 - v)
