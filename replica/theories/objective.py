"""Minima of an objective without conjugates, averages by quadrature."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp

from equations import Quadrature
from solvers import Iteration, Status, minimise

from .base import Point, Settings
from .equations import CompiledEquations, CompiledObjective, box
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
        self, equations: CompiledEquations, x0: jax.Array, c: jax.Array, settings: Settings
    ) -> Iteration:
        if x0.shape[0] == 0:
            return super().iterate(equations, x0, c, settings)
        gradient, value = equations.conjugates(c, x0), equations.objective(c, x0)  # type: ignore[attr-defined]
        return minimise(value, gradient, x0, tol=settings.tol, max_steps=256, box=box(self.model))

    def status_of(self, equations: CompiledEquations, c: jax.Array, end: Iteration) -> jax.Array:
        if self.record.infinite_scale is sp.false:
            return end.status
        at_infinity = equations.at_infinity(c)  # type: ignore[attr-defined]
        return jnp.where(at_infinity, Status.INFINITE_SCALE.code, end.status)

    def _is_loose(self, point: Point, settings: Settings) -> bool:
        # The place of a flat optimum may be ill-determined where its value is not: errors there
        # speak for themselves.
        return bool(np.any(point.error_observables > 10 * settings.accuracy))

    def _is_unstable(self, point: Point) -> bool:
        return False
