"""Nodes where the integrand of a Gaussian average is steep, found from its symbols."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from equations.calculus.steepness import Feature
from solvers import quadrature

from . import integration
from .evaluate import Evaluation
from .node_sets import Rule

NARROW = 0.5
"""Steps on a scale below so many deviations have nodes of their own; the equidistant nodes resolve
the others to 2e-9, and better when they are refined.
"""
BEYOND = 1.0
"""A step further outside of the range of integration than this is none."""


def around(
    evaluation: Evaluation,
    x: Any,
    mean: Any,
    deviation: Any,
    steps: tuple[Feature, ...],
    base: Rule,
) -> tuple[Any, Any]:
    """Points and weights: those of ``base`` unless a step is narrow.

    Parameters
    ----------
    evaluation : Evaluation
    x : symbol
        What is averaged over.
    mean, deviation : array
        Of its law.
    steps : tuple of Feature
        At least one.
    base : Rule
        For a standard Gaussian.

    Returns
    -------
    points, weights : array
    """
    places = [_place(evaluation, step, mean, deviation) for step in steps]
    cut = quadrature.CUT * evaluation.sets.reach
    focus, is_narrow = [], jnp.asarray(False)
    for centre, width in places:
        engaged = (width < NARROW) & (jnp.abs(centre) < cut + BEYOND)
        is_narrow = is_narrow | engaged
        focus.append((jnp.where(engaged, centre, 0.0), jnp.where(engaged, width, NARROW)))
    focus.append((jnp.asarray(0.0), jnp.asarray(1.0)))  # the density itself, far from all steps
    along, axis, sets = partial(evaluation.along, x), evaluation.axes[x], evaluation.sets
    near = integration.foci(along, axis, sets, 0.0, 1.0, _shared(focus))
    size = max(near[0].shape[axis], len(base.points))
    rows = (_longer(near[0], axis, size, "edge"), _longer(near[1], axis, size, "constant"))
    plain = (
        _longer(along(base.points), axis, size, "edge"),
        _longer(along(base.weights), axis, size, "constant"),
    )
    points, weights = (jnp.where(is_narrow, a, b) for a, b in zip(rows, plain, strict=True))
    return mean + deviation * points, weights


def _place(
    evaluation: Evaluation, step: Feature, mean: Any, deviation: Any
) -> tuple[jax.Array, jax.Array]:
    """Centre and width of a step, in deviations from the mean; an infinite width where the argument
    is constant. Nodes are no functions of the unknowns: derivatives pass them by.
    """
    slope, offset, square = (evaluation.value(e) for e in step)
    slope, offset = jnp.asarray(slope * deviation), offset + slope * mean
    usable = jnp.abs(slope) > 0
    safe = jnp.where(usable, slope, 1.0)
    centre = jnp.where(usable, -offset / safe, 0.0)
    width = jnp.where(usable, jnp.sqrt(square) / jnp.abs(safe), jnp.inf)
    return jax.lax.stop_gradient(centre), jax.lax.stop_gradient(width)


def _shared(focus: list[tuple[Any, Any]]) -> list[Any]:
    """Centres and widths in turn, each width small enough for all steps near its centre."""
    flat = []
    for centre, _ in focus:
        widths = [jnp.hypot(width, centre - other) for other, width in focus]
        narrowest = widths[0]
        for width in widths[1:]:
            narrowest = jnp.minimum(narrowest, width)
        flat += [centre, narrowest]
    return flat


def _longer(values: Any, axis: int, size: int, mode: str) -> jax.Array:
    """The values padded along an axis: points with the last one, weights with zero."""
    pad = [(0, 0)] * values.ndim
    pad[axis] = (0, size - values.shape[axis])
    return jnp.pad(values, pad, mode=mode)
