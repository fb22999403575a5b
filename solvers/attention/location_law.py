r"""A location drawn by the largest of L noisy keys: its law, and samples planted by it.

With eps = argmax_l (omega_l + s e_l) and iid noises e of distribution function F and density f,

    P_l(omega) = int du f(u - h_l) prod_{j != l} F(u - h_j),     h = omega/s.

The noise s e = sqrt(V) t + G/nu, with t Gaussian and G Gumbel, makes it the mean of softmax(nu
chi)_l over chi ~ N(omega, V); nu = inf leaves the Gaussian alone. One trapezoid in u, around the
largest h, serves all l at a cost linear in L, in the log domain: at V -> 0 the h spread without
bound and P_l becomes an indicator. The law depends on the h through smooth functions alone and no
location is drawn. Source: theory.md section 4.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np
import scipy.special

LEFT = -6.5
"""The noisy maximum lies below (largest h) + LEFT with probability 4e-11."""
RIGHT_GAUSSIAN, RIGHT_GUMBEL = 8.0, 18.0
GUMBEL_VARIANCE = np.pi**2 / 6
SMALLEST = 1e-14
"""Variances below it are rounding of 1 - q."""
LOCATIONS = 16
"""Locations whose sum is explicit; beyond, the best half of them and representatives of the other
tokens.
"""
TABLE = np.arange(LEFT - 0.2, 40.0, 0.03)


class Noise(NamedTuple):
    """The law of the scaled noise: keys are multiplied by ``rate`` = 1/s; ``table`` holds log F,
    log(f/F), f'/f.
    """

    rate: jax.Array
    gaussian: jax.Array
    table: jax.Array


def noise(variance: jax.Array, nu: jax.Array) -> Noise:
    """The noise of N(omega, variance) keys and strength nu (0 and inf included), in units of its
    deviation.
    """
    variance = jnp.maximum(variance, SMALLEST)
    gaussian = jnp.isinf(nu)
    finite = jnp.where(gaussian, 1.0, nu)
    norm = jnp.sqrt(finite**2 * variance + GUMBEL_VARIANCE)
    rate = jnp.where(gaussian, 1 / jnp.sqrt(variance), finite / norm)
    # Each mean over the smoother part, which spans at most the scale of the sharper: neither
    # denominator is small where it is used.
    a, b = finite * jnp.sqrt(variance) / norm, 1 / norm
    wide = a**2 > 0.5
    case = jnp.where(gaussian, 2, jnp.where(wide, 1, 0))
    return Noise(
        rate,
        gaussian,
        jax.lax.switch(
            case, (_over_gaussian, _over_gumbel, lambda *_: jnp.zeros((len(TABLE), 3))), a, b
        ),
    )


def _over_gumbel(a: jax.Array, b: jax.Array) -> jax.Array:
    """log F, log(f/F), f'/f of a t + b (G - mean) on TABLE, as a mean over G."""
    g = np.linspace(-4.5, 37.0, 170)
    weight = -g - np.exp(-g) + np.log(g[1] - g[0])
    z = (jnp.asarray(TABLE)[:, None] - b * (g - np.euler_gamma)) / a
    log_f = weight - z**2 / 2 - jnp.log(a * np.sqrt(2 * np.pi))
    return _rows(weight + jsp.log_ndtr(z), log_f, -z / a)


def _over_gaussian(a: jax.Array, b: jax.Array) -> jax.Array:
    """The same as a mean over t."""
    t = np.linspace(-8.5, 8.5, 121)
    weight = -(t**2) / 2 - np.log(np.sqrt(2 * np.pi)) + np.log(t[1] - t[0])
    z = (jnp.asarray(TABLE)[:, None] - a * t) / b + np.euler_gamma
    falling = jnp.exp(-z)
    return _rows(weight - falling, weight - z - falling - jnp.log(b), (falling - 1) / b)


def _rows(log_distribution: jax.Array, log_density: jax.Array, slope: jax.Array) -> jax.Array:
    log_f, log_big = jsp.logsumexp(log_density, axis=1), jsp.logsumexp(log_distribution, axis=1)
    return jnp.stack(
        [log_big, log_f - log_big, jnp.sum(jax.nn.softmax(log_density, axis=1) * slope, axis=1)],
        axis=1,
    )


