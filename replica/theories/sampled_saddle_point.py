"""Saddle points with averages over scrambled sets of samples: the map is the mean over the sets,
the error its spread.

With F_s the map of set s, the fixed point of that set alone is x_s = x + (1 - J)^{-1} (F_s(x) -
F(x)) to first order; everything at the x_s gives twice the standard error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp

from equations import QuasiMonteCarlo
from solvers import Status, propagate, spectral_radius

from ..lowering.lower import FLOOR
from ..lowering.node_sizes import NodeSizes
from ..lowering.planted import halvings
from .base import (
    Branch,
    Point,
    Refined,
    Settings,
    refined_together,
    substitution,
    two_standard_errors,
)
from .equations import box
from .one_parameter import OneParameter, SampledOneParameter
from .saddle_point import MAX_LEVEL, PointSolver, SaddlePoint, newton_step

FIRST_SAMPLES = 12
"""log2 of the samples per set to begin with, for up to four explicit tokens; the square root of the
cost per sample is saved beyond.
"""
FEWEST_SAMPLES = 6
"""log2 of the samples per set that each length of a law has at least."""
TOGETHER = 1e-7
"""Points of one map closer than this are one."""
WITHIN_SAMPLE = 1e-7
"""Error of the integrals within a sample, which the spread over the sets does not see."""
LOOSER = 10.0
"""Thresholds are not refined beyond so many times the model's own accuracy."""


class SampledSaddlePoint(SaddlePoint):
    """Fixed points of a map that is a mean over samples."""

    record: QuasiMonteCarlo
    error_in_sigmas: ClassVar[float] = 2.0

    def node_sizes(self, *points: Mapping[str, float]) -> NodeSizes:
        sizes = super().node_sizes(*points)
        tokens = max((self._tokens(values) for values in points), default=0) or None
        fewer = math.ceil(math.log2(max(tokens or 1, 4) / 4)) // 2
        shares = halvings(self.record.lengths)
        samples = max(FIRST_SAMPLES - fewer, shares + FEWEST_SAMPLES)
        return replace(sizes, tokens=tokens, log2_samples=samples)

    def _tokens(self, values: Mapping[str, float]) -> int:
        tokens = sp.sympify(self.record.tokens).subs(substitution(self.model, values))
        return int(tokens) if tokens.is_number else 0

    def _has_sampled_route(self) -> bool:
        return False

    def _solved(
        self, at: Mapping[str, np.ndarray], c: np.ndarray, settings: Settings, sizes: NodeSizes
    ) -> list[Refined]:
        def first(x0: np.ndarray) -> Point:
            return self.solve_start(x0, c, settings, sizes, max_level=0)[0]

        def refine(point: Point) -> tuple[Point, int]:
            if Status.of(int(point.status)) is not Status.UNRESOLVED:
                return point, 0
            begin = np.asarray(point.x)
            end, more = self.solve_start(begin, c, settings, sizes.refined(), MAX_LEVEL - 1)
            return end, more + 1

        def together(a: Point, b: Point) -> bool:
            return bool(np.max(np.abs(a.x - b.x)) <= TOGETHER)

        return refined_together(at, first, together, refine)

    def along(self, control: str, fixed: Mapping[str, float], sizes: NodeSizes) -> OneParameter:
        return SampledOneParameter(self, sizes, control, dict(fixed))

    def threshold_accuracy(self, accuracy: float) -> float:
        return max(accuracy, LOOSER * self.model.accuracy)

    def first_sizes(self, accuracy: float, *points: Mapping[str, float]) -> NodeSizes:
        return self.node_sizes(*points).smaller()

    def sensitivity(
        self, branch: Branch, values: Mapping[str, float], moved: tuple[str, ...]
    ) -> tuple[np.ndarray, np.ndarray, float]:
        return self.refuse_derivatives()

    def point_solver(self, sizes: NodeSizes, settings: Settings) -> PointSolver:
        """How one point is solved on the mean of all sets, and moved to each of them (traced)."""
        every, domain = self.equations(sizes, settings.route), box(self.model)
        one = self.equations(sizes, settings.route, one_set=True)

        def solve(x0: jax.Array, c: jax.Array) -> Point:
            end = self.iterate(every, x0, c, settings)
            state = every.state(c, end.x)

            def of_set(k: jax.Array) -> tuple[jax.Array, ...]:
                c_s = jnp.append(c, k)
                shift = newton_step(state.slope, one.update(c_s, end.x)(end.x) - state.update)
                return shift, *one.values(c_s, jnp.clip(end.x + shift, domain.low, domain.high))

            shift, *per_set = jax.lax.map(of_set, jnp.arange(sizes.scrambles, dtype=float))
            within = propagate(state.slope, jnp.full_like(end.x, WITHIN_SAMPLE))
            unresolved = two_standard_errors(shift) + within
            left = propagate(state.slope, jnp.full_like(end.x, end.residual)) + FLOOR
            values = (state.hats, state.free_energy, state.observables)
            errors = [
                two_standard_errors(v) + WITHIN_SAMPLE * (1 + jnp.abs(mean))
                for v, mean in zip(per_set, values, strict=True)
            ]
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
