"""The derived forces of a model on the vectors of its Gram matrix, and its values, compiled.

The vectors flow in the space that they and the fixed ones span (``solvers.gram_descent``), with the
derived forces H of ``equations.calculus.gram_matrix``. Everything here runs in double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp

from equations import GradientFlow, Model
from solvers import gram_descent

from ..errors import InputError
from ..lowering.lower import Lowered
from ..lowering.node_sets import NodeSets, arguments
from ..lowering.node_sizes import NodeSizes
from ..runtime.programs import Program
from .equations import CompiledEquations

SIZES = NodeSizes(gaussian=41, line=121, localised=61, mellin=161)
"""Node sets to begin with: the forces are evaluated thousands of times, and are smooth."""
LATEST, EDGE = 200.0, 1e2
"""The time up to which a flow is followed, and the length |w|/sqrt(D) beyond which it is said to
diverge.
"""
OPTIONS = {"xla_backend_optimization_level": 0}
"""Code that is compiled for one point and runs a few thousand times."""
OBJECTIVE = "objective"
"""Of the values of a model the first one; no observable has this name."""


def record_of(model: Model) -> GradientFlow:
    """What the model says of its flow."""
    return cast(GradientFlow, model.theory)


def first_sizes(model: Model) -> NodeSizes:
    """The node sets to begin with."""
    needs = record_of(model).nodes.items()
    return SIZES.at_least({name: float(need) for name, need in needs})


def value_names(model: Model) -> list[str]:
    """The observables that are evaluated along the flow: those that depend on the overlaps, but for
    the distance from the manifold, which is read off them.
    """
    x = {q.symbol for q in model.overlaps}
    known = model.observables.items()
    return [n for n, o in known if o.expr.free_symbols & x and o.role != "off_manifold"]


@cache
def derived(model: Model) -> dict[str, sp.Expr]:
    """The forces and the values, derived and rewritten for evaluation."""
    record = record_of(model)
    rewrite = record.rewrite
    objective = rewrite(model.channel)
    forces = record.gram.forces(objective)
    named = {f"H_{a}{b}": e for (a, b), e in forces.items()}
    named[OBJECTIVE] = objective
    return named | {f"value {n}": rewrite(model.expressions[n]) for n in value_names(model)}


@cache
def lowered(model: Model, sizes: NodeSizes) -> Lowered:
    """Forces and values, ready to be evaluated."""
    return equations(model, sizes).lower(derived(model), [q.symbol for q in model.overlaps])


@cache
def equations(model: Model, sizes: NodeSizes) -> CompiledEquations:
    """What binds the controls."""
    return CompiledEquations(model, sizes)


def places(model: Model) -> list[tuple[int, int]]:
    """Where each overlap stands in the Gram matrix."""
    matrix = record_of(model).gram.matrix
    entries = [(a, b) for a in range(matrix.rows) for b in range(matrix.rows)]
    return [next(at for at in entries if matrix[at] == q.symbol) for q in model.overlaps]


def overlaps_in(model: Model, matrix: Any) -> Any:
    """The overlaps among the entries of a Gram matrix, shape (..., n, n)."""
    return jnp.stack([matrix[..., a, b] for a, b in places(model)], axis=-1)


@dataclass(frozen=True)
class Field:
    """The forces of a model at given controls, and its values, as functions of the Gram matrix."""

    model: Model
    values: Callable[[jax.Array], dict[str, jax.Array]]

    def forces(self, matrix: jax.Array) -> jax.Array:
        """H, shape (trained, n)."""
        gram = record_of(self.model).gram
        found, n = self.values(overlaps_in(self.model, matrix)), gram.matrix.rows
        names = [f"H_{a}{b}" for a in range(gram.trained) for b in range(n)]
        return jnp.stack([found[name] for name in names]).reshape(-1, n)


def _anywhere(model: Model) -> jax.Array:
    return jnp.asarray(list(next(iter(model.starts.values())).values()), dtype=float)


def field(model: Model, sizes: NodeSizes, c: jax.Array, sets: NodeSets | None = None) -> Field:
    """What does not depend on the overlaps is evaluated here, outside any loop."""
    binding = equations(model, sizes).binding(c, sets)
    return Field(model, lowered(model, sizes).bind(_anywhere(model), *binding))


class GramFlow:
    """The velocity of a model at one set of node sizes, compiled for one point at a time."""

    def __init__(self, model: Model, sizes: NodeSizes) -> None:
        self.model, self.lowered = model, lowered(model, sizes)
        self.binding = equations(model, sizes).binding
        self.keys: list[Any] = []
        self.prepare = Program(self._prepare, OPTIONS)
        self.velocity = Program(self._velocity, OPTIONS)

    def _prepare(self, c: jax.Array) -> list[jax.Array]:
        shared = self.lowered.prepared(_anywhere(self.model), self.binding(c).controls)
        self.keys = list(shared)  # while this is traced
        return [jnp.asarray(v) for v in shared.values()]

    def _velocity(
        self, c: jax.Array, shared: list[jax.Array], fixed: jax.Array, x: jax.Array
    ) -> jax.Array:
        known = dict(zip(self.keys, shared, strict=True))

        def values(overlaps: jax.Array) -> dict[str, jax.Array]:
            return self.lowered.at(overlaps, self.binding(c).controls, known)

        return gram_descent.velocity(Field(self.model, values).forces, fixed, x)

    def ends(self, c: jax.Array, fixed: jax.Array, starts: np.ndarray) -> list[gram_descent.End]:
        """The ends of the flow from each start."""
        shared = self.prepare(c)

        def velocity(x: np.ndarray) -> np.ndarray:
            return np.asarray(self.velocity(c, shared, fixed, x))

        return [gram_descent.flow_from(velocity, start, LATEST, EDGE) for start in starts]


@cache
def gram_flow(model: Model, sizes: NodeSizes) -> GramFlow:
    """The compiled flow; the same object for the same arguments."""
    return GramFlow(model, sizes)


def probed(model: Model, sizes: NodeSizes, c: jax.Array, fixed: jax.Array, points: Any) -> Any:
    """The velocity at ``points``, its slope, and the values of the model, as arrays of NumPy."""
    program = _probe(model, sizes.bucket().without_samples())
    return jax.tree.map(np.asarray, program(c, fixed, jnp.asarray(points), arguments(sizes)))


@cache
def _probe(model: Model, sizes: NodeSizes) -> Program:
    """What ``probed`` runs, for all node sets of the bucket ``sizes``."""
    names = [OBJECTIVE, *(f"value {name}" for name in value_names(model))]

    def run(c: jax.Array, fixed: jax.Array, points: jax.Array, sets: NodeSets) -> Any:
        at = field(model, sizes, c, sets)

        def one(x: jax.Array) -> Any:
            w = jnp.concatenate([x, fixed])
            found = at.values(overlaps_in(model, w @ w.T))
            slope = gram_descent.slope(at.forces, fixed, x)
            return slope, jnp.stack([found[name] for name in names])

        return jax.lax.map(one, points)

    return Program(run, OPTIONS)


def embedded(
    model: Model,
    values: Mapping[str, float],
    overlaps: Mapping[str, float],
    name: str = "these overlaps",
) -> np.ndarray:
    """Vectors with these overlaps, trained ones first, shape (n, n)."""
    numbers = {q.symbol: float(values[q.name]) for q in model.controls}
    numbers |= {q.symbol: float(overlaps[q.name]) for q in model.overlaps}
    matrix = record_of(model).gram.matrix.subs(numbers)
    found = gram_descent.vectors(np.array(matrix, dtype=float))
    if found is None:
        raise InputError(
            f"no vectors have {name}: a Gram matrix has no negative eigenvalue, so lower the cross"
            " terms or raise the lengths"
        )
    return found
