"""Where an expression of one variable jumps or bends, and its limits there."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import sympy as sp


def switch(node: Any) -> sp.Expr | None:
    """What vanishes where a node jumps or bends, None if it does neither."""
    if isinstance(node, sp.Heaviside | sp.sign | sp.Abs):
        return node.args[0]
    if isinstance(node, sp.Max | sp.Min) and len(node.args) == 2:
        return node.args[0] - node.args[1]
    if isinstance(node, sp.core.relational.Relational):
        return node.lhs - node.rhs
    return None


@cache
def places(expr: sp.Expr, x: sp.Symbol) -> tuple[sp.Expr, ...]:
    """Where an expression jumps or bends in x; ValueError if that cannot be solved for."""
    found: dict[sp.Expr, None] = {}
    for node in sp.preorder_traversal(expr):
        condition = switch(node)
        if condition is not None and x in condition.free_symbols:
            found |= dict.fromkeys(_roots(condition, x, node))
    return tuple(found)


def _roots(condition: sp.Expr, x: sp.Symbol, node: sp.Basic) -> list[sp.Expr]:
    """The zeros of what is linear in x but for absolute values of linear arguments."""
    sizes = [a for a in condition.atoms(sp.Abs) if x in a.free_symbols]
    roots = []
    for signs in itertools.product((1, -1), repeat=len(sizes)):
        plain = condition.xreplace({a: s * a.args[0] for a, s in zip(sizes, signs, strict=True)})
        slope = sp.expand(sp.diff(plain, x))
        if slope == 0:
            continue
        if x in slope.free_symbols:
            raise ValueError(f"cannot find where {node} jumps or bends in {x}: write it with arguments linear in {x}, or their absolute values")
        root = sp.expand(x - plain / slope)
        if vanishes(condition.subs(x, root)) and root not in roots:
            roots.append(root)
    return roots


def vanishes(expr: sp.Expr) -> bool:
    """Whether an expression is zero, absolute values taken of what they are of."""
    return sp.expand(expr.replace(sp.Abs, lambda u: sp.Abs(sp.expand(u)))) == 0


def one_sided(expr: sp.Expr, x: sp.Symbol, place: sp.Expr, side: int) -> sp.Expr:
    """The limit of ``expr`` at a place where it jumps, from above (side = 1) or below (-1)."""

    def resolved(node: Any) -> Any:
        condition = switch(node)
        if condition is None or not vanishes(condition.subs(x, place)):
            return node
        beyond = sp.sign(sp.expand(side * sp.diff(condition, x).subs(x, place)).replace(sp.sign, lambda u: sp.sign(sp.expand(u))))
        if isinstance(node, sp.Abs):
            return beyond * condition
        if isinstance(node, sp.Max | sp.Min):
            larger, smaller = node.args if beyond == 1 else node.args[::-1]
            return larger if isinstance(node, sp.Max) else smaller
        if isinstance(node, sp.core.relational.Relational):
            return node.func(beyond, 0)
        return node.func(beyond)

    return sp.expand(expr.replace(lambda e: switch(e) is not None, resolved).subs(x, place))
