"""Rules for averages and integrals over one variable, and for numbers at the minimiser of a loss.

A product under an integral is contracted as a matrix product where its factors live on different
axes.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import sympy as sp

from equations.calculus.averages import Average, Below, LineIntegral, MellinIntegral
from equations.calculus.discontinuities import breakpoints
from equations.calculus.scalar_envelope import ProxSlope, ProxValue, curvature_of, slope_of
from equations.calculus.steepness import steep_places
from solvers import quadrature, scalar_prox

from . import integration, steep
from .evaluate import Evaluation
from .integration import matmul
from .rules import lowers


@lowers(Average)
def average(evaluation: Evaluation, e: Average) -> Any:
    """Trapezoid where the body is smooth, on the scale of its steps where they are narrow; else
    nodes between breakpoints, or on the scale of the features that are named.
    """
    x, mean, value = e.variable, evaluation.value(e.mean), evaluation.value
    deviation, sets = jnp.sqrt(value(e.variance)), evaluation.sets
    roots = breakpoints(e.body, x)
    smooth = not roots and not e.localised
    steps = steep_places(e.body, x) if smooth else ()
    even = smooth and e.mean.is_zero and e.body.xreplace({x: -x}) == e.body
    along, axis = partial(evaluation.along, x), evaluation.axes[x]
    features = [value(f) for f in e.localised]
    if len(features) > 2:
        points, weights = integration.foci(along, axis, sets, mean, deviation, features)
    elif features:
        points, weights = integration.localised(along, sets, mean, deviation, *features)
    elif roots:
        edges = [value(r) for r in roots]
        points, weights = integration.panels(along, axis, sets, mean, deviation, edges)
    else:
        nodes = sets.even if even else sets.gaussian
        if steps:
            points, weights = steep.around(evaluation, x, mean, deviation, steps, nodes)
        else:
            points, weights = mean + deviation * along(nodes.points), along(nodes.weights)
    seen = (*roots, *(part for step in steps for part in step))
    identity, varies = evaluation.identity(e, seen, bool(even))
    return evaluation.under(
        x, points, identity, varies, lambda: contracted(evaluation, e.body, x, weights)
    )


@lowers(Below)
def below(evaluation: Evaluation, e: Below) -> jax.Array:
    """A step between two variables of the same nodes, integrated as a smooth function is."""
    lower, upper = e.args
    rows, columns = evaluation.axes[upper], evaluation.axes[lower]
    matrix = quadrature.below(len(evaluation.sets.gaussian.points))
    shape = [1] * evaluation.ndim
    shape[rows], shape[columns] = matrix.shape
    return jnp.asarray(matrix if rows < columns else matrix.T).reshape(shape)


@lowers(LineIntegral)
def line_integral(evaluation: Evaluation, e: LineIntegral) -> Any:
    """Trapezoid between the ends, beyond which there is nothing; or nodes on the scale of the
    features that are named.
    """
    low, high, *features = (evaluation.value(p) for p in e.parameters)
    along, axis, sets = (
        partial(evaluation.along, e.variable),
        evaluation.axes[e.variable],
        evaluation.sets,
    )
    if features:
        middle, half = (low + high) / 2, (high - low) / 2
        units, lengths = integration.around(along, axis, sets, middle, half, features, sets.reach)
        points, weights = middle + half * units, half * lengths
    else:
        margin = (sets.reach - 1) * (high - low) / 2
        low, high = low - margin, high + margin
        points = low + (high - low) * along(sets.line.points)
        weights = (high - low) * along(sets.line.weights)

    def inside() -> Any:
        return contracted(evaluation, e.body, e.variable, weights)

    return evaluation.under(e.variable, points, *evaluation.identity(e), inside)


@lowers(MellinIntegral)
def mellin_integral(evaluation: Evaluation, e: MellinIntegral) -> Any:
    """Trapezoid along the contour."""
    contour, period = (evaluation.value(p) for p in e.parameters)
    span = evaluation.sets.reach * jnp.reshape(period, ())
    z, factors = quadrature.mellin(*evaluation.sets.mellin, contour, span)
    points = evaluation.along(e.variable, z)
    weights = evaluation.along(e.variable, factors)

    def inside() -> Any:
        return contracted(evaluation, e.body, e.variable, weights, split_exp=True)

    return evaluation.under(e.variable, points, *evaluation.identity(e), inside)


def contracted(
    evaluation: Evaluation, body: sp.Expr, x: Any, weights: Any, split_exp: bool = False
) -> Any:
    """sum_x weights * body, as matrix products where the factors of a term live on different axes.

    ``split_exp`` also factors exp(a(x, s) + b(x, y)); safe in Mellin integrals, whose factors are
    moments E[A^{-z}], bounded by their value at real z. The result is real.
    """
    axis = evaluation.axes[x]
    groups: dict[sp.Expr, list[sp.Expr]] = {}
    for term in sp.Add.make_args(body):
        left, right = _split(evaluation, term, x, split_exp)
        groups.setdefault(left, []).append(right)
    total: Any = 0.0
    for left, rights in groups.items():
        right = evaluation.value(sp.Add(*rights)) * weights
        if left == 1:
            whole = jnp.broadcast_to(right, jnp.broadcast_shapes(right.shape, weights.shape))
            part = jnp.sum(jnp.real(whole), axis=axis, keepdims=True)
        else:
            part = matmul(evaluation.value(left), right, axis)
        total = total + part
    return total


def _split(
    evaluation: Evaluation, term: sp.Expr, x: Any, split_exp: bool
) -> tuple[sp.Expr, sp.Expr]:
    """term = left * right with the most widely shared factor set in ``left`` (1 if nothing is
    gained).
    """
    by_axes: dict[frozenset[Any], sp.Expr] = {}
    for factor in sp.Mul.make_args(term):
        parts = [factor]
        if split_exp and isinstance(factor, sp.exp):
            parts = [sp.exp(a) for a in sp.Add.make_args(factor.args[0])]
        for part in parts:
            free = evaluation.free_symbols(part)
            where = frozenset(v for v in free if v in evaluation.scope)
            by_axes[where] = by_axes.get(where, sp.S.One) * part
    wide = [where for where in by_axes if x in where and len(where) > 1]
    if len(wide) != 2:
        return sp.S.One, term

    def varies(where: frozenset[Any]) -> bool:
        return bool(evaluation.free_symbols(by_axes[where]) & evaluation.unknowns)

    # Keep in ``left`` the factor that is the same in most terms: the one that does not see the
    # unknowns.
    wide.sort(key=varies)
    left = by_axes.pop(wide[0])
    return left, sp.Mul(*by_axes.values())


@lowers(ProxValue)
def at_minimiser(evaluation: Evaluation, e: ProxValue) -> Any:
    """A number at the minimiser of an envelope; the minimiser itself is found once for all that
    share it.
    """
    z, centre, width = e.variable, evaluation.value(e.centre), evaluation.value(e.width)
    first, second = slope_of(e.loss, z), curvature_of(e.loss, z)

    def derivatives(points: jax.Array) -> tuple[jax.Array, jax.Array]:
        trial = copy.copy(evaluation)  # traced inside a loop: nothing of it may be remembered here
        trial.env = evaluation.env | {z: points}
        trial.memo, trial.shared, trial.write = {}, {}, False
        trial.scope = dict(evaluation.scope)

        def both() -> tuple[jax.Array, jax.Array]:
            return trial.value(first), trial.value(second)

        return trial.under(z, points, ("trial",), True, both)

    if e.body == z:
        shapes = jax.eval_shape(lambda: derivatives(centre + 0 * width)[0] + centre + width)
        return scalar_prox.minimiser(derivatives, jnp.broadcast_to(centre, shapes.shape), width)
    points = evaluation.value(e.minimiser)
    if isinstance(e, ProxSlope):
        return scalar_prox.slope(derivatives, points, centre, width)
    return evaluation.under(z, points, e.minimiser, True, lambda: evaluation.value(e.body))
