"""Node sets. Weights are normalised so that sum_i w_i f(x_i) approximates the stated integral.

All rules come in sizes that a caller can raise; the difference between two sizes is the error
estimate.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

CUT = 8.5
"""A standard Gaussian lies outside +-CUT with probability 2e-17."""
MELLIN_REACH = 20.0


class Nodes(NamedTuple):
    """Quadrature nodes and weights, each of shape (n,) (or (scrambles, n, dims) and (n,))."""

    points: np.ndarray
    weights: np.ndarray


def gauss_hermite(n: int) -> Nodes:
    """E[f(g)], g ~ N(0, 1), exact for polynomials of degree 2n - 1 (stable to n = 1000)."""
    points, weights = scipy.special.roots_hermitenorm(n)
    return Nodes(points, weights / weights.sum())


def trapezoid_gaussian(n: int, even: bool = False, cut: float = CUT) -> Nodes:
    """E[f(g)], g ~ N(0, 1), by n equidistant nodes on [-cut, cut]; exponentially accurate for
    smooth f.

    With ``even`` only the (n + 1)//2 non-negative nodes, for an even f.
    """
    n += 1 - n % 2
    points = np.linspace(-cut, cut, n)
    weights = np.exp(-(points**2) / 2)
    whole = Nodes(points, weights / weights.sum())
    return half_of(whole) if even else whole


def half_of(nodes: Nodes) -> Nodes:
    """The non-negative half of a symmetric rule, for even functions."""
    points, weights = nodes
    half = len(points) // 2
    doubled = 2 * weights[half:]
    if len(points) % 2:  # the middle is its own mirror image
        doubled[0] = weights[half]
    return Nodes(points[half:], doubled)


def below(n: int) -> np.ndarray:
    """Sinc rule for the step: sum_k below[j, k] w_k f(x_k) = E[1(g < x_j) f(g)] on the nodes of
    ``trapezoid_gaussian``, exponentially accurate.
    """
    n += 1 - n % 2
    steps = np.arange(n)[:, None] - np.arange(n)[None, :]
    return 0.5 + scipy.special.sici(np.pi * steps)[0] / np.pi


def gauss_legendre(n: int) -> Nodes:
    """int_0^1 f(u) du."""
    points, weights = scipy.special.roots_legendre(n)
    return Nodes((points + 1) / 2, weights / 2)


def unit_trapezoid(n: int) -> Nodes:
    """int_0^1 f(u) du for f that vanishes, with its derivatives, at both ends."""
    return Nodes(np.linspace(0.0, 1.0, n), np.full(n, 1.0 / (n - 1)))


def complex_gamma(z: jax.Array) -> jax.Array:
    """Gamma(z) for complex z with Re z > -1, to 1e-14: Stirling's series after ten steps of the
    recursion.
    """
    shift = 10
    w = z + shift
    inverse = 1 / w**2
    series = (
        1 / 12
        + inverse
        * (
            -1 / 360
            + inverse
            * (1 / 1260 + inverse * (-1 / 1680 + inverse * (1 / 1188 - inverse * 691 / 360360)))
        )
    ) / w
    log_gamma = (w - 0.5) * jnp.log(w) - w + np.log(2 * np.pi) / 2 + series
    product = jnp.prod(jnp.stack([z + k for k in range(shift)]), axis=0)
    return jnp.exp(log_gamma) / product


def mellin(
    places: jax.Array, weights: jax.Array, last: jax.Array, contour: jax.Array, period: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """(1/2 pi i) int dz Gamma(z) f(z) along Re z = contour for f(conj z) = conj f(z): Re sum_j w_j
    f(z_j).

    Nodes z_j = contour + i places_j step with step = 2 pi/period, or larger if the ``last`` would
    not reach Im z = MELLIN_REACH, where Gamma has fallen to 1e-14; ``weights`` are 1, and 1/2 at
    place 0.
    """
    step = jnp.maximum(2 * jnp.pi / period, MELLIN_REACH / last)
    z = contour + 1j * step * places
    return z, weights * step / jnp.pi * complex_gamma(z)


def sobol_gaussian(dims: int, log2_n: int, scrambles: int, seed: int = 0) -> np.ndarray:
    """Standard Gaussian points of ``scrambles`` independent scrambled Sobol sets, shape (scrambles,
    2**log2_n, dims).
    """
    from scipy.stats import norm, qmc  # 0.9 s to import, needed by this rule alone

    sets = [
        qmc.Sobol(dims, scramble=True, rng=np.random.default_rng([seed, k])).random_base2(log2_n)
        for k in range(scrambles)
    ]
    return norm.ppf(np.clip(np.stack(sets), 1e-16, 1 - 1e-16))
