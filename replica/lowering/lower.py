"""Lowering: SymPy expressions to JAX arrays.

``Lowered`` checks a set of expressions (every node must have a row, every symbol a meaning) and
evaluates them; ``function`` makes a JAX function of one expression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import sympy as sp

from equations.calculus.averages import (
    Average,
    TokenAverage,
)
from equations.calculus.discontinuities import bound_variables, curved
from equations.calculus.special_functions import stabilise

from ..errors import LoweringError
from .evaluate import SCRAMBLE, Evaluation
from .functions import FUNCTIONS
from .node_sets import NodeSets
from .node_sizes import NodeSizes
from .rules import has_rule

__all__ = ["SCRAMBLE", "Lowered", "NodeSizes", "error_from", "function", "value_and_error"]


def function(
    symbols: Sequence[sp.Symbol], expr: sp.Expr, sizes: NodeSizes | None = None
) -> Callable[..., jax.Array]:
    """A JAX function of arrays, one per symbol, broadcast against each other; it works under jit,
    grad and vmap.
    """
    lowered = Lowered(
        {"value": sp.sympify(expr)}, list(symbols), [], "expression", sizes or NodeSizes()
    )

    def scalar(*values: jax.Array) -> jax.Array:
        return lowered.bind(
            jnp.stack([jnp.asarray(v) for v in values]) if values else jnp.zeros(0), {}
        )(None)["value"]

    def call(*values: Any) -> jax.Array:
        arrays = [jnp.asarray(v, dtype=jnp.result_type(float)) for v in values]
        return jnp.vectorize(scalar)(*arrays) if arrays else scalar()

    return call


SAFETY = 2.0
"""Reported error = SAFETY * |difference between two node sets| + FLOOR * scale."""
FLOOR = 1e-13


def error_from(other: Any, value: Any) -> Any:
    """The error of a value (an array of NumPy or JAX), from one on the second node sets."""
    return SAFETY * abs(other - value) + FLOOR * (1 + abs(value))


def value_and_error(
    symbols: Sequence[sp.Symbol],
    expr: sp.Expr,
    values: Sequence[Any],
    sizes: NodeSizes | None = None,
) -> tuple[jax.Array, jax.Array]:
    """``expr`` at ``values`` (one array per symbol) and an estimate of its error, from the second
    node sets.
    """
    sizes = sizes or NodeSizes()
    value, finer = (function(symbols, expr, r)(*values) for r in (sizes, sizes.shifted()))
    return value, error_from(finer, value)


class Lowered:
    """A set of named expressions, ready to be evaluated.

    Parameters
    ----------
    expressions : dict of name -> expression
    unknowns, controls : lists of symbols
    model : str
        Named in errors.
    sizes : NodeSizes
    """

    def __init__(
        self,
        expressions: Mapping[str, sp.Expr],
        unknowns: Sequence[sp.Symbol],
        controls: Sequence[sp.Symbol],
        model: str,
        sizes: NodeSizes,
    ) -> None:
        self.expressions = {name: stabilise(sp.sympify(e)) for name, e in expressions.items()}
        self.unknowns, self.controls, self.model, self.sizes = (
            list(unknowns),
            list(controls),
            model,
            sizes,
        )
        _check(self.expressions, [*unknowns, *controls], model)
        self._notes: dict[Any, Any] = {}
        self._axes: dict[Any, int] = {}
        for expr in self.expressions.values():
            for node in sp.preorder_traversal(expr):
                for variable in bound_variables(node):
                    self._axes.setdefault(variable, len(self._axes))

    def bind(
        self, x: jax.Array, controls: Mapping[sp.Symbol, Any], sets: NodeSets | None = None
    ) -> Callable[[jax.Array | None], dict[str, jax.Array]]:
        """Fix the controls, and the nodes (those of ``sizes`` by default); returns x -> values
        (x = None: at the ``x`` given here).

        What does not depend on x is evaluated here, once, outside any loop the returned function
        runs in.
        """
        shared: dict[Any, Any] = {}
        values = self._values(x, controls, shared, True, sets)

        def at(x: jax.Array | None) -> dict[str, jax.Array]:
            return values if x is None else self._values(x, controls, shared, False, sets)

        return at

    def prepared(self, x: jax.Array, controls: Mapping[sp.Symbol, Any]) -> dict[Any, jax.Array]:
        """What does not depend on x, by subexpression, for ``at``: where a loop over x is not
        compiled, it is evaluated once all the same.
        """
        shared: dict[Any, Any] = {}
        self._values(x, controls, shared, True)
        return shared

    def at(
        self, x: jax.Array, controls: Mapping[sp.Symbol, Any], shared: dict[Any, Any]
    ) -> dict[str, jax.Array]:
        """The values at x, given what is ``prepared``."""
        return self._values(x, controls, shared, False)

    def _values(
        self,
        x: jax.Array,
        controls: Mapping[sp.Symbol, Any],
        shared: dict[Any, Any],
        write: bool,
        sets: NodeSets | None = None,
    ) -> dict[str, jax.Array]:
        """The values at x; ``write``: what does not depend on x is put into ``shared``."""
        evaluation = Evaluation(
            self._axes,
            self.sizes,
            self.unknowns,
            x,
            controls,
            shared,
            write=write,
            expressions=self.expressions,
            notes=self._notes,
            sets=sets,
        )
        return {name: evaluation.scalar(e) for name, e in self.expressions.items()}


def _check(expressions: Mapping[str, sp.Expr], known: Sequence[sp.Symbol], model: str) -> None:
    """Refuse, before any call, what has no row, partial Piecewise and ambiguous or undeclared
    symbols.
    """
    names: dict[str, sp.Symbol] = {}
    for name, expr in expressions.items():
        for node in sp.preorder_traversal(expr):
            problem = unsupported(node)
            if problem:
                raise LoweringError(f"model {model}: {problem} (in {name})")
            if isinstance(node, sp.Symbol) and names.setdefault(node.name, node) != node:
                raise LoweringError(
                    f"model {model}: two symbols named {node.name} with different assumptions (in"
                    f" {name}); declare it once"
                )
        for symbol in sorted(expr.free_symbols, key=str):
            if symbol not in known and not isinstance(symbol, sp.Indexed | sp.IndexedBase):
                raise LoweringError(
                    f"model {model}: {symbol} in {name} is neither an unknown nor a control"
                )


_ATOMS = (
    sp.Symbol,
    sp.Number,
    sp.NumberSymbol,
    sp.Tuple,
    sp.IndexedBase,
    sp.Idx,
    sp.core.symbol.Str,
)


def unsupported(node: sp.Basic) -> str | None:
    """Why a node (without its arguments) cannot be lowered, or None."""
    if isinstance(node, sp.DiracDelta):
        return (
            f"no lowering for {node}: integrate the delta by parts, or write the average over its"
            " argument"
        )
    if isinstance(node, TokenAverage):
        return "a TokenAverage must be rewritten (exchangeable.laplace or .sampled) before lowering"
    if isinstance(node, sp.Piecewise) and node.args[-1].args[1] != sp.true:  # type: ignore[attr-defined]
        return f"{node} is not total: end it with (value, True)"
    if isinstance(node, Average):
        bend = curved(node.body, node.variable)
        if bend is not None:
            return (
                f"no lowering for a jump or bend at the zeros of {bend} under an average: write it"
                f" with arguments linear in {node.variable}"
            )
    plain = has_rule(node) or isinstance(node, _ATOMS) or node.func in FUNCTIONS
    if plain or type(node).__name__ == "ExprCondPair":
        return None
    return f"no lowering for {type(node).__name__} in {node}"
