r"""Solve a model with a Moreau envelope: branch by branch, on samples, with a standard error on
everything.

One start is followed on few samples, then refined on more of them until the errors meet
``settings.accuracy``. On each level: search the minima from several starts, solve the fixed point
with warm-started minima, search again; repeat while samples change their valley and that still
moves the overlaps. Over the independent sets s of samples, with h_s the conjugates of one set at
the solution,

    delta x_s = (1 - J)^{-1} R'(h) (h_s - h),     delta O_s = O_s(x) - O(x) + O'(x) delta x_s,
    error = 2 std_s / sqrt(sets)

which is what re-solving on each set would give to first order. Source: theory.md sections 5 and 9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from equations import EmpiricalRisk, ModelError
from equations.calculus.envelope import RESPONSES
from solvers import Status, newton_step, radius_of
from solvers.attention.data import Samples, random_length
from solvers.warm_start import Ended, warm_fixed_point

from ...errors import InputError
from ...inputs import nearest
from ...lowering.lower import FLOOR
from ...lowering.node_sizes import NodeSizes
from ..base import (
    Branch,
    Done,
    Lines,
    Point,
    Refined,
    Settings,
    Starts,
    Theory,
    branch_of,
    merged,
    refined_together,
    two_standard_errors,
)
from ..classify import measured, violated
from ..equations import State
from ..lines import Moved, lines_point_by_point
from .proximal_map import proximal_map
from .sample_map import THREADS, Minima, SampleMap

SETS = 8
FIRST_LEVEL, LAST_LEVEL = 10, 14
"""log2 of the samples per set on which a branch is chosen, and at most."""
ROUNDS = 4
"""Searches on one level before samples that still change their valley are left alone."""
DAMPING = 0.3
"""Least damping: undamped, the conjugates of a non-convex loss overshoot."""
SETTLED = 0.1
"""Part of the accuracy by which the last change of valleys may move the overlaps without being
followed by another search.
"""
CHECKED_TOKENS = 2
"""Tokens with which a model is lowered once to see whether it can be."""
MEASURED = ("risk", "training_loss")
"""Roles of the observables whose errors are held to the accuracy."""


class TrainedPredictor(Theory):
    """Stationary points of an empirical risk, a minimisation in every sample."""

    record: EmpiricalRisk
    error_in_sigmas: ClassVar[float] = 2.0
    diagram: ClassVar[str] = "map"
    cores_of_a_point: ClassVar[int | None] = THREADS

    # the interface -------------------------------------------------------------------------------

    def solve(
        self,
        starts: Starts,
        values: Mapping[str, float],
        settings: Settings,
        nodes: NodeSizes | None,
    ) -> list[Branch]:
        at = {name: self.start_vector(start, values) for name, start in starts.items()}
        c = self.control_vector(values)
        found = self._solved(at, c, settings)
        branches = merged([branch_of(self.model, *row) for row in found])
        notes = {name: self._note(point, c, level) for name, point, level in found}
        branches = [replace(b, note=notes[b.start.split("+")[0]]) for b in branches]
        # By energy, failures last.
        return sorted(branches, key=lambda b: (not b.ok, b.free_energy))

    def _solved(
        self, at: Mapping[str, np.ndarray], c: np.ndarray, settings: Settings
    ) -> list[Refined]:
        def first(x0: np.ndarray) -> Point:
            return self._at_level(x0, c, settings, FIRST_LEVEL)

        def refine(point: Point) -> tuple[Point, int]:
            return self._refined(point, c, settings)

        return refined_together(at, first, _meet, refine)

    def solve_start(self, x0: np.ndarray, c: np.ndarray, settings: Settings) -> tuple[Point, int]:
        """One branch, classified, and how often its samples were doubled."""
        return self._refined(self._at_level(x0, c, settings, FIRST_LEVEL), c, settings)

    def evaluate(
        self, at: Mapping[str, float], values: Mapping[str, float], nodes: NodeSizes | None
    ) -> dict[str, Any]:
        x = np.array([at[q.name] for q in self.model.overlaps], dtype=float)
        samples = self.samples(self.control_vector(values))
        minima = samples.search(x, samples.unknown())
        report, slope = samples.report(x, minima), samples.slope(x, minima)
        update = samples.update(x, report.averages.mean(axis=0))
        means = report.mean_free_energy, report.mean_observables
        return self._evaluation(values, x, State(report.mean_hats, update, *means, slope))

    def check(self) -> None:
        names = {q.name for q in self.model.overlaps}
        for w in self.record.weights:
            for name in (w.teacher, w.norm, w.susceptibility):
                if name not in names:
                    raise ModelError(
                        f"model {self.model.name}: EmpiricalRisk names {name}, which is no overlap"
                    )
        proximal_map(self.model, CHECKED_TOKENS)

    def check_sweep(self) -> None:
        pass

    def check_phase(self) -> None:
        pass

    def check_curve(self) -> None:
        self._refuse(
            "averages over samples and has no curve to follow: map its branches over a second"
            " control (phase with over)"
        )

    def lines(
        self,
        lines: Lines,
        settings: Settings,
        sizes: NodeSizes,
        warm: bool,
        done: Done,
    ) -> tuple[Point, np.ndarray]:
        def solve_start(x0: np.ndarray, c: np.ndarray) -> tuple[Point, int]:
            return self.solve_start(x0, c, settings)

        return lines_point_by_point(solve_start, lines, warm, done)

    def check_gradient(self, observable: str) -> None:
        known = self.model.observables
        if observable not in known:
            self._refuse(f"has no observable {observable!r}: {nearest(observable, known)}")
        if known[observable].expr.has(*RESPONSES):
            raise InputError(
                f"{observable} cannot be optimised: it contains the response of the minimiser;"
                " choose risk, training_loss or energy"
            )

    def followed(self, x: np.ndarray, settings: Settings, observable: str) -> FollowedBranch:
        return FollowedBranch(self, x, settings, observable)

    # samples -------------------------------------------------------------------------------------

    def samples(self, c: np.ndarray, level: int = FIRST_LEVEL) -> SampleMap:
        """The map on 2**level samples per set, in pieces of one shape on every level (compiled
        once).
        """
        return SampleMap(self.model, self.data(c, level), 2 ** (level - FIRST_LEVEL), c)

    def data(self, c: np.ndarray, level: int) -> Samples:
        """The samples themselves."""
        law = self.record.data
        at = dict(zip((q.symbol for q in self.model.controls), c, strict=True))
        strength, length = float(at[law.strength]), law.length
        if length in at:
            lengths = ((int(at[length]), 1.0),)
        else:
            lengths = tuple((int(n), float(p)) for n, p in length)
        return _drawn(lengths, law.rule, strength, level)

    def _at_level(self, x0: np.ndarray, c: np.ndarray, settings: Settings, level: int) -> Point:
        samples = self.samples(c, level)
        end, minima = self.fixed_point(samples, x0, settings)
        return _point(samples, end, minima)

    def _refined(self, point: Point, c: np.ndarray, settings: Settings) -> tuple[Point, int]:
        """Go to more samples until the errors meet ``settings.accuracy``."""
        level, steps = FIRST_LEVEL, int(point.steps)
        while Status.of(int(point.status)) is Status.SUCCESSFUL and level < LAST_LEVEL:
            excess = self._excess(point, settings.accuracy)
            if not excess > 1:
                break
            # Randomised quasi-Monte Carlo: the error falls somewhat faster than the square root of
            # the number of samples.
            level = min(LAST_LEVEL, level + max(1, int(np.ceil(1.5 * np.log2(excess)))))
            point = self._at_level(np.asarray(point.x), c, settings, level)
            steps += int(point.steps)
        point = point._replace(steps=np.asarray(steps))
        return self._classified(point, settings), level - FIRST_LEVEL

    def fixed_point(
        self, samples: SampleMap, x0: np.ndarray, settings: Settings
    ) -> tuple[Ended, Minima]:
        """The fixed point that ``x0`` leads to, with minima searched from several starts before and
        after.
        """
        damping, steps = max(settings.damping, DAMPING), 0
        minima = samples.search(x0, samples.unknown())
        for again in range(ROUNDS):
            end = warm_fixed_point(
                samples.image,
                samples.slope,
                x0,
                minima,
                tol=settings.tol,
                max_steps=settings.max_steps,
                damping=damping,
                inside=self._inside,
            )
            moved = self._relative(np.abs(end.x - x0), end.x)
            steps, x0 = steps + end.steps, end.x
            small = again and moved <= SETTLED * settings.accuracy
            if end.status is not Status.SUCCESSFUL or small:
                break
            minima = samples.search(x0, end.state)
            if not minima.any_changed:
                break
        return end._replace(steps=steps), minima

    def _inside(self, x: np.ndarray) -> bool:
        """Whether the overlaps are those of some weights."""
        at = dict(zip((q.name for q in self.model.overlaps), x, strict=True))
        for w in self.record.weights:
            m, q, v = at[w.teacher], at[w.norm], at[w.susceptibility]
            # q = m^2 is attained where a field does not matter; rounding may then fall below it.
            if not (v > 0 and q - m**2 >= -1e-12 * (1 + q)):
                return False
        return True

    # the verdict ---------------------------------------------------------------------------------

    def _excess(self, point: Point, accuracy: float) -> float:
        """Largest error of m, q (relative above 1) and of the risks, in units of ``accuracy``.

        The susceptibilities are not asked for it: theirs is several times larger and matters only
        through m and q.
        """
        errors = dict(zip(self.model.observables, point.error_observables, strict=True))
        asked = [self.model.with_role(role) for role in MEASURED]
        largest = [float(errors[name]) for name in asked if name is not None]
        return max(self._relative(point.error_x, point.x), *largest) / accuracy

    def _relative(self, change: Any, x: Any) -> float:
        """The largest entry of ``change`` in m and q, relative above 1."""
        overlaps = [i for i, q in enumerate(self.model.overlaps) if q.role != "susceptibility"]
        return float(np.max((change / np.maximum(1, np.abs(x)))[overlaps]))

    def _classified(self, point: Point, settings: Settings) -> Point:
        status = Status.of(int(point.status))
        if status is Status.SUCCESSFUL:
            status = self._verdict(point, settings)
        elif status is Status.NON_FINITE:
            # The map is not finite where a minimiser is not.
            first = violated(self.model, "first", measured(self.model, point))
            status = status if first is Status.SUCCESSFUL else first
        return point._replace(status=np.asarray(status.code))

    def _verdict(self, point: Point, settings: Settings) -> Status:
        at = measured(self.model, point)
        status = violated(self.model, "first", at)
        if status is not Status.SUCCESSFUL:
            return status
        asked = [self.model.with_role(role) for role in (*MEASURED, "replicon")]
        seen = [at[name][0] for name in asked if name is not None]
        if not np.all(np.isfinite([*point.x, *point.hats, point.free_energy, *seen])):
            return Status.NON_FINITE
        status = violated(self.model, "finite", at)
        if status is not Status.SUCCESSFUL:
            return status
        if not self._excess(point, settings.accuracy) <= 1:
            return Status.UNRESOLVED
        return violated(self.model, "resolved", at)

    def _note(self, point: Point, c: np.ndarray, level: int) -> str:
        """What the status sentence leaves open: in how many samples the minimisation failed."""
        name = self.model.with_role("prox_failures")
        if Status.of(int(point.status)) is not Status.PROX_FAILED or name is None:
            return ""
        share = measured(self.model, point)[name][0]
        total = self.data(c, FIRST_LEVEL + level).common.size
        return f"about {share * total:.0f} of {total} samples"


class FollowedBranch:
    """One branch on few samples, followed as controls move; its attributes are as those of
    ``FollowedPoint``.
    """

    aim: ClassVar[float] = 1e-4
    level_off: ClassVar[float] = 1e7 * float(np.finfo(float).eps)
    margin: ClassVar[float] = 1.0

    def __init__(
        self, theory: TrainedPredictor, x: np.ndarray, settings: Settings, observable: str
    ) -> None:
        self.theory, self.x, self.settings, self.observable = theory, x, settings, observable

    def to(self, c: np.ndarray, basis: np.ndarray) -> Moved:
        """The branch at controls ``c``; the gradient is along the rows of ``basis``."""
        samples = self.theory.samples(c)
        end, _ = self.theory.fixed_point(samples, self.x, self.settings)
        if end.status is not Status.SUCCESSFUL:
            return Moved(end.status, np.nan, np.full(len(basis), np.nan))
        self.x = end.x
        found = samples.observable_gradient(end.x, end.state, self.observable, basis)
        return Moved(end.status, *found)

    def gradient_at(
        self, x: np.ndarray, c: np.ndarray, level: int, basis: np.ndarray
    ) -> np.ndarray:
        """The gradient at a fixed point ``x`` found on 2**level times as many samples."""
        samples = self.theory.samples(c, FIRST_LEVEL + level)
        minima = samples.search(x, samples.unknown())
        return samples.observable_gradient(x, minima, self.observable, basis)[1]


@lru_cache(maxsize=8)
def _drawn(law: tuple[tuple[int, float], ...], rule: str, nu: float, level: int) -> Samples:
    """``SETS`` sets of about ``2**level`` samples; a fixed length is a law of one entry."""
    return random_length(law, rule, nu, level - int(np.log2(len(law))), SETS, seed=0)


def _meet(a: Point, b: Point) -> bool:
    """Whether two points on the same samples are one."""
    both = all(Status.of(int(p.status)) is Status.SUCCESSFUL for p in (a, b))
    return both and bool(np.all(np.abs(a.x - b.x) <= 1e-6 * (1 + np.abs(a.x))))


def _point(samples: SampleMap, end: Ended, minima: Minima) -> Point:
    """The solution with its errors: how it would move if each set of samples were used alone."""
    x, slope = end.x, samples.slope(end.x, end.state)
    report = samples.report(x, end.state._replace(changed=minima.changed, failed=minima.failed))
    shift = report.update - samples.update(x, report.averages.mean(axis=0))
    moved = newton_step(slope, shift.T).T
    # What the iteration left over adds to what the samples leave open.
    left = np.abs(newton_step(slope, np.full_like(x, end.residual))) + FLOOR
    return Point(
        x,
        report.mean_hats,
        report.mean_free_energy,
        report.mean_observables,
        np.asarray(end.residual),
        np.asarray(end.steps),
        np.asarray(end.status.code),
        np.asarray(radius_of(slope)),
        two_standard_errors(moved) + left,
        two_standard_errors(report.hats),
        two_standard_errors(report.free_energy),
        two_standard_errors(report.observables + moved @ report.sensitivity.T),
        np.max(two_standard_errors(moved)),
    )
