"""Saddle points with averages over scrambled sets of samples: the map is the mean over the sets,
the error its spread.

With F_s the map of set s, the fixed point of that set alone is x_s = x + (1 - J)^{-1} (F_s(x) -
F(x)) to first order; everything at the x_s gives twice the standard error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp

from equations import QuasiMonteCarlo
from solvers import Status, newton_step, radius_of

from ..lowering.lower import FLOOR
from ..lowering.node_sets import NodeSets, arguments
from ..lowering.node_sizes import NodeSizes
from ..lowering.planted import halvings
from ..runtime.programs import QUICK, Program
from .base import (
    Branch,
    Point,
    Refined,
    Settings,
    refined_together,
    substitution,
    two_standard_errors,
)
from .equations import CompiledEquations, box
from .one_parameter import OneParameter, SampledOneParameter
from .saddle_point import MAX_LEVEL, SaddlePoint

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

    def _structure(self, sizes: NodeSizes, route: str) -> NodeSizes:
        return sizes.bucket()

    def solve_point(
        self, x0: np.ndarray, c: np.ndarray, settings: Settings, sizes: NodeSizes
    ) -> Point:
        """A point of the mean of all sets, and its errors from where it moves to on each of
        them.
        """
        _, end = self.searched(x0, c, settings, sizes)
        controls, x = jnp.asarray(c), jnp.asarray(end.x)
        here = self.state(controls, x, sizes)
        program = _on_each_set(self, self.equations(sizes, one_set=True))
        whole = controls, x, jnp.asarray(here.update), jnp.asarray(here.slope), arguments(sizes)
        shift, *per_set = jax.tree.map(np.asarray, program(*whole))
        within = np.abs(newton_step(here.slope, np.full_like(end.x, WITHIN_SAMPLE)))
        unresolved = two_standard_errors(shift) + within
        left = np.abs(newton_step(here.slope, np.full_like(end.x, end.residual))) + FLOOR
        values = (here.hats, here.free_energy, here.observables)
        errors = [
            two_standard_errors(v) + WITHIN_SAMPLE * (1 + np.abs(mean))
            for v, mean in zip(per_set, values, strict=True)
        ]
        return Point(
            end.x,
            *values,
            end.residual,
            end.steps,
            end.status,
            np.asarray(radius_of(here.slope)),
            unresolved + left,
            *errors,
            np.max(unresolved, initial=0.0),
        )


@cache
def _on_each_set(theory: SampledSaddlePoint, one: CompiledEquations) -> Program:
    """(controls, x, F(x), dF/dx, nodes) -> how x moves on each set, and conjugates, Phi and
    observables there.
    """
    domain = box(theory.model)

    def moved(
        c: jax.Array, x: jax.Array, update: jax.Array, slope: jax.Array, sets: NodeSets
    ) -> tuple[jax.Array, ...]:
        def of_set(k: jax.Array) -> tuple[jax.Array, ...]:
            c_s = jnp.append(c, k)
            defect = one.update(c_s, x, sets)(x) - update
            shift = jnp.linalg.solve(jnp.eye(x.shape[0]) - slope, defect)
            return shift, *one.values(c_s, jnp.clip(x + shift, domain.low, domain.high), sets)

        return jax.lax.map(of_set, jnp.arange(one.sizes.scrambles, dtype=float))

    return Program(moved, QUICK)
