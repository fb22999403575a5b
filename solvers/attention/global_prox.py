r"""The lowest of the minima of a batch of proximal problems, by descents from several starts.

Samples do not wait for each other: they are worked on in blocks that fit the cache, and within a
block the descents that have not ended after a few steps are gathered and continued together. A
descent is not continued once it is near the minimum already known, or once a quadratic model of its
valley says that it cannot get below it. Source: theory.md section 5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from .problem import Attention, Channel
from .prox import TOLERANCE, descend, newton

ROUGH = 1e-3
"""Tolerance (as ``TOLERANCE``) while valleys are compared: h is then known to about the square of
it.
"""
BLOCK = 1024
GLANCE = 3
"""Newton steps from every start before it is decided which descents are worth continuing."""
STEPS, ROUGH_STEPS = 60, 25
MET = 1e3 * TOLERANCE
"""A descent that ends above this has failed; between the two it is rounding that ends it."""
NEAR = 0.1
"""Widths sqrt(V_k) within which a descent is taken to be in the valley already known."""
HOPE = 3.0
"""A descent is given up when this many times its expected further fall does not bring it below the
known minimum.
"""


class Followed(NamedTuple):
    """Ends of descents: chi (L, n), h (n,), and whether a minimum was met (n,)."""

    chi: jax.Array
    height: jax.Array
    met: jax.Array


def starting_points(at: Channel) -> jax.Array:
    """Where to begin: omega_k, and omega_k with one token moved by -1, 1 or 2 widths; shape (3 L +
    1, L, n).
    """
    eye = jnp.eye(at.key.shape[0])
    shifts = jnp.concatenate([jnp.zeros((1, len(eye))), eye, -eye, 2 * eye])
    return at.key + jnp.sqrt(at.key_width) * shifts[:, :, None]


def _finish(
    attend: Attention,
    at: Channel,
    owner: jax.Array,
    ends: Followed,
    promise: jax.Array,
    steps: int,
    tolerance: float,
) -> Followed:
    """Continue the descents whose ``promise`` is finite, smallest first, in groups; descent i
    belongs to sample ``owner[i]``.
    """
    size = -(-at.label.shape[0] // 8)
    order, count = jnp.argsort(promise), jnp.sum(jnp.isfinite(promise))
    order = jnp.concatenate(
        [order, jnp.full((-len(order)) % size, len(order))]
    )  # what is added falls outside and is dropped

    def group(state: tuple[jax.Array, Followed]) -> tuple[jax.Array, Followed]:
        k, ends = state
        chosen = jax.lax.dynamic_slice(order, (k * size,), (size,))
        part = at.of(owner[chosen])
        end = descend(attend, part, ends.chi[:, chosen], max_steps=steps, tolerance=tolerance)
        new = Followed(end.chi, end.height, end.error <= max(tolerance, MET))
        return k + 1, jax.tree.map(lambda a, b: a.at[..., chosen].set(b, mode="drop"), ends, new)

    return jax.lax.while_loop(lambda s: s[0] * size < count, group, (jnp.asarray(0), ends))[1]


def _follow(attend: Attention, at: Channel, chi: jax.Array, few: int = 6) -> Followed:
    """Minima to ``TOLERANCE``: a few steps for all samples, then the slow ones among themselves."""
    first = descend(attend, at, chi, max_steps=few)
    left = first.error
    ends = Followed(first.chi, first.height, left <= MET)
    promise = jnp.where(left > TOLERANCE, left, jnp.inf)  # NaN is never finite: it stays unmet
    return _finish(attend, at, jnp.arange(len(at.label)), ends, promise, STEPS, TOLERANCE)


def _glance(
    attend: Attention, at: Channel, known: Followed, start: jax.Array
) -> tuple[Followed, jax.Array]:
    """A few steps from ``start``, and how much the descent promises (inf: nothing)."""
    few = descend(attend, at, start, max_steps=GLANCE, tolerance=ROUGH)
    near = jnp.max(jnp.abs(few.chi - known.chi), axis=0) <= NEAR * jnp.sqrt(at.key_width)
    move, slopes, convex = newton(attend, at, tuple(few.chi), 0.0)
    fall = -sum(m * g for m, g in zip(move, slopes, strict=True)) / 2
    hopeless = convex & (few.height - HOPE * fall > known.height)
    ended = few.error <= ROUGH
    return Followed(few.chi, few.height, ended), jnp.where(
        ended | near | hopeless, jnp.inf, few.height - known.height
    )


def _search(
    attend: Attention, at: Channel, known: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    first = _follow(attend, at, known)
    starts = starting_points(at)
    count, tokens, n = starts.shape
    # Sample by sample a row of starts: descent i of the flat list belongs to sample i % n.
    ends, promise = jax.lax.map(lambda start: _glance(attend, at, first, start), starts)
    flat = Followed(
        jnp.moveaxis(ends.chi, 0, 1).reshape(tokens, count * n),
        ends.height.ravel(),
        ends.met.ravel(),
    )
    flat = _finish(
        attend, at, jnp.tile(jnp.arange(n), count), flat, promise.ravel(), ROUGH_STEPS, ROUGH
    )
    chi, height = flat.chi.reshape(tokens, count, n), flat.height.reshape(count, n)
    lowest, best = jnp.min(height, axis=0), jnp.argmin(height, axis=0)
    changed = lowest < first.height - 1e-8 * (1 + jnp.abs(first.height))
    other = jnp.take_along_axis(chi, best[None, None], axis=1)[:, 0]
    last = _follow(attend, at, jnp.where(changed, other, first.chi), few=2)
    return last.chi, changed, ~last.met


def _in_blocks(
    function: Callable[..., tuple[jax.Array, ...]], at: Channel, chi: jax.Array
) -> tuple[jax.Array, ...]:
    """``function(at, chi)`` block by block, results (..., n) joined."""
    n = chi.shape[-1]
    size = min(BLOCK, n)
    count = -(-n // size)
    # The last block repeats samples rather than having a shape of its own, which would be compiled
    # again.
    index = jnp.minimum(jnp.arange(count * size), n - 1).reshape(count, size)
    results = jax.lax.map(lambda i: function(at.of(i), chi[:, i]), index)
    return tuple(
        jnp.moveaxis(r, 0, -2).reshape(*r.shape[1:-1], count * size)[..., :n] for r in results
    )


def follow(attend: Attention, at: Channel, known: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The minima in whose valleys ``known`` (L, n) lies, and where none was met (n,)."""

    def block(part: Channel, chi: jax.Array) -> tuple[jax.Array, jax.Array]:
        end = _follow(attend, part, chi)
        return end.chi, ~end.met

    chi, failed = _in_blocks(block, at, known)
    return chi, failed


def search(
    attend: Attention, at: Channel, known: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The lowest minimum found from ``known`` and every starting point.

    Returns
    -------
    chi : (L, n)
    changed : (n,), where it lies lower than the one that ``known`` leads to
    failed : (n,), where no gradient small enough was reached
    """
    chi, changed, failed = _in_blocks(lambda part, c: _search(attend, part, c), at, known)
    return chi, changed, failed
