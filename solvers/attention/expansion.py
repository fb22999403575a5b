r"""Gradient and Newton step of h, in closed form where the weights are made token by token.

With s_l = phi(chi_l)/Z (Z = sum_l phi(chi_l), held while phi is differentiated, or 1),

    A = y - s.omega_v,   B = 1 + V_v |s|^2,   r = A/B,   h = |chi - omega_k|^2/(2 V_k) + A^2/(2 B)
    A_l = s'_l (y - omega_v,l),   B_l = 2 s'_l (1 + V_v s_l)          where normalised
    A_l = -s'_l omega_v,l,        B_l = 2 s'_l V_v s_l                elsewhere
    grad h = (chi - omega_k)/V_k + r A_l - r^2 B_l/2
           = (chi - omega_k)/V_k + s'_l [r (s.omega_v - omega_v,l) + r^2 V_v (|s|^2 - s_l)]
    H = diag + t t^T/B - r^2 s' s'^T,   t_l = A_l - r B_l             (last term where normalised)

because A^2/(2 B) depends on ratios of the phi_l alone; the second form of the gradient, without its
two sums where nothing is normalised, vanishes exactly for a single token. A diagonal with one or
two more directions is factorised as L D L^T in O(L), with the pivots that the full matrix has.
Other weights are differentiated automatically and factorised in full.

Rows are tuples of L arrays (n,). XLA on a CPU makes one loop of each array that is used and
computes again in every loop what is cheap and shared; it keeps what ends in a division or an
exponential. Quantities that several loops need are therefore written to end in a division.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp

from .problem import Attention, Channel, Norm, TokenWeight, reduced

Rows = tuple[jax.Array, ...]
HAIR = 1e-9
"""How far off a kink its one-sided slopes are taken."""


class Curvature(NamedTuple):
    """diag(``diagonal``) + sum_k ``strengths[k]`` d_k d_k^T, with d_k the rows
    ``directions[k]``.
    """

    diagonal: Rows
    directions: tuple[Rows, ...]
    strengths: tuple[jax.Array, ...]


class _Weights(NamedTuple):
    """s, s', s'' (Z held) and r, B, A^2/(2 B); dh/ds_l; and what A_l and B_l are per s'_l."""

    s: Rows
    first: Rows
    second: Rows
    ratio: jax.Array
    spread: jax.Array
    misfit: jax.Array
    forces: Rows
    a: Rows
    b: Rows


def largest(rows: Rows) -> jax.Array:
    """max_l |rows_l|."""
    return reduce(jnp.maximum, [jnp.abs(row) for row in rows])


def _dot(a: Iterable[jax.Array], b: Iterable[jax.Array]) -> jax.Array:
    return reduce(jnp.add, [u * v for u, v in zip(a, b, strict=True)])


def _derivatives(phi: Callable[[jax.Array], jax.Array], chi: jax.Array) -> Rows:
    """phi, phi', phi''."""
    ones = jnp.ones_like(chi)

    def first(c: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.jvp(phi, (c,), (ones,))

    (value, slope), (_, bend) = jax.jvp(first, (chi,), (ones,))
    return value, slope, bend


def _shares(token: TokenWeight, at: Channel, chi: Rows) -> tuple[Rows, Rows, Rows]:
    """s and its two derivatives at fixed Z."""
    parts = [
        _derivatives(lambda x, here=here: token.phi(x, here), c)
        for c, here in zip(chi, at.present, strict=True)
    ]
    value, slope, bend = zip(*parts, strict=True)
    if token.norm is Norm.SUM:
        whole = sum(value)
        value, slope, bend = (tuple(a / whole for a in rows) for rows in (value, slope, bend))
    if token.norm is Norm.SOFTMAX:
        top = reduce(jnp.maximum, value)
        grown = [jnp.exp(e - top) for e in value]
        whole = sum(grown)
        value = tuple(a / whole for a in grown)
        bend = tuple((k + m * m) * s for k, m, s in zip(bend, slope, value, strict=True))
        slope = tuple(m * s for m, s in zip(slope, value, strict=True))
    return value, slope, bend


def _weights(token: TokenWeight, at: Channel, chi: Rows) -> _Weights:
    s, first, second = _shares(token, at, chi)
    seen, norm, width = _dot(s, at.value), _dot(s, s), at.value_width
    residual, spread = at.label - seen, 1 + width * norm
    ratio, misfit = residual / spread, residual**2 / (2 * spread)
    if token.norm is Norm.NONE:
        seen = norm = jnp.zeros_like(seen)
        a = tuple(-w for w in at.value)
        b = tuple(2 * width * x for x in s)
    else:
        a = tuple(at.label - w for w in at.value)
        b = tuple(2 * (1 + width * x) for x in s)
    every, squared = zip(s, at.value, strict=True), ratio**2 * width
    forces = tuple(ratio * (seen - w) + squared * (norm - x) for x, w in every)
    return _Weights(s, first, second, ratio, spread, misfit, forces, a, b)


def _closed_gradient(at: Channel, chi: Rows, w: _Weights) -> Rows:
    unit = 1 / at.key_width
    every = zip(chi, at.key, w.forces, w.first, strict=True)
    return tuple((c - key) * unit + force * first for c, key, force, first in every)


def _closed_curvature(token: TokenWeight, at: Channel, w: _Weights) -> Curvature:
    unit, square = 1 / at.key_width, w.ratio**2
    every = zip(w.forces, w.first, w.second, strict=True)
    diagonal = tuple(
        unit + force * second - square * at.value_width * first * first
        for force, first, second in every
    )
    tilted = tuple(first * (a - w.ratio * b) for first, a, b in zip(w.first, w.a, w.b, strict=True))
    if token.norm is Norm.NONE:
        return Curvature(diagonal, (tilted,), (1 / w.spread,))
    return Curvature(diagonal, (tilted, w.first), (1 / w.spread, -square))


def _total(attend: Attention, at: Channel) -> Callable[[jax.Array], jax.Array]:
    # Samples do not interact, so one tangent per token serves all of them.
    return lambda c: jnp.sum(reduced(attend, at, c))


def gradient(attend: Attention, at: Channel, chi: Rows) -> Rows:
    """grad h, away from kinks."""
    if attend.token is None:
        return tuple(jax.grad(_total(attend, at))(jnp.stack(chi)))
    return _closed_gradient(at, chi, _weights(attend.token, at, chi))


def sides(attend: Attention, at: Channel, chi: Rows) -> tuple[Rows, Rows]:
    """Where to expand, a hair off the kinks on the side that leads down, and 0 for tokens that are
    held, 1 for the others.

    The one-sided slope in chi_l depends on the other tokens continuously, so that one shift of all
    of them gives every slope.
    """
    beside, free = list(chi), [jnp.ones_like(c) for c in chi]
    for kink in attend.breakpoints:
        there = [c == kink for c in chi]
        left, right = (
            gradient(attend, at, tuple(c + side * t for c, t in zip(chi, there, strict=True)))
            for side in (-HAIR, HAIR)
        )
        for i, here in enumerate(there):
            held = here & (left[i] <= 0) & (right[i] >= 0)
            shift = jnp.where(right[i] < 0, HAIR, -HAIR)
            beside[i] = beside[i] + jnp.where(here & ~held, shift, 0.0)
            free[i] = jnp.where(held, 0.0, free[i])
    return tuple(beside), tuple(free)


def measure(attend: Attention, at: Channel, chi: Rows) -> tuple[jax.Array, jax.Array]:
    """h, and V_k max_l |grad h| relative to 1 + max|chi|, shape (n,), with held tokens left out."""
    size, free = largest(chi), None
    if attend.breakpoints:
        chi, free = sides(attend, at, chi)
    if attend.token is None:
        height, slopes = reduced(attend, at, jnp.stack(chi)), gradient(attend, at, chi)
    else:
        w = _weights(attend.token, at, chi)
        away = sum((c - key) ** 2 for c, key in zip(chi, at.key, strict=True))
        height = away * (1 / (2 * at.key_width)) + w.misfit
        slopes = _closed_gradient(at, chi, w)
    if free is not None:
        slopes = _times(slopes, free)
    return height, at.key_width * largest(slopes) / (1 + size)


def expand(attend: Attention, at: Channel, chi: Rows) -> tuple[Rows, Curvature | jax.Array]:
    """grad h and H, (L, L, n) where it has no structure; a held token has no slope and does not
    interact.
    """
    free: Rows | None = None
    if attend.breakpoints:
        chi, free = sides(attend, at, chi)
    if attend.token is None:
        slopes, matrix = _full(attend, at, chi)
    else:
        w = _weights(attend.token, at, chi)
        slopes, matrix = _closed_gradient(at, chi, w), _closed_curvature(attend.token, at, w)
    if free is None:
        return slopes, matrix
    unit = 1 / at.key_width
    return _times(slopes, free), _released(matrix, free, unit)


def _full(attend: Attention, at: Channel, chi: Rows) -> tuple[Rows, jax.Array]:
    point, size = jnp.stack(chi), len(chi)
    directions = jnp.broadcast_to(jnp.eye(size)[:, :, None], (size, *point.shape))
    slopes, push = jax.linearize(jax.grad(_total(attend, at)), point)
    return tuple(slopes), jax.vmap(push)(directions)


def _times(rows: Rows, factors: Rows) -> Rows:
    return tuple(a * b for a, b in zip(rows, factors, strict=True))


def _released(matrix: Curvature | jax.Array, free: Rows, unit: jax.Array) -> Curvature | jax.Array:
    """The matrix with the rows and columns of held tokens those of ``unit`` times the identity."""
    if isinstance(matrix, Curvature):
        every = zip(matrix.diagonal, free, strict=True)
        diagonal = tuple(jnp.where(f > 0, d, unit) for d, f in every)
        directions = tuple(_times(rows, free) for rows in matrix.directions)
        return Curvature(diagonal, directions, matrix.strengths)
    f, eye = jnp.stack(free), jnp.eye(len(free))[:, :, None]
    return matrix * f[:, None] * f[None] + eye * unit * (1 - f)[:, None]


def solve(
    matrix: Curvature | jax.Array, tau: jax.Array | float, right: Rows
) -> tuple[Rows, jax.Array]:
    """(matrix + tau)^{-1} right, and where matrix + tau is positive."""
    if isinstance(matrix, Curvature):
        return _solve_curvature(matrix, tau, right)
    x, positive = solve_spd(matrix + tau * jnp.eye(len(right))[:, :, None], jnp.stack(right))
    return tuple(x), positive


def _solve_curvature(
    matrix: Curvature, tau: jax.Array | float, right: Rows
) -> tuple[Rows, jax.Array]:
    """L D L^T of a diagonal with a few more directions.

    What is left of the strengths after each pivot is a small matrix C; row l of L is d_l.(C d)_k /
    pivot_k, so only C d and the pivots are kept.
    """
    count = range(len(matrix.directions))
    zero = jnp.zeros_like(right[0])
    c = [[matrix.strengths[i] if i == j else zero for j in count] for i in count]
    carried = [zero for _ in count]
    positive = jnp.ones(right[0].shape, dtype=bool)
    eliminated: list[tuple[list[jax.Array], list[jax.Array], jax.Array, jax.Array]] = []
    for token, diagonal in enumerate(matrix.diagonal):
        d = [rows[token] for rows in matrix.directions]
        push = [_dot(c[i], d) for i in count]
        pivot = diagonal + tau + _dot(d, push)
        inverse = 1 / pivot
        positive &= inverse > 0
        column = [p * inverse for p in push]
        c = [[c[i][j] - push[i] * column[j] for j in count] for i in count]
        y = right[token] - _dot(d, carried)
        carried = [carried[i] + column[i] * y for i in count]
        eliminated.append((d, push, pivot, y))
    carried = [zero for _ in count]
    x: list[jax.Array] = []
    for d, push, pivot, y in reversed(eliminated):
        x.append((y - _dot(push, carried)) / pivot)
        carried = [carried[i] + d[i] * x[-1] for i in count]
    return tuple(reversed(x)), positive


def solve_spd(matrix: jax.Array, right: jax.Array) -> tuple[jax.Array, jax.Array]:
    """matrix^{-1} right by L D L^T along the last axis, (L, L, n) and (L, n); and where all pivots
    are positive.
    """
    size = right.shape[0]
    lower: list[list[jax.Array]] = [[] for _ in range(size)]
    pivots: list[jax.Array] = []
    positive = jnp.ones(right.shape[1:], dtype=bool)
    for j in range(size):
        pivot = matrix[j, j] - sum(lower[j][k] ** 2 * pivots[k] for k in range(j))
        positive &= pivot > 0
        pivots.append(jnp.where(pivot > 0, pivot, 1.0))
        for i in range(j + 1, size):
            lower[i].append(
                (matrix[i, j] - sum(lower[i][k] * lower[j][k] * pivots[k] for k in range(j)))
                / pivots[j]
            )
    x: list[jax.Array] = []
    for i in range(size):
        x.append(right[i] - sum(lower[i][k] * x[k] for k in range(i)))
    x = [x[i] / pivots[i] for i in range(size)]
    for i in reversed(range(size)):
        x[i] = x[i] - sum(lower[k][i] * x[k] for k in range(i + 1, size))
    return jnp.stack(x), positive
