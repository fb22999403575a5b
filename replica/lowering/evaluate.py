"""Evaluation of an expression tree on arrays: one axis per bound variable.

A value has one dimension per bound variable of the expression, of size 1 where it does not depend
on it. Equal subexpressions are evaluated once, and those that do not depend on the unknowns once
per solve. How a node is evaluated is said by its rule (``rules``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import sympy as sp

from equations.calculus.averages import Bound

from ..errors import LoweringError
from .functions import FUNCTIONS
from .node_sets import NodeSets, node_sets
from .node_sizes import NodeSizes
from .rules import rule_of

Values = Mapping[sp.Symbol, Any]
SCRAMBLE = sp.Symbol("scramble_")
"""Which of the scrambled point sets a sampled evaluation uses; bound like a control."""


class Evaluation:
    """One evaluation at given unknowns and controls.

    Attributes
    ----------
    env : dict of symbol -> array
        What symbols stand for here; bound variables while they are in scope.
    axes : dict of bound variable -> axis
    sizes, sets : NodeSizes, NodeSets
        The nodes; those of ``sizes`` unless others are given, such as arguments of a program.
    scope : dict of bound variable -> (identity of its node set, whether that depends on unknowns)
    notes : dict
        Kept by the rules for all evaluations of the same expressions.
    """

    def __init__(
        self,
        axes: dict[Any, int],
        sizes: NodeSizes,
        unknowns: Sequence[sp.Symbol],
        x: jax.Array,
        controls: Values,
        shared: dict[Any, Any],
        write: bool,
        expressions: Mapping[str, sp.Expr] | None = None,
        notes: dict[Any, Any] | None = None,
        sets: NodeSets | None = None,
    ) -> None:
        self.axes, self.sizes, self.ndim = axes, sizes, len(axes)
        self.expressions = expressions or {}
        self.notes = {} if notes is None else notes
        self.sets = node_sets(sizes) if sets is None else sets
        self.env: dict[Any, Any] = dict(controls)
        self.env.update({symbol: x[i] for i, symbol in enumerate(unknowns)})
        self.unknowns = set(unknowns)
        self.scope: dict[Any, tuple[Any, bool]] = {}
        self.memo: dict[Any, Any] = {}
        self.shared, self.write = shared, write
        self._free: dict[Any, frozenset[Any]] = {}

    def scalar(self, expr: sp.Expr) -> jax.Array:
        """The value of what depends on no bound variable, as a scalar."""
        value = jnp.asarray(self.value(expr), dtype=jnp.result_type(float))
        return value.reshape(()) if value.size == 1 else value

    def value(self, expr: sp.Basic) -> Any:
        """The value of an expression, looked up if it is known."""
        scope, varies = self._seen_by(self.free_symbols(expr))
        key = (expr, scope)
        if not varies and key in self.shared:
            return self.shared[key]
        if key not in self.memo:
            self.memo[key] = self.evaluated(expr)
            if self.write and not varies:
                self.shared[key] = self.memo[key]
        return self.memo[key]

    def evaluated(self, e: Any) -> Any:
        """The value of a node by its rule, or of a function by its row in the table."""
        rule = rule_of(e)
        if rule is not None:
            return rule(self, e)
        return FUNCTIONS[e.func](*(self.value(a) for a in e.args))

    def free_symbols(self, expr: sp.Basic) -> frozenset[Any]:
        """Those of an expression, remembered."""
        if expr not in self._free:
            self._free[expr] = frozenset(expr.free_symbols)
        return self._free[expr]

    def _seen_by(self, free: frozenset[Any]) -> tuple[tuple[Any, ...], bool]:
        """The node sets that symbols see, and whether they depend on the unknowns."""
        scope = tuple((v, self.scope[v][0]) for v in self.axes if v in free and v in self.scope)
        return scope, bool(free & self.unknowns) or any(self.scope[v][1] for v, _ in scope)

    # bound variables -----------------------------------------------------------------------------

    def along(self, variable: Any, points: Any) -> jax.Array:
        """A vector laid along the axis of a bound variable."""
        shape = [1] * self.ndim
        shape[self.axes[variable]] = -1
        return jnp.asarray(points).reshape(shape)

    def under(
        self, variable: Any, points: Any, identity: Any, varies: bool, compute: Callable[[], Any]
    ) -> Any:
        """``compute()`` with ``variable`` bound to ``points``."""
        if variable in self.scope:
            raise LoweringError(
                f"the variable {variable} is bound twice in nested integrals: rename one of them"
            )
        outside = self.env.get(variable)  # an unknown or control of the same name, hidden in here
        self.env[variable], self.scope[variable] = points, (identity, varies)
        try:
            return compute()
        finally:
            del self.scope[variable]
            self.env[variable] = outside

    def identity(self, node: Bound, roots: tuple[Any, ...] = (), *rest: Any) -> tuple[Any, bool]:
        """What the node set of an integral depends on: its parameters, its breakpoints and the
        variables they see.
        """
        parts = (*node.parameters, *roots)
        free: frozenset[Any] = frozenset().union(*(self.free_symbols(p) for p in parts))
        scope, varies = self._seen_by(free)
        return (type(node).__name__, node.parameters, roots, rest, scope), varies

    def over_tokens(self, index: Any, count: Any, compute: Callable[[], Any]) -> Any:
        """``compute()`` with a token index laid out along its axis."""
        size = self.sizes.tokens if self.sizes.tokens and not count.is_Integer else count
        if not isinstance(size, int | sp.Integer):
            raise LoweringError(
                f"the indexed sum over {index} = 1..{count} needs a number for {count}: it is an"
                " array size"
            )
        identity = ("tokens", int(size))
        # It may be laid out already, by a sample average or an outer sum.
        if index in self.scope and self.scope[index][0] == identity:
            return compute()
        points = self.along(index, jnp.arange(1, int(size) + 1, dtype=float))
        return self.under(index, points, identity, False, compute)
