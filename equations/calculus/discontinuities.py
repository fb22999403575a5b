"""Where an expression of one variable jumps or bends, and its limits there; the variables that a
node binds.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import sympy as sp

from .averages import Bound, SampleAverage
from .special_functions import LogSumExp


def vanishing(node: Any) -> sp.Expr | None:
    """What vanishes where a node jumps or bends, None if it does neither."""
    if isinstance(node, sp.Heaviside | sp.sign | sp.Abs):
        return node.args[0]
    if isinstance(node, sp.Max | sp.Min) and len(node.args) == 2:
        return node.args[0] - node.args[1]
    if isinstance(node, sp.core.relational.Relational):
        return node.lhs - node.rhs
    return None


@cache
def all_breakpoints(expr: sp.Expr, x: sp.Symbol) -> tuple[sp.Expr, ...]:
    """Where an expression jumps or bends in x; ValueError if that cannot be solved for."""
    found: dict[sp.Expr, None] = {}
    for node in sp.preorder_traversal(expr):
        condition = vanishing(node)
        if condition is not None and x in condition.free_symbols:
            found |= dict.fromkeys(_roots(condition, x, node))
    return tuple(found)


def _roots(condition: sp.Expr, x: sp.Symbol, node: sp.Basic) -> list[sp.Expr]:
    """The zeros of what is linear in x but for absolute values of linear arguments."""
    roots = []
    for plain in _of_each_sign(condition, x):
        slope = sp.expand(sp.diff(plain, x))
        if slope == 0:
            continue
        if x in slope.free_symbols:
            raise ValueError(
                f"cannot find where {node} jumps or bends in {x}: write it with arguments linear in"
                f" {x}, or their absolute values"
            )
        root = sp.expand(x - plain / slope)
        if vanishes(condition.subs(x, root)) and root not in roots:
            roots.append(root)
    return roots


def _of_each_sign(condition: sp.Expr, x: sp.Symbol) -> list[sp.Expr]:
    """What stands for a condition where the absolute values in it that contain x have a sign."""
    sizes = [a for a in condition.atoms(sp.Abs) if x in a.free_symbols]
    choices = itertools.product((1, -1), repeat=len(sizes))
    pairs = ([(a, s * a.args[0]) for a, s in zip(sizes, signs, strict=True)] for signs in choices)
    return [condition.xreplace(dict(chosen)) for chosen in pairs]


def vanishes(expr: sp.Expr) -> bool:
    """Whether an expression is zero, absolute values taken of what they are of."""
    return sp.expand(expr.replace(sp.Abs, lambda u: sp.Abs(sp.expand(u)))) == 0


def one_sided(expr: sp.Expr, x: sp.Symbol, place: sp.Expr, side: int) -> sp.Expr:
    """The limit of ``expr`` at a place where it jumps, from above (side = 1) or below (-1)."""

    def resolved(node: Any) -> Any:
        condition = vanishing(node)
        if condition is None or not vanishes(condition.subs(x, place)):
            return node
        beyond = sp.sign(
            sp.expand(side * sp.diff(condition, x).subs(x, place)).replace(
                sp.sign, lambda u: sp.sign(sp.expand(u))
            )
        )
        return on_side(node, beyond)

    return sp.expand(expr.replace(lambda e: vanishing(e) is not None, resolved).subs(x, place))


def on_side(node: Any, side: sp.Expr) -> Any:
    """A node that jumps or bends, where the sign of what vanishes there is ``side`` (1 or -1)."""
    if isinstance(node, sp.Abs):
        return side * node.args[0]
    if isinstance(node, sp.Max | sp.Min):
        larger, smaller = node.args if side == 1 else node.args[::-1]
        return larger if isinstance(node, sp.Max) else smaller
    if isinstance(node, sp.core.relational.Relational):
        return node.func(side, 0)
    return node.func(side)


# under an integral -------------------------------------------------------------------------------


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


def breakpoints(body: sp.Expr, x: sp.Symbol) -> list[sp.Expr]:
    """Where ``body`` may jump or bend: the roots in x of arguments of sign, Heaviside, |.|, Max,
    Min, conditions, which are linear in x but for absolute values of what is linear.

    An argument that also contains a variable integrated inside ``body`` is no kink: that integral
    is smooth in x.
    """
    roots: list[sp.Expr] = []
    for g in (plain for bend in _bends(body) for plain in _of_each_sign(bend, x)):
        slope = sp.diff(g, x)
        if slope != 0 and not slope.has(x):
            root = sp.expand(x - g / slope)
            if root not in roots:
                roots.append(root)
    return roots


def curved(body: sp.Expr, x: sp.Symbol) -> sp.Expr | None:
    """An argument of such a function that is not linear in x, so that its root is not known; None
    if there is none.
    """
    bends = (g for g in _bends(body) if x in g.free_symbols)
    return next((g for g in bends if _is_curved(g, x)), None)


def _is_curved(condition: sp.Expr, x: sp.Symbol) -> bool:
    return any(x in sp.diff(g, x).free_symbols for g in _of_each_sign(condition, x))


def _bends(node: sp.Basic) -> list[sp.Expr]:
    """Arguments whose zeros are kinks of ``node``, free of its bound variables."""
    inside = [g for a in node.args for g in _bends(a)]
    hidden = set(bound_variables(node))
    inside = [g for g in inside if not g.free_symbols & hidden]
    if isinstance(node, Bound):
        return [*inside, *node.breakpoints()]
    if isinstance(node, sp.Heaviside | sp.sign | sp.Abs):
        return [*inside, node.args[0]]  # type: ignore[list-item]
    if isinstance(node, sp.Max | sp.Min):
        return inside + [a - b for i, a in enumerate(node.args) for b in node.args[:i]]  # type: ignore[operator]
    if isinstance(node, sp.core.relational.Relational):
        return [*inside, node.lhs - node.rhs]  # type: ignore[attr-defined]
    return inside