def _law_at(noise: Noise, x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """log F, log(f/F) and f'/f at x >= LEFT."""
    return jax.lax.cond(noise.gaussian, _gaussian_at, lambda x: _interpolated(noise.table, x), x)


def _gaussian_at(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    log_big = jnp.log(jsp.erfc(-x / np.sqrt(2)) / 2)  # x >= LEFT: erfc does not underflow
    return log_big, -(x**2) / 2 - np.log(2 * np.pi) / 2 - log_big, -x


def _interpolated(table: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Cubic through the four nearest entries; beyond the table F = 1 and f decays exponentially."""
    step = TABLE[1] - TABLE[0]
    place = (jnp.clip(x, LEFT, TABLE[-3]) - TABLE[0]) / step
    i = jax.lax.stop_gradient(jnp.floor(place)).astype(int)
    r = place - i
    basis = (
        -r * (r - 1) * (r - 2) / 6,
        (r * r - 1) * (r - 2) / 2,
        -r * (r + 1) * (r - 2) / 2,
        r * (r * r - 1) / 6,
    )
    log_big, log_ratio, slope = (
        jnp.sum(jnp.stack([w * table[i + k - 1, c] for k, w in enumerate(basis)]), axis=0)
        for c in range(3)
    )
    return log_big, log_ratio + jnp.maximum(x - TABLE[-3], 0.0) * slope, slope


# samples ------------------------------------------------------------------------------------------


class Points(NamedTuple):
    """Scrambled Sobol sets: uniforms for the keys, Gaussians for the values and the label noise;
    set first, sample second.
    """

    keys: np.ndarray
    values: np.ndarray
    label: np.ndarray


@lru_cache(maxsize=8)
def base_points(tokens: int, log2_n: int, sets: int, seed: int) -> Points:
    """``sets`` independent sets of 2**log2_n points for ``tokens`` tokens."""
    from scipy.stats import qmc  # 0.9 s to import, needed by samples alone

    def one(k: int) -> np.ndarray:
        return qmc.Sobol(
            2 * tokens + 1, scramble=True, rng=np.random.default_rng([seed, k])
        ).random_base2(log2_n)

    uniform = np.clip(np.stack([one(k) for k in range(sets)]), 1e-16, 1 - 1e-16)
    gaussian = scipy.special.ndtri(uniform[:, :, tokens:])
    return Points(uniform[:, :, :tokens], gaussian[:, :, :tokens], gaussian[:, :, -1])


class Planted(NamedTuple):
    """Samples of (omega_k, omega_v, eps, y) for n points, E locations, L tokens.

    weight : (n,) of omega_k alone;  location_weight : (n, E), of omega_k and eps;  log_z : (n, E);
    probability : (n, L);  key_score, value_score : (n, E, L), d log Z/d omega.
    """

    weight: jax.Array
    location_weight: jax.Array
    log_z: jax.Array
    probability: jax.Array
    key_score: jax.Array
    value_score: jax.Array


def sorted_keys(
    uniform: jax.Array, count: jax.Array, width: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Standard Gaussian keys, the largest few first and in order, and the weight of each sample.

    The gap between the first two is drawn uniformly in its logarithm down to ``width`` (in units of
    its own scale): what a narrow noise sees are near ties, which plain sampling meets with
    probability ~ width only.
    """
    tokens = uniform.shape[1]
    ordered = _ordered(tokens)
    weight = jnp.ones(uniform.shape[0])
    if tokens > 1:
        rate = jnp.log1p(1 / width)
        gap = width * jnp.expm1(rate * uniform[:, 1])
        weight, uniform = (
            jnp.where(count > 1, (width + gap) * rate, 1.0),
            uniform.at[:, 1].set(1 - gap),
        )
    left = jnp.maximum(count - jnp.arange(ordered), 1.0)  # tokens not yet placed
    chain = jnp.cumsum(jnp.log(uniform[:, :ordered]) / left, axis=1)
    others = chain[:, -1:] + jnp.log(uniform[:, ordered:])
    above = -jnp.expm1(jnp.concatenate([chain, others], axis=1))
    return -jsp.ndtri(jnp.clip(above, 1e-300, 1 - 1e-16)), weight


def near_tie(count: jax.Array, spread: jax.Array) -> jax.Array:
    """The gap of the two largest of ``count`` keys of deviation ``spread`` (in units of the noise)
    that noise can bridge, as a quantile.
    """
    return 0.7 * jnp.sqrt(1 + 2 * jnp.log(count)) / jnp.maximum(spread, 1e-3)


def _ordered(tokens: int) -> int:
    """How many of the tokens are sorted."""
    return tokens if tokens <= LOCATIONS else LOCATIONS // 2


def _multiplicity(tokens: int, count: jax.Array) -> jax.Array:
    """How many locations each explicit one stands for: 1, or its share of those that are not
    sorted; 0 beyond ``count``.
    """
    ordered, explicit = _ordered(tokens), min(tokens, LOCATIONS)
    place = jnp.arange(explicit)
    share = (count - ordered) / jnp.maximum(jnp.minimum(count, explicit) - ordered, 1.0)
    return jnp.where(place < count, jnp.where(place < ordered, 1.0, share), 0.0)


def planted(
    points: Points,
    count: jax.Array,
    law: Noise,
    q_k: jax.Array,
    q_v: jax.Array,
    width: jax.Array,
    nodes: int,
) -> Planted:
    """Samples of ``count`` keys N(0, q_k) and values N(0, q_v), located by ``law``, labelled with
    variance ``width``.

    Every location is summed with its probability: nothing jumps as the overlaps move.
    """
    tokens = points.keys.shape[1]
    deviation_k, deviation_v = (jnp.sqrt(jnp.maximum(q, SMALLEST)) for q in (q_k, q_v))
    spread = law.rate * deviation_k
    narrow = near_tie(count, spread)
    keys, weight = sorted_keys(jnp.asarray(points.keys), count, narrow)
    present = jnp.arange(tokens) < count
    multiplicity = _multiplicity(tokens, count)
    explicit = len(multiplicity)
    fields = deviation_v * points.values
    label = fields[:, :explicit] + jnp.sqrt(width) * points.label[:, None]
    h = spread * keys
    seen = scored(law, h, fields, label, width, present, nodes, h[:, :1])
    chosen = weight[:, None] * seen.probability[:, :explicit] * multiplicity
    return Planted(weight, chosen, *seen)


class Scored(NamedTuple):
    """log Z at E labels of each of n samples, the probabilities of the locations, and d log Z/d
    omega; shapes as in ``Planted``.
    """

    log_z: jax.Array
    probability: jax.Array
    key_score: jax.Array
    value_score: jax.Array


def scored(
    law: Noise,
    h: jax.Array,
    fields: jax.Array,
    label: jax.Array,
    width: jax.Array,
    present: jax.Array,
    nodes: int,
    top: jax.Array,
) -> Scored:
    """Keys ``h`` (n, L) in units of the noise, ``top`` (n, 1) the largest of each sample, values
    ``fields`` (n, L) and labels (n, E).
    """
    winners, loss, gain, log_p = _winning(law, h, present, nodes, top)
    miss = label[:, :, None] - fields[:, None, :]
    exponent = log_p[:, None, :] - miss**2 / (2 * width)
    log_z = jsp.logsumexp(exponent, axis=2)
    s = jnp.exp(exponent - log_z[:, :, None])
    maximum = jnp.einsum("nel,nlu->neu", s, winners)  # law of the noisy maximum given y
    key_score = law.rate * (s * gain[:, None, :] - jnp.einsum("neu,nlu->nel", maximum, loss))
    return Scored(
        log_z - jnp.log(2 * jnp.pi * width) / 2, jnp.exp(log_p), key_score, s * miss / width
    )


def _winning(
    law: Noise, h: jax.Array, present: jax.Array, nodes: int, top: jax.Array
) -> tuple[jax.Array, ...]:
    """For scaled keys (n, L): the law of the maximum if l wins (n, L, nodes), f/F there, the mean
    of f/F - f'/f, and log P_l.
    """
    right = jnp.where(law.gaussian, RIGHT_GAUSSIAN, RIGHT_GUMBEL)
    u = LEFT + (right - LEFT) * jnp.linspace(0.0, 1.0, nodes)
    x = (top - h)[:, :, None] + u
    log_big, log_ratio, slope = _law_at(law, x)
    there = present[:, None]
    everyone = jnp.sum(jnp.where(there, log_big, 0.0), axis=1, keepdims=True)
    log_w = everyone + log_ratio
    total = jsp.logsumexp(log_w, axis=2, keepdims=True)
    winners, ratio = jnp.exp(log_w - total), jnp.exp(log_ratio)
    gain = jnp.sum(winners * (ratio - slope), axis=2)
    log_p = jnp.where(present, total[:, :, 0] + jnp.log(u[1] - u[0]), -1e300)
    return winners, jnp.where(there, ratio, 0.0), gain, log_p
