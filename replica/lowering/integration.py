"""Nodes of a Gaussian average, between kinks or on the scale of narrow features, and sums over an
axis as matrix products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from solvers import quadrature

from .node_sets import NodeSets

WIDEST = 100.0
"""A feature wider than this many deviations is none: the nodes are equidistant."""
FARTHEST = 1000.0
"""Nor is one further away: x = centre + ... would lose digits."""
Along = Callable[[Any], Any]
"""Lays a vector along the axis of the variable that is averaged over."""


def density(g: Any) -> Any:
    """Of a standard Gaussian."""
    return jnp.exp(-(g**2) / 2) / np.sqrt(2 * np.pi)


def panels(
    along: Along, axis: int, sets: NodeSets, mean: Any, deviation: Any, roots: list[Any]
) -> tuple[Any, Any]:
    """Gauss-Legendre between the kinks of the body, so that no panel contains one; x = mean if
    deviation = 0.
    """
    cut, nodes = quadrature.CUT * sets.reach, sets.subinterval
    unit = jnp.where(deviation > 0, deviation, 1.0)
    breakpoints = (jnp.clip((r - mean) / unit, -cut, cut) for r in roots)
    edges = jnp.broadcast_arrays(-cut, *breakpoints, cut)
    edges = jnp.sort(jnp.stack(edges), axis=0)
    panels = [(edges[i], edges[i + 1] - edges[i]) for i in range(len(edges) - 1)]
    points = jnp.concatenate([a + w * along(nodes.points) for a, w in panels], axis=axis)
    lengths = jnp.concatenate([w * along(nodes.weights) for a, w in panels], axis=axis)
    return mean + deviation * points, lengths * density(points)


def localised(
    along: Along, sets: NodeSets, mean: Any, deviation: Any, centre: Any, width: Any
) -> tuple[Any, Any]:
    """Trapezoid in t, x = centre + width sinh t: as many nodes per decade near the feature as far
    from it.
    """
    cut, nodes = quadrature.CUT * sets.reach, sets.localised
    unit = jnp.where(deviation > 0, deviation, 1.0)
    middle, width = (
        jnp.clip((centre - mean) / unit, -FARTHEST, FARTHEST),
        jnp.minimum(width / unit, WIDEST),
    )
    low, high = (jnp.arcsinh((side * cut - middle) / width) for side in (-1, 1))
    t = low + (high - low) * along(nodes.points)
    points = middle + width * jnp.sinh(t)
    weights = (high - low) * along(nodes.weights) * width * jnp.cosh(t) * density(points)
    return mean + deviation * points, weights


def foci(
    along: Along, axis: int, sets: NodeSets, mean: Any, deviation: Any, focus: list[Any]
) -> tuple[Any, Any]:
    """The same for several features: between the middles of neighbours Gauss-Legendre in t around
    each.
    """
    cut = quadrature.CUT * sets.reach
    points, lengths = around(along, axis, sets, mean, deviation, focus, cut)
    return mean + deviation * points, lengths * density(points)


def around(
    along: Along, axis: int, sets: NodeSets, mean: Any, deviation: Any, focus: list[Any], cut: Any
) -> tuple[Any, Any]:
    """Points and lengths of these nodes, in deviations from the mean, up to ``cut`` of them."""
    nodes = sets.legendre
    unit = jnp.where(deviation > 0, deviation, 1.0)
    middles, widths = (jnp.stack(jnp.broadcast_arrays(*focus[i::2])) for i in (0, 1))
    order = jnp.argsort(middles, axis=0)
    middles = jnp.take_along_axis((middles - mean) / unit, order, axis=0)
    widths = jnp.minimum(jnp.take_along_axis(widths / unit, order, axis=0), WIDEST)
    inner = jnp.clip((middles[1:] + middles[:-1]) / 2, -cut, cut)
    end = jnp.full_like(middles[:1], cut)
    edges = jnp.concatenate([-end, inner, end])
    points, lengths = [], []
    for a, b, middle, width in zip(edges[:-1], edges[1:], middles, widths, strict=True):
        low, high = (jnp.arcsinh((edge - middle) / width) for edge in (a, b))
        t = low + (high - low) * along(nodes.points)
        points.append(middle + width * jnp.sinh(t))
        lengths.append((high - low) * along(nodes.weights) * width * jnp.cosh(t))
    return jnp.concatenate(points, axis=axis), jnp.concatenate(lengths, axis=axis)


# sums over an axis -------------------------------------------------------------------------------


def matmul(left: jax.Array, right: jax.Array, axis: int) -> jax.Array:
    """Re sum_axis left * right for arrays of equal rank with size-1 axes, as one matrix product."""
    rank = left.ndim
    rows = [a for a in range(rank) if a != axis and left.shape[a] > 1]
    columns = [a for a in range(rank) if a != axis and right.shape[a] > 1]
    if set(rows) & set(columns):
        return jnp.sum(jnp.real(left * right), axis=axis, keepdims=True)
    a = jnp.transpose(
        left, (*rows, axis, *(i for i in range(rank) if i != axis and i not in rows))
    ).reshape(-1, left.shape[axis])
    b = jnp.transpose(
        right, (axis, *columns, *(i for i in range(rank) if i != axis and i not in columns))
    ).reshape(right.shape[axis], -1)
    product = jnp.real(a) @ jnp.real(b)
    if jnp.iscomplexobj(a) and jnp.iscomplexobj(b):
        product = product - jnp.imag(a) @ jnp.imag(b)
    order = [*rows, *columns]
    needed = [left.shape[i] for i in rows] + [right.shape[i] for i in columns]
    product = jnp.transpose(product.reshape(needed), [order.index(i) for i in sorted(order)])
    shape = [max(left.shape[i], right.shape[i]) if i != axis else 1 for i in range(rank)]
    return product.reshape(shape)
