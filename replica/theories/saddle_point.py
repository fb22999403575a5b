"""A model compiled at one rule: start and controls in, a solved and judged point out.

Nothing about a point is decided in Python, so one compilation serves a single solve and a whole
grid. Each model is compiled once per rule and setting of the solver; controls are traced arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp

from equations import Model, derive, jacobian
from solvers import Box, Iteration, Status, follow, minimise, propagate, spectral_radius
from solvers.branch import Polish

from ..lowering.lower import FLOOR, SAFETY, SCRAMBLE, Lowered, NodeSizes


@dataclass(frozen=True)
class Settings:
    """How to solve.

    Attributes
    ----------
    tol : float
        On the undamped residual max|F(x) - x|.
    accuracy : float or None
        Largest error of an overlap that is still called resolved; None takes the model's own
        default.
    max_steps : int
        Evaluations of the map.
    damping : float
        Weight on the old iterate, in [0, 1).
    polish : {"anderson", "newton", "none"}
        Accelerator used once plain iteration has chosen the branch.
    route : {"exact", "sampled"}
        How averages are evaluated.
    """

    tol: float = 1e-10
    accuracy: float | None = None
    max_steps: int = 100_000
    damping: float = 0.0
    polish: Polish = "anderson"
    route: str = "exact"


class Point(NamedTuple):
    """One solved point as arrays; error arrays match ``x`` and the order of the model's
    observables.

    ``unresolved`` is the part of ``error_x`` that finer node sets would remove (the rest is the
    residual's).
    """

    x: jax.Array
    hats: jax.Array
    free_energy: jax.Array
    observables: jax.Array
    residual: jax.Array
    steps: jax.Array
    status: jax.Array
    radius: jax.Array
    error_x: jax.Array
    error_hats: jax.Array
    error_free_energy: jax.Array
    error_observables: jax.Array
    unresolved: jax.Array


class State(NamedTuple):
    """Everything a model defines at given overlaps: conjugates, update F(x), Phi, observables,
    dF/dx.
    """

    hats: jax.Array
    update: jax.Array
    free_energy: jax.Array
    observables: jax.Array
    slope: jax.Array


class Problem:
    """A model with its derived equations lowered at one rule.

    Parameters
    ----------
    model : Model
    sizes : NodeSizes
    route : {"exact", "sampled"}
    one_set : bool
        Whether the last control says which of the scrambled sets is used (in the sampled route it
        always does).
    """

    def __init__(self, model: Model, sizes: NodeSizes, route: str, one_set: bool = False) -> None:
        self.model, self.sizes = model, sizes
        rewrite = model.exact if route == "exact" else model.sampled
        assert rewrite is not None
        equations = derived(model, route)
        x, h = [q.symbol for q in model.overlaps], [q.symbol for q in model.conjugates]
        self.controls = [q.symbol for q in model.controls] + [SCRAMBLE] * (
            route == "sampled" or one_set
        )
        slope_x = jacobian(equations, x, h or x)
        slope_h = jacobian(equations, h, x) if h else sp.zeros(0, 0)

        def lower(expressions: dict[str, sp.Expr], unknowns: list[sp.Symbol]) -> Lowered:
            return Lowered(expressions, unknowns, self.controls, model.name, sizes)

        self._forces = lower(_named(equations, h or x), x)
        self._responses = lower(_named(equations, x if h else []), h)
        self._prior = lower({"value": rewrite(model.prior), **_entries(slope_h)}, h)
        self._value = lower({"value": rewrite(model.channel)}, x)
        self._coupling = lower({"value": model.coupling}, [*x, *h])
        self._slope = lower(_entries(slope_x), x)
        self._observables = lower({k: rewrite(v) for k, v in model.observables.items()}, x)

    @property
    def is_objective(self) -> bool:
        """Whether the model is an objective to be extremised, with no conjugates."""
        return not self.model.conjugates

    def at_infinity(self, c: jax.Array) -> jax.Array:
        """Whether the optimum is a limit at infinite scale."""
        condition = Lowered(
            {"value": self.model.infinite_scale}, [], self.controls, self.model.name, self.sizes
        )
        return condition.bind(jnp.zeros(0), self._binding(c))(None)["value"] > 0

    def _binding(self, c: jax.Array) -> dict[sp.Symbol, jax.Array]:
        return {symbol: c[i] for i, symbol in enumerate(self.controls)}

    def conjugates(self, c: jax.Array, x0: jax.Array) -> Callable[[jax.Array], jax.Array]:
        """x -> conjugates (the gradient, for an objective)."""
        at = self._forces.bind(x0, self._binding(c))
        return lambda x: _stack(at(x))

    def update(self, c: jax.Array, x0: jax.Array) -> Callable[[jax.Array], jax.Array]:
        """x -> F(x), shape (n,); x - gradient for an objective."""
        forces = self.conjugates(c, x0)
        if self.is_objective:
            return jax.jit(lambda x: x - forces(x))
        return jax.jit(lambda x: _stack(self._responses.bind(forces(x), self._binding(c))(None)))

    def objective(self, c: jax.Array, x0: jax.Array) -> Callable[[jax.Array], jax.Array]:
        """x -> the channel term (the whole Phi, for an objective)."""
        at = self._value.bind(x0, self._binding(c))
        return lambda x: at(x)["value"]

    def observables(self, c: jax.Array, x: jax.Array) -> jax.Array:
        """Observables at x, in the order of ``model.observables``."""
        return _stack(self._observables.bind(x, self._binding(c))(None))

    def state(self, c: jax.Array, x: jax.Array) -> State:
        """Everything the model defines at the overlaps ``x``."""
        n, binding = x.shape[0], self._binding(c)
        forces = _stack(self._forces.bind(x, binding)(None))
        slope = _stack(self._slope.bind(x, binding)(None)).reshape(n, n)
        value = self._value.bind(x, binding)(None)["value"]
        if self.is_objective:
            return State(
                jnp.zeros(0), x - forces, value, self.observables(c, x), jnp.eye(n) - slope
            )
        prior = self._prior.bind(forces, binding)(None)
        total = (
            value
            + prior.pop("value")
            + self._coupling.bind(jnp.concatenate([x, forces]), binding)(None)["value"]
        )
        update = _stack(self._responses.bind(forces, binding)(None))
        return State(
            forces, update, total, self.observables(c, x), _stack(prior).reshape(n, n) @ slope
        )

    def values(self, c: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Conjugates, free energy and observables at ``x``, without slopes."""
        binding = self._binding(c)
        forces = _stack(self._forces.bind(x, binding)(None))
        total = (
            self._value.bind(x, binding)(None)["value"]
            + self._prior.bind(forces, binding)(None)["value"]
        )
        total += self._coupling.bind(jnp.concatenate([x, forces]), binding)(None)["value"]
        return forces, total, self.observables(c, x)


@cache
def derived(model: Model, route: str) -> dict[sp.Symbol, sp.Expr]:
    """The model's saddle-point equations on one route (derived once per process)."""
    return derive(model, model.exact if route == "exact" else model.sampled)


def _named(equations: dict[sp.Symbol, sp.Expr], names: list[sp.Symbol]) -> dict[str, sp.Expr]:
    return {str(s): equations[s] for s in names}


def _entries(matrix: sp.Matrix) -> dict[str, sp.Expr]:
    return {f"slope {i} {j}": matrix[i, j] for i in range(matrix.rows) for j in range(matrix.cols)}


def _stack(values: dict[str, jax.Array]) -> jax.Array:
    return jnp.stack(list(values.values())) if values else jnp.zeros(0)


@cache
def problem(model: Model, sizes: NodeSizes, route: str) -> Problem:
    """The compiled problem; the same object for the same arguments."""
    return Problem(model, sizes, route)


def box(model: Model) -> Box:
    """The domain of the overlaps."""
    return Box(
        jnp.array([q.low for q in model.overlaps]), jnp.array([q.high for q in model.overlaps])
    )


@cache
def point_solver(
    model: Model, sizes: NodeSizes, settings: Settings
) -> Callable[[jax.Array, jax.Array], Point]:
    """A function (start x0, controls c) -> Point, to be jitted or mapped over points."""
    if model.scrambled:
        return _scrambled_solver(model, sizes, settings)
    coarse, fine = (
        problem(model, sizes, settings.route),
        problem(model, sizes.finer(), settings.route),
    )
    domain = box(model)

    def solve(x0: jax.Array, c: jax.Array) -> Point:
        end = _iterate(coarse, x0, c, settings, domain)
        status = (
            jnp.where(coarse.at_infinity(c), Status.INFINITE_SCALE.code, end.status)
            if model.infinite_scale is not sp.false
            else end.status
        )
        state = coarse.state(c, end.x)
        # The same point with a finer rule: x' = x + (1 - J)^{-1} (F_fine(x) - x), and everything at
        # x'.
        update = fine.update(c, end.x)(end.x)
        moved = end.x + _newton_step(state.slope, update - end.x)
        better = fine.state(c, jnp.clip(moved, domain.low, domain.high))
        unresolved = SAFETY * jnp.abs(_newton_step(state.slope, update - state.update))
        error_x = unresolved + propagate(state.slope, jnp.full_like(end.x, end.residual)) + FLOOR
        return Point(
            end.x,
            state.hats,
            state.free_energy,
            state.observables,
            end.residual,
            end.steps,
            status,
            spectral_radius(state.slope),
            error_x,
            _error(better.hats, state.hats),
            _error(better.free_energy, state.free_energy),
            _error(better.observables, state.observables),
            jnp.max(unresolved, initial=0.0),
        )

    return solve


def _scrambled_solver(
    model: Model, sizes: NodeSizes, settings: Settings
) -> Callable[[jax.Array, jax.Array], Point]:
    """The same for averages over sets of samples: the map is their mean, the error its spread.

    With F_s the map of set s, the fixed point of that set alone is x_s = x + (1 - J)^{-1} (F_s(x) -
    F(x)) to first order; everything at the x_s gives twice the standard error.
    """
    every, domain = problem(model, sizes, settings.route), box(model)
    one = Problem(model, sizes, settings.route, one_set=True)

    def solve(x0: jax.Array, c: jax.Array) -> Point:
        end = _iterate(every, x0, c, settings, domain)
        state = every.state(c, end.x)

        def of_set(k: jax.Array) -> tuple[jax.Array, ...]:
            c_s = jnp.append(c, k)
            shift = _newton_step(state.slope, one.update(c_s, end.x)(end.x) - state.update)
            return shift, *one.values(c_s, jnp.clip(end.x + shift, domain.low, domain.high))

        shift, hats, phi, seen = jax.lax.map(of_set, jnp.arange(sizes.scrambles, dtype=float))
        unresolved = standard_error(shift) + propagate(
            state.slope, jnp.full_like(end.x, WITHIN_SAMPLE)
        )
        left = propagate(state.slope, jnp.full_like(end.x, end.residual)) + FLOOR
        values = (state.hats, state.free_energy, state.observables)
        errors = (
            standard_error(v) + WITHIN_SAMPLE * (1 + jnp.abs(mean))
            for v, mean in zip((hats, phi, seen), values, strict=True)
        )
        return Point(
            end.x,
            *values,
            end.residual,
            end.steps,
            end.status,
            spectral_radius(state.slope),
            unresolved + left,
            *errors,
            jnp.max(unresolved, initial=0.0),
        )

    return solve


WITHIN_SAMPLE = 1e-7
"""Error of the integrals within a sample, which the spread over the sets does not see."""


def standard_error(per_set: jax.Array | np.ndarray) -> jax.Array:
    """Twice the standard error of the mean over the sets (first axis)."""
    return 2 * jnp.std(per_set, axis=0, ddof=1) / jnp.sqrt(per_set.shape[0])


def _iterate(
    problem: Problem, x0: jax.Array, c: jax.Array, settings: Settings, domain: Box
) -> Iteration:
    if x0.shape[0] == 0:
        return Iteration(
            x0, x0, jnp.asarray(0.0), jnp.asarray(1), jnp.asarray(Status.SUCCESSFUL.code)
        )
    if problem.is_objective:
        gradient = problem.conjugates(c, x0)
        return minimise(
            problem.objective(c, x0), gradient, x0, tol=settings.tol, max_steps=256, box=domain
        )
    f = problem.update(c, x0)
    return follow(
        f,
        x0,
        tol=settings.tol,
        max_steps=settings.max_steps,
        damping=settings.damping,
        box=domain,
        polish=settings.polish,
    )


def _newton_step(slope: jax.Array, defect: jax.Array) -> jax.Array:
    return jnp.linalg.solve(jnp.eye(defect.shape[0]) - slope, defect) if defect.shape[0] else defect


def _error(better: jax.Array, value: jax.Array) -> jax.Array:
    return SAFETY * jnp.abs(better - value) + FLOOR * (1 + jnp.abs(value))
