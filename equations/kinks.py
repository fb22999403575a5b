"""Bound variables of a node, and the points where an integrand jumps or bends."""

from __future__ import annotations

from typing import Any

import sympy as sp

from .nodes import Bound, SampleAverage
from .scalar_prox import ProxValue
from .stable import LogSumExp


def bound_variables(node: sp.Basic) -> tuple[Any, ...]:
    if isinstance(node, SampleAverage):
        return (samples(node), node.variable)
    if isinstance(node, Bound):
        return (node.variable,)
    if isinstance(node, LogSumExp):
        return (node.args[1],)
    if isinstance(node, sp.Sum):
        return tuple(limit[0] for limit in node.limits)
    return ()


def samples(node: SampleAverage) -> sp.Symbol:
    return sp.Symbol(f"sample_of_{node.variable}")


def kinks(body: sp.Expr, x: sp.Symbol) -> list[sp.Expr]:
    """Where ``body`` jumps or bends: the roots in x of arguments (linear in x) of sign, Heaviside, |.|, Max, Min, conditions.

    An argument that also contains a variable integrated inside ``body`` is no kink: that integral is smooth in x.
    """
    roots: list[sp.Expr] = []
    for g in _bends(body):
        slope = sp.diff(g, x)
        if slope != 0 and not slope.has(x):
            root = sp.expand(x - g / slope)
            if root not in roots:
                roots.append(root)
    return roots


def curved(body: sp.Expr, x: sp.Symbol) -> sp.Expr | None:
    """An argument of such a function that is not linear in x, so that its root is not known; None if there is none."""
    return next((g for g in _bends(body) if x in g.free_symbols and x in sp.diff(g, x).free_symbols), None)


def _bends(node: sp.Basic) -> list[sp.Expr]:
    """Arguments whose zeros are kinks of ``node``, free of its bound variables."""
    inside = [g for a in node.args for g in _bends(a)]
    hidden = set(bound_variables(node))
    inside = [g for g in inside if not g.free_symbols & hidden]
    if isinstance(node, ProxValue):
        return [*inside, *node.arrivals()]
    if isinstance(node, sp.Heaviside | sp.sign | sp.Abs):
        return [*inside, node.args[0]]  # type: ignore[list-item]
    if isinstance(node, sp.Max | sp.Min):
        return inside + [a - b for i, a in enumerate(node.args) for b in node.args[:i]]  # type: ignore[operator]
    if isinstance(node, sp.core.relational.Relational):
        return [*inside, node.lhs - node.rhs]  # type: ignore[attr-defined]
    return inside
