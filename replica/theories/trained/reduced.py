"""A model's equations once the averages over its samples are numbers: conjugates, update, free
energy, observables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import sympy as sp

from equations import Model, Quantity, derive
from equations.calculus.envelope import TeacherAverage

from ...lowering.evaluate import Evaluation
from ...lowering.node_sizes import NodeSizes


class ReducedEquations:
    """The algebra around the averages.

    ``first`` are the averages that the equations need, ``nodes`` all of them, those of ``first``
    leading.
    """

    def __init__(self, model: Model) -> None:
        self.model, equations = model, derive(model)
        self._conjugates = [equations[q.symbol] for q in model.conjugates]
        self._overlaps = [equations[q.symbol] for q in model.overlaps]
        self._observables = list(model.expressions.values())
        self.first = _averages(self._conjugates)
        self.nodes = _averages([*self._conjugates, model.free_energy, *self._observables])
        self._names = {
            node: sp.Symbol(f"average_{i}", real=True) for i, node in enumerate(self.nodes)
        }
        self._x, self._hats = _symbols(model.overlaps), _symbols(model.conjugates)

    def _evaluate(
        self,
        expressions: Sequence[sp.Expr],
        c: jax.Array,
        *given: tuple[Sequence[sp.Symbol], jax.Array],
    ) -> jax.Array:
        env = control_values(self.model, c)
        for symbols, numbers in given:
            env.update(zip(symbols, numbers, strict=False))
        e = Evaluation({}, NodeSizes(), [], jnp.zeros(0), env, {}, write=False)
        return jnp.stack([e.scalar(expr.xreplace(self._names)) for expr in expressions])

    def _averaged(self, averages: jax.Array) -> tuple[Sequence[sp.Symbol], jax.Array]:
        return list(self._names.values()), averages

    def conjugates(self, x: jax.Array, averages: jax.Array, c: jax.Array) -> jax.Array:
        """Conjugates from the averages at x."""
        return self._evaluate(self._conjugates, c, (self._x, x), self._averaged(averages))

    def update(self, x: jax.Array, averages: jax.Array, c: jax.Array) -> jax.Array:
        """F(x) from the averages at x."""
        return self._evaluate(self._overlaps, c, (self._hats, self.conjugates(x, averages, c)))

    def free_energy(
        self, x: jax.Array, hats: jax.Array, averages: jax.Array, c: jax.Array
    ) -> jax.Array:
        """The free energy at given overlaps and conjugates."""
        return self._evaluate(
            [self.model.free_energy], c, (self._x, x), (self._hats, hats), self._averaged(averages)
        )[0]

    def for_observable(
        self, name: str
    ) -> tuple[list[sp.Expr], Callable[[jax.Array, jax.Array, jax.Array], jax.Array]]:
        """The averages that the equations and one observable need, those of ``first`` leading, and
        that observable of (x, averages, c).
        """
        expr = self.model.expressions[name]
        nodes = list(dict.fromkeys([*self.first, *_averages([expr])]))
        names = [self._names[node] for node in nodes]

        def observable(x: jax.Array, averages: jax.Array, c: jax.Array) -> jax.Array:
            return self._evaluate([expr], c, (self._x, x), (names, averages))[0]

        return nodes, observable

    def observables(self, x: jax.Array, averages: jax.Array, c: jax.Array) -> jax.Array:
        """Observables, in the order of ``model.observables``."""
        return self._evaluate(self._observables, c, (self._x, x), self._averaged(averages))


def control_values(model: Model, c: jax.Array) -> dict[sp.Symbol, jax.Array]:
    """Control symbols and their values."""
    return {q.symbol: c[i] for i, q in enumerate(model.controls)}


def _averages(expressions: Sequence[sp.Expr]) -> list[sp.Expr]:
    found = (
        node
        for e in expressions
        for node in sp.preorder_traversal(e)
        if isinstance(node, TeacherAverage)
    )
    return list(dict.fromkeys(found))


def _symbols(quantities: Sequence[Quantity]) -> list[sp.Symbol]:
    return [q.symbol for q in quantities]
