"""Where the integrand of a Gaussian average is steep, from its symbols.

f(a x + b), f a smooth step or bend (tanh, erf, log cosh, ...), changes around x = -b/a on the scale
s/|a|, with s = 1. An average over y ~ N(m, v) inside softens it: of f(a x + c y + b) there remains
a step in x at -(b + c m)/a on the scale s/|a|, s^2 -> s^2 + c^2 v.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import sympy as sp

from .averages import Average
from .discontinuities import bound_variables, vanishing
from .special_functions import (
    InverseMills,
    LogCosh,
    Logistic,
    LogNdtr,
    MillsGap,
    Softplus,
    TruncatedVariance,
)

SMOOTH_STEPS = (
    sp.tanh,
    sp.sech,
    sp.cosh,
    sp.erf,
    sp.erfc,
    sp.atan,
    LogNdtr,
    InverseMills,
    MillsGap,
    TruncatedVariance,
    Softplus,
    Logistic,
    LogCosh,
)


class Step(NamedTuple):
    """What a step depends on is ``argument``, and it changes where that is below sqrt(square)."""

    argument: sp.Expr
    square: sp.Expr


class Feature(NamedTuple):
    """A step in x: its argument is slope x + offset, sqrt(square) the scale of its argument."""

    slope: sp.Expr
    offset: sp.Expr
    square: sp.Expr


@cache
def steep_places(body: sp.Expr, x: sp.Symbol) -> tuple[Feature, ...]:
    """The smooth steps of ``body`` whose arguments are linear in x, each place and scale once.

    Parameters
    ----------
    body : expression
    x : symbol
        What is averaged over.

    Returns
    -------
    tuple of Feature
    """
    found: dict[tuple[sp.Expr, sp.Expr], Feature] = {}
    for argument, square in _steps(body):
        slope = sp.diff(argument, x)
        if slope == 0 or square == 0 or x in slope.free_symbols | square.free_symbols:
            continue
        offset = argument.subs(x, 0)
        place = sp.simplify(offset / slope), sp.simplify(square / slope**2)
        found.setdefault(place, Feature(slope, offset, square))
    return tuple(found.values())


@cache
def _steps(node: sp.Basic) -> tuple[Step, ...]:
    """The steps inside a node, free of the variables that it binds; a jump has the scale 0."""
    inside = dict.fromkeys(step for a in node.args for step in _steps(a))
    if isinstance(node, Average):
        x, mean, variance = node.variable, node.mean, node.variance
        softened = (
            Step(
                step.argument.subs(x, mean), step.square + sp.diff(step.argument, x) ** 2 * variance
            )
            for step in inside
        )
        inside = dict.fromkeys(softened)
    hidden = set(bound_variables(node))
    kept = [s for s in inside if not (s.argument.free_symbols | s.square.free_symbols) & hidden]
    if isinstance(node, SMOOTH_STEPS):
        kept.append(Step(node.args[0], sp.S.One))  # type: ignore[arg-type]
    edge = vanishing(node)
    if edge is not None:
        kept.append(Step(edge, sp.S.Zero))
    return tuple(kept)
