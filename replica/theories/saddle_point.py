"""Saddle points with averages by quadrature: start and controls in, a solved and judged point out.

A model is three programs: the search for a fixed point; F, its slope and Phi at given overlaps;
the observables there. Node positions and weights are their arguments, as controls, starts,
tolerances and damping are, so that they serve every node set of a bucket, single solves, grids and
curves. Every point is evaluated again, by the same programs, on a second node set: the difference,
propagated through (1 - dF/dx)^-1, is its error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp

from equations import Model, Quadrature, QuasiMonteCarlo
from solvers import Iteration, Status, follow
from solvers.branch import Polish

from ..inputs import nearest
from ..lowering.lower import FLOOR, SAFETY, Lowered
from ..lowering.node_sets import NodeSets, arguments
from ..lowering.node_sizes import NodeSizes
from ..runtime.programs import Program, side_by_side
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
from .equations import CompiledEquations, State, box
from .one_parameter import OneParameter
from .point_programs import (
    Numbers,
    derivatives_of,
    judged_point,
    linearised,
    observed,
    search_of,
)

MAX_LEVEL = 2
"""How often the node sets are refined (1.6 times each) before an average is called unresolved."""
LOOSE = 3e-5
"""From this accuracy on, a search for thresholds begins with smaller node sets."""


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
        self._begun: set[Program] = set()

    def equations(self, sizes: NodeSizes, route: str = "exact", one_set: bool = False) -> Any:
        """The equations for the bucket of ``sizes``; the same object for the same bucket."""
        key = self._structure(sizes, route), route, one_set
        if key not in self._equations:
            self._equations[key] = self.Equations(self.model, *key)
        return self._equations[key]

    def _structure(self, sizes: NodeSizes, route: str) -> NodeSizes:
        """What programs know of the node sets: samples are constants of theirs."""
        return sizes.bucket() if route == "sampled" else sizes.bucket().without_samples()

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
            point = self.classified(self.solve_point(x0, c, settings, sizes), settings)
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
        settings: Settings,
        sizes: NodeSizes,
        warm: bool,
        done: Done,
    ) -> tuple[Point, np.ndarray]:
        return line_solvers.solved_lines(self, lines, settings, sizes, warm, done, MAX_LEVEL)

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
        program = derivatives_of(self.equations(sizes), moved)

        def derivatives(x: np.ndarray, at: NodeSizes) -> tuple[np.ndarray, np.ndarray]:
            return jax.tree.map(np.asarray, program(jnp.asarray(x), c, arguments(at)))

        table, distance = derivatives(x, sizes)
        error = SAFETY * np.abs(derivatives(x, sizes.shifted())[0] - table) + FLOOR
        steps = np.array([branch.error[q.name] for q in self.model.overlaps])
        inside = np.where(x + steps > box(self.model).high, -steps, steps)
        for displaced in x + np.diag(inside):  # the point has an error of its own
            error = error + np.abs(derivatives(displaced, sizes)[0] - table)
        return table, error, float(distance)

    def check_gradient(self, observable: str) -> None:
        known = self.model.observables
        if observable not in known:
            self._refuse(f"has no observable {observable!r}: {nearest(observable, known)}")

    def followed(
        self, x: np.ndarray, settings: Settings, observable: str
    ) -> line_solvers.FollowedPoint:
        if settings.route != "exact":
            self.refuse_derivatives()
        return line_solvers.FollowedPoint(self, x, settings, observable)

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
        equations, sets = self.equations(sizes), arguments(sizes)
        here = linearised(equations, None)(c, x, sets)
        seen = observed(equations)(c, x, sets)
        parts = here.hats, here.update, here.free_energy, seen, here.slope
        return State(*map(np.asarray, parts))  # type: ignore[arg-type]

    def iterate(
        self,
        equations: CompiledEquations,
        x0: jax.Array,
        c: jax.Array,
        sets: NodeSets,
        how: Numbers,
        polish: Polish,
    ) -> Iteration:
        """From a start to a fixed point (traced)."""
        if x0.shape[0] == 0:
            success = jnp.asarray(Status.SUCCESSFUL.code)
            return Iteration(x0, x0, jnp.asarray(0.0), jnp.asarray(1), success)
        update, domain = equations.update(c, x0, sets), box(self.model)
        tol, max_steps, damping = how
        return follow(
            update,
            x0,
            tol=tol,
            max_steps=max_steps,
            damping=damping,
            box=domain,
            polish=polish,
        )

    def searched(
        self, x0: np.ndarray, c: np.ndarray, settings: Settings, sizes: NodeSizes
    ) -> tuple[CompiledEquations, Iteration]:
        """Where the iteration from ``x0`` ends, and the equations that it iterated."""
        equations = self.equations(sizes, settings.route)
        start, sets = np.asarray(x0, dtype=float), arguments(sizes)
        find = search_of(self.iterate, equations, settings.polish)
        how = Numbers.of(settings)
        if find not in self._begun:  # all that a point needs is compiled at once
            side_by_side(
                (find, (start, c, sets, how)),
                (linearised(equations, None), (c, start, sets)),
                (observed(equations), (c, start, sets)),
            )
            self._begun.add(find)
        return equations, jax.tree.map(np.asarray, find(start, c, sets, how))

    def solve_point(
        self, x0: np.ndarray, c: np.ndarray, settings: Settings, sizes: NodeSizes
    ) -> Point:
        """One point, not yet classified, and its errors from the second node set."""
        equations, end = self.searched(x0, c, settings, sizes)
        # Sets of samples have their error from one another.
        second = sizes if settings.route == "sampled" else sizes.shifted()
        return judged_point(equations, end, c, sizes, second)

    def classified(self, point: Point, settings: Settings) -> Point:
        """A point with the verdict on it as its status."""
        return classify(point, lambda: self._verdict(point, settings))

    def _verdict(self, point: Point, settings: Settings) -> Status:
        at = measured(self.model, point)
        status = violated(self.model, "first", at)
        if status is not Status.SUCCESSFUL:
            return status
        is_limit = np.isinf(point.free_energy)  # that of a point is said to be: see judged_point
        energy = 0.0 if is_limit else point.free_energy
        numbers = [np.ravel(part) for part in (point.x, point.observables, energy)]
        if not np.all(np.isfinite(np.concatenate(numbers))):
            return Status.NON_FINITE
        if np.any(np.isnan(point.error_x)) or not np.isfinite(point.radius):
            return Status.BOUNDARY
        if np.any(np.isinf(point.error_x)):
            return Status.UNBOUNDED
        status = violated(self.model, "finite", at)
        if status is not Status.SUCCESSFUL:
            return status
        if self._is_loose(point, settings):
            return Status.UNRESOLVED
        if self._is_unstable(point):
            return Status.NOT_STABLE
        status = violated(self.model, "resolved", at)
        return Status.INFINITE_ENERGY if is_limit and status is Status.SUCCESSFUL else status

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
        return self.record.sampled is not None  # type: ignore[attr-defined]

    def _sampled(
        self, x0: np.ndarray, c: np.ndarray, settings: Settings, sizes: NodeSizes
    ) -> Point:
        """One solve per scrambled Sobol set; the mean, with twice the standard error over the
        sets.
        """
        inside, every = np.maximum(x0, 1e-3), range(sizes.scrambles)
        runs = [self.solve_point(inside, np.array([*c, k]), settings, sizes) for k in every]
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
