"""Minima of an objective without conjugates, averages by quadrature."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp

from equations import Quadrature
from solvers import Iteration, Status, minimise
from solvers.branch import Polish

from ..lowering.node_sets import NodeSets
from .base import Point, Settings
from .equations import CompiledEquations, CompiledObjective, box
from .point_programs import Numbers
from .saddle_point import SaddlePoint


class Objective(SaddlePoint):
    """Minima of an objective without conjugates, averages by quadrature."""

    record: Quadrature
    diagram: ClassVar[str] = ""
    objective: ClassVar[tuple[str, str, str]] = ("R", "0 = dR/d", " = 0")
    Equations: ClassVar[type[CompiledEquations]] = CompiledObjective

    def check_phase(self) -> None:
        self._refuse(
            "has no uninformed and informed branch to compare: choose a Bayes-optimal model"
        )

    def iterate(
        self,
        equations: CompiledEquations,
        x0: jax.Array,
        c: jax.Array,
        sets: NodeSets,
        how: Numbers,
        polish: Polish,
    ) -> Iteration:
        if x0.shape[0]:
            gradient = equations.conjugates(c, x0, sets)
            value = equations.objective(c, x0, sets)  # type: ignore[attr-defined]
            domain = box(self.model)
            end = minimise(value, gradient, x0, tol=how.tol, max_steps=256, box=domain)
        else:
            end = super().iterate(equations, x0, c, sets, how, polish)
        if self.record.infinite_scale is sp.false:
            return end
        at_infinity = equations.at_infinity(c, sets)  # type: ignore[attr-defined]
        return end._replace(status=jnp.where(at_infinity, Status.INFINITE_SCALE.code, end.status))

    def _is_loose(self, point: Point, settings: Settings) -> bool:
        # The place of a flat optimum may be ill-determined where its value is not: errors there
        # speak for themselves.
        return bool(np.any(point.error_observables > 10 * settings.accuracy))

    def _is_unstable(self, point: Point) -> bool:
        return False
