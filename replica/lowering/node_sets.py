"""Node sets as data: positions and weights that a compiled function takes as arguments.

    value of an integral    ~  sum_j weights_j f(points_j)    on ``node_sets(sizes)``
    its error estimate from    the same program               on ``node_sets(sizes.shifted())``

A program knows a node set by its lengths alone, and lengths come in buckets (``NodeSizes.bucket``):
a set that is shorter is padded with points of weight zero. So one program serves every node count
of a bucket, and both sets of each. The second set differs in where its nodes lie (a trapezoid moves
by half a step, a Gauss-Legendre rule has other nodes) and reaches further, so that what falls
between the nodes of the first set, or beyond their end, shows in the difference.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from solvers import quadrature

from .node_sizes import NodeSizes

WIDER = 1.15
"""The second set reaches further by this factor."""
MORE = 1.25
"""It has more nodes by this factor, as far as the bucket has room."""
Rule = quadrature.Nodes


class Contour(NamedTuple):
    """Nodes of a Mellin integral, in units of its step; ``last`` is the largest of ``places``."""

    places: Any
    weights: Any
    last: Any


class NodeSets(NamedTuple):
    """One node set of every kind.

    Attributes
    ----------
    reach : ()
        Factor on the ranges of integration and on the period of Mellin integrals.
    gaussian, even : Rule
        Smooth Gaussian averages: all nodes, and the non-negative ones for an even function.
    line, localised : Rule
        Trapezoids on the unit interval.
    subinterval, legendre : Rule
        Gauss-Legendre on the unit interval: between breakpoints, and around several features.
    mellin : Contour
    """

    reach: Any
    gaussian: Rule
    even: Rule
    line: Rule
    localised: Rule
    subinterval: Rule
    legendre: Rule
    mellin: Contour


@lru_cache(maxsize=64)
def node_sets(sizes: NodeSizes, padded: bool = False) -> NodeSets:
    """The node sets of given sizes.

    Parameters
    ----------
    sizes : NodeSizes
    padded : bool
        With the lengths of the bucket, as arguments of a compiled function; else as long as they
        are (for a program that has them as constants).

    Returns
    -------
    NodeSets
        Of NumPy arrays.
    """
    reach = sizes.range_factor * (WIDER if sizes.is_shifted else 1.0)
    cut = quadrature.CUT * reach
    gaussian = _gaussian(sizes, cut)
    sets = NodeSets(
        np.asarray(reach),
        gaussian,
        quadrature.half_of(gaussian),
        _unit(sizes, "line"),
        _unit(sizes, "localised"),
        quadrature.gauss_legendre(_legendre(sizes, "subinterval")),
        quadrature.gauss_legendre(_legendre(sizes, "localised")),
        _contour(sizes),
    )
    return _padded(sets, sizes.bucket()) if padded else sets


def arguments(sizes: NodeSizes) -> NodeSets:
    """The padded node sets, for a compiled function."""
    return node_sets(sizes, padded=True)


def _intervals(sizes: NodeSizes, name: str) -> int:
    """How many steps the second trapezoid has: of the same length as those of the first where the
    bucket has room, and with a node where the first has none at the centre.
    """
    n = getattr(sizes, name)
    wanted = min(round(WIDER * (n - 1)), getattr(sizes.bucket(), name) - 1)
    return wanted - (wanted + n + 1) % 2


def _gaussian(sizes: NodeSizes, cut: float) -> Rule:
    """Equidistant nodes on [-cut, cut], or in the middle of so many intervals."""
    if not sizes.is_shifted:
        return quadrature.trapezoid_gaussian(sizes.gaussian, cut=cut)
    odd = sizes.gaussian + 1 - sizes.gaussian % 2  # as the first rule has them
    n = _intervals(NodeSizes(gaussian=odd), "gaussian")
    points = cut * (2 * np.arange(n) + 1 - n) / n
    weights = np.exp(-(points**2) / 2)
    return Rule(points, weights / weights.sum())


def _unit(sizes: NodeSizes, name: str) -> Rule:
    if not sizes.is_shifted:
        return quadrature.unit_trapezoid(getattr(sizes, name))
    n = _intervals(sizes, name)
    return Rule((np.arange(n) + 0.5) / n, np.full(n, 1.0 / n))


def _legendre(sizes: NodeSizes, name: str) -> int:
    """Nodes of a Gauss-Legendre rule; the second has no node in the middle where the first has."""
    n, room = getattr(sizes, name), getattr(sizes.bucket(), name)
    if not sizes.is_shifted:
        return n
    more = min(round(MORE * n), room) if room > n else n - 1
    return more - (more + n + 1) % 2


def _contour(sizes: NodeSizes) -> Contour:
    n = sizes.mellin
    if sizes.is_shifted:
        n = min(round(MORE * n), sizes.bucket().mellin)
        places, weights = np.arange(n) + 0.5, np.ones(n)
    else:
        places, weights = np.arange(n, dtype=float), np.ones(n)
        weights[0] = 0.5
    return Contour(places, weights, places[-1])


def _padded(sets: NodeSets, bucket: NodeSizes) -> NodeSets:
    """The same with zero weights up to the lengths of a bucket."""
    lengths = {
        "gaussian": bucket.gaussian,
        "even": (bucket.gaussian + 1) // 2,
        "line": bucket.line,
        "localised": bucket.localised,
        "subinterval": bucket.subinterval,
        "legendre": bucket.localised,
    }
    rules = {name: _longer(getattr(sets, name), n) for name, n in lengths.items()}
    places, weights, last = sets.mellin
    along = _longer(Rule(places, weights), bucket.mellin)
    return sets._replace(**rules, mellin=Contour(*along, last))


def _longer(rule: Rule, length: int) -> Rule:
    """``rule`` with its last point repeated: where it is finite with a weight, it is without."""
    more = length - len(rule.points)
    return Rule(np.pad(rule.points, (0, more), mode="edge"), np.pad(rule.weights, (0, more)))
