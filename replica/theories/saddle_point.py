"""Saddle points with averages by quadrature: start and controls in, a solved and judged point out.

Nothing about a point is decided in Python, so one compilation serves a single solve and a whole
grid. Each model is compiled once for its node sizes and settings of the solver; controls are traced
arguments. Every point is evaluated again on finer node sets: the difference, propagated through
(1 - dF/dx)^-1, is its error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp

from equations import Model, Quadrature, QuasiMonteCarlo
from solvers import Iteration, Status, follow, propagate, spectral_radius

from ..lowering.lower import FLOOR, SAFETY, Lowered, error_from
from ..lowering.node_sizes import NodeSizes
from . import lines as line_solvers
from .base import (
    Branch,
    Done,
    Lines,
    Point,
    Settings,
    Starts,
    Theory,
    branch_of,
    merged,
    substitution,
    two_standard_errors,
)
from .classify import classify, measured, refuse_non_finite, violated
from .equations import (
    COMPILER_OPTIONS,
    CompiledEquations,
    State,
    box,
)
from .one_parameter import OneParameter

MAX_LEVEL = 2
"""How often the node sets are refined (1.6 times each) before an average is called unresolved."""
LOOSE = 3e-5
"""From this accuracy on, a search for thresholds begins with smaller node sets."""
PointSolver = Callable[[jax.Array, jax.Array], Point]
"""(start x0, controls c) -> Point, to be jitted or mapped over points."""


class SaddlePoint(Theory):
    """Fixed points of the derived equations, averages by quadrature."""

    record: Quadrature | QuasiMonteCarlo
    diagram: ClassVar[str] = "lines"
    batched: ClassVar[bool] = True
    cores_of_a_point: ClassVar[int | None] = 1
    Equations: ClassVar[type[CompiledEquations]] = CompiledEquations

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._equations: dict[tuple[NodeSizes, str, bool], Any] = {}

    def equations(self, sizes: NodeSizes, route: str = "exact", one_set: bool = False) -> Any:
        """The compiled equations; the same object for the same arguments."""
        key = sizes, route, one_set
        if key not in self._equations:
            self._equations[key] = self.Equations(self.model, sizes, route, one_set)
        return self._equations[key]

    # the interface -------------------------------------------------------------------------------

    def solve(
        self,
        starts: Starts,
        values: Mapping[str, float],
        settings: Settings,
        nodes: NodeSizes | None,
    ) -> list[Branch]:
        sizes = nodes or self.node_sizes(values)
        if settings.route == "sampled":
            if not self._has_sampled_route():
                self._refuse("has no sampled route: use route='exact'")
            sizes = replace(sizes, tokens=self._explicit_tokens(values))
        at = {name: self.start_vector(start, values) for name, start in starts.items()}
        c = self.control_vector(values)
        found = self._solved(at, c, settings, sizes)
        if self.model.source is not None:
            controls = jnp.asarray(c)
            refuse_non_finite(
                self.model, at, found, lambda x: self.state(controls, jnp.asarray(x), sizes)
            )
        return merged([branch_of(self.model, *row) for row in found])

    def _solved(
        self, at: Mapping[str, np.ndarray], c: np.ndarray, settings: Settings, sizes: NodeSizes
    ) -> list[tuple[str, Point, int]]:
        """Every start as (name, point, level)."""
        return [(name, *self.solve_start(x0, c, settings, sizes)) for name, x0 in at.items()]

    def solve_start(
        self,
        x0: np.ndarray,
        c: np.ndarray,
        settings: Settings,
        sizes: NodeSizes,
        max_level: int = MAX_LEVEL,
    ) -> tuple[Point, int]:
        """Solve from one start, refining the node sets until the error meets
        ``settings.accuracy``.
        """
        if settings.route == "sampled":
            return self._sampled(x0, c, settings, sizes), 0
        level = 0
        while True:
            solver = compiled(self, sizes, settings)
            point = jax.tree.map(np.asarray, solver(jnp.asarray(x0), jnp.asarray(c)))
            point = self.classified(point, settings)
            if level == max_level or Status.of(int(point.status)) is not Status.UNRESOLVED:
                return point, level
            sizes, level = sizes.refined(), level + 1

    def evaluate(
        self, at: Mapping[str, float], values: Mapping[str, float], nodes: NodeSizes | None
    ) -> dict[str, Any]:
        sizes = nodes or self.node_sizes(values)
        x = np.array([at[q.name] for q in self.model.overlaps], dtype=float)
        state = self.state(jnp.asarray(self.control_vector(values)), jnp.asarray(x), sizes)
        return self._evaluation(values, x, state)

    def node_sizes(self, *points: Mapping[str, float]) -> NodeSizes:
        needed: dict[str, float] = {}
        for values in points:
            at = substitution(self.model, values)
            for name, need in self.record.nodes.items():
                here = float(sp.sympify(need).subs(at))
                needed[name] = max(needed.get(name, 1.0), here)
        return NodeSizes().at_least(needed)

    def check(self) -> None:
        model, equations = self.model, self.equations(NodeSizes())
        rewrite = self.record.rewrite
        # Named as the user wrote it.
        Lowered(
            {"the free energy": rewrite(model.free_energy)},
            [*equations.x, *equations.h],
            equations.controls,
            model.name,
            NodeSizes(),
        )
        equations.prepare()

    def check_sweep(self) -> None:
        pass

    def check_curve(self) -> None:
        pass

    def check_phase(self) -> None:
        if not {"uninformed", "informed"} <= set(self.model.starts):
            self._refuse(
                "has no uninformed and informed branch to compare: choose a Bayes-optimal model"
            )

    def lines(
        self,
        lines: Lines,
        width: int,
        settings: Settings,
        sizes: NodeSizes,
        warm: bool,
        done: Done,
    ) -> tuple[Point, np.ndarray]:
        return line_solvers.compiled_lines(
            self, lines, width, settings, sizes, warm, done, MAX_LEVEL
        )

    def along(self, control: str, fixed: Mapping[str, float], sizes: NodeSizes) -> OneParameter:
        return OneParameter(self, sizes, control, dict(fixed))

    def sensitivity(
        self, branch: Branch, values: Mapping[str, float], moved: tuple[str, ...]
    ) -> tuple[np.ndarray, np.ndarray, float]:
        sizes = self.node_sizes(values)
        for _ in range(branch.level):
            sizes = sizes.refined()
        c = jnp.asarray(self.control_vector(values))
        x = np.array(list(branch.overlaps.values()))
        derivatives = _derivatives(self, sizes, moved)
        table, distance = (np.asarray(v) for v in derivatives(x, c))
        finer = np.asarray(_derivatives(self, sizes.finer(), moved)(x, c)[0])
        error = SAFETY * np.abs(finer - table) + FLOOR
        steps = np.array([branch.error[q.name] for q in self.model.overlaps])
        inside = np.where(x + steps > box(self.model).high, -steps, steps)
        for displaced in x + np.diag(inside):  # the point has an error of its own
            error = error + np.abs(np.asarray(derivatives(displaced, c)[0]) - table)
        return table, error, float(distance)

    def threshold_accuracy(self, accuracy: float) -> float:
        """What the errors of thresholds are refined to."""
        return accuracy

    def first_sizes(self, accuracy: float, *points: Mapping[str, float]) -> NodeSizes:
        """The node sets that a search for thresholds begins with: the default ones; at loose
        accuracy smaller ones (the error estimate decides if they do).
        """
        sizes = self.node_sizes(*points)
        return sizes if accuracy < LOOSE else sizes.smaller()

    @property
    def has_algorithmic_branch(self) -> bool:
        return "uninformed" in self.model.starts

    # pieces --------------------------------------------------------------------------------------

    def state(self, c: jax.Array, x: jax.Array, sizes: NodeSizes) -> State:
        """Everything the model defines at the overlaps ``x``."""
        return jax.tree.map(np.asarray, _evaluator(self, sizes)(c, x))

    def iterate(
        self, equations: CompiledEquations, x0: jax.Array, c: jax.Array, settings: Settings
    ) -> Iteration:
        """From a start to a fixed point (traced)."""
        if x0.shape[0] == 0:
            success = jnp.asarray(Status.SUCCESSFUL.code)
            return Iteration(x0, x0, jnp.asarray(0.0), jnp.asarray(1), success)
        return follow(
            equations.update(c, x0),
            x0,
            tol=settings.tol,
            max_steps=settings.max_steps,
            damping=settings.damping,
            box=box(self.model),
            polish=settings.polish,
        )

    def status_of(self, equations: CompiledEquations, c: jax.Array, end: Iteration) -> jax.Array:
        """The code of how an iteration ended (traced)."""
        return end.status

    def point_solver(self, sizes: NodeSizes, settings: Settings) -> PointSolver:
        """How one point is solved, and solved again on finer node sets (traced)."""
        coarse, fine = (self.equations(s, settings.route) for s in (sizes, sizes.finer()))
        domain = box(self.model)

        def solve(x0: jax.Array, c: jax.Array) -> Point:
            end = self.iterate(coarse, x0, c, settings)
            status = self.status_of(coarse, c, end)
            state = coarse.state(c, end.x)
            # The same point on finer sets: x' = x + (1 - J)^{-1} (F_fine(x) - x), and everything
            # at x'.
            update = fine.update(c, end.x)(end.x)
            moved = end.x + newton_step(state.slope, update - end.x)
            better = fine.state(c, jnp.clip(moved, domain.low, domain.high))
            unresolved = SAFETY * jnp.abs(newton_step(state.slope, update - state.update))
            left = propagate(state.slope, jnp.full_like(end.x, end.residual))
            return Point(
                end.x,
                state.hats,
                state.free_energy,
                state.observables,
                end.residual,
                end.steps,
                status,
                spectral_radius(state.slope),
                unresolved + left + FLOOR,
                error_from(better.hats, state.hats),
                error_from(better.free_energy, state.free_energy),
                error_from(better.observables, state.observables),
                jnp.max(unresolved, initial=0.0),
            )

        return solve

    def classified(self, point: Point, settings: Settings) -> Point:
        """A point with the verdict on it as its status."""
        return classify(point, lambda: self._verdict(point, settings))

    def _verdict(self, point: Point, settings: Settings) -> Status:
        at = measured(self.model, point)
        status = violated(self.model, "first", at)
        if status is not Status.SUCCESSFUL:
            return status
        numbers = [np.ravel(part) for part in (point.x, point.observables, point.free_energy)]
        if not np.all(np.isfinite(np.concatenate(numbers))):
            return Status.NON_FINITE
        if not np.all(np.isfinite(np.ravel(point.error_x))) or not np.isfinite(point.radius):
            return Status.BOUNDARY
        status = violated(self.model, "finite", at)
        if status is not Status.SUCCESSFUL:
            return status
        if self._is_loose(point, settings):
            return Status.UNRESOLVED
        if self._is_unstable(point):
            return Status.NOT_STABLE
        return violated(self.model, "resolved", at)

    def _is_loose(self, point: Point, settings: Settings) -> bool:
        """Whether the errors are larger than asked for."""
        allowed = 10 * (settings.accuracy + np.max(point.error_x, initial=0.0))
        loose = point.unresolved > settings.accuracy
        return bool(loose or np.any(point.error_observables > allowed))

    def _is_unstable(self, point: Point) -> bool:
        return bool(point.radius > 1)

    # the second route ----------------------------------------------------------------------------

    def _explicit_tokens(self, values: Mapping[str, float]) -> int | None:
        """Number of tokens of the sampled route."""
        tokens = self.record.tokens
        if tokens is None:
            return None
        return int(sp.sympify(tokens).subs(substitution(self.model, values)))

    def _has_sampled_route(self) -> bool:
        return self.record.sampled is not None

    def _sampled(
        self, x0: np.ndarray, c: np.ndarray, settings: Settings, sizes: NodeSizes
    ) -> Point:
        """One solve per scrambled Sobol set; the mean, with twice the standard error over the
        sets.
        """
        solver, inside = compiled(self, sizes, settings), jnp.asarray(np.maximum(x0, 1e-3))
        runs = [solver(inside, jnp.asarray([*c, k])) for k in range(sizes.scrambles)]
        stacked = jax.tree.map(lambda *a: np.stack(a), *runs)
        mean = jax.tree.map(lambda a: a.mean(axis=0), stacked)
        error = jax.tree.map(two_standard_errors, stacked)
        failed = [s for s in stacked.status if Status.of(s) is not Status.SUCCESSFUL]
        point = mean._replace(
            steps=stacked.steps.sum(),
            residual=stacked.residual.max(),
            status=np.asarray(failed[0] if failed else Status.SUCCESSFUL.code),
            error_x=error.x,
            error_hats=error.hats,
            error_free_energy=error.free_energy,
            error_observables=error.observables,
            unresolved=error.x.max(),
        )
        return self.classified(point, settings)


@cache
def compiled(theory: SaddlePoint, sizes: NodeSizes, settings: Settings) -> Any:
    """The jitted point solver."""
    return jax.jit(theory.point_solver(sizes, settings), compiler_options=COMPILER_OPTIONS)


@cache
def _evaluator(theory: SaddlePoint, sizes: NodeSizes) -> Any:
    """Jitted: (controls, overlaps) -> State."""
    return jax.jit(theory.equations(sizes).state)


@cache
def _derivatives(theory: SaddlePoint, sizes: NodeSizes, moved: tuple[str, ...]) -> Any:
    """Jitted: (overlaps, controls) -> derivatives by the controls ``moved``."""
    return jax.jit(theory.equations(sizes).derivatives(moved), compiler_options=COMPILER_OPTIONS)


def newton_step(slope: jax.Array, defect: jax.Array) -> jax.Array:
    """(1 - J)^{-1} defect."""
    return jnp.linalg.solve(jnp.eye(defect.shape[0]) - slope, defect) if defect.shape[0] else defect
