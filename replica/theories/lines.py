"""Lines of points, each warm-started along itself; one branch that is followed as controls move.

The points are solved one after the other by the programs that solve a single one, so that a sweep
after a solve compiles nothing; a batched loop would make every point wait for the slowest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple, Protocol

import jax
import numpy as np

from equations import Model
from solvers import Iteration, Status

from ..lowering.node_sets import arguments
from ..lowering.node_sizes import NodeSizes
from ..runtime.precision import double_precision
from .base import Done, Lines, Point, Settings
from .equations import CompiledEquations
from .point_programs import derivatives_of, observed


class SolvedPoints(Protocol):
    """What is needed of a theory whose points are solved by compiled programs."""

    model: Model

    def equations(self, sizes: NodeSizes) -> CompiledEquations: ...

    def node_sizes(self, *points: Mapping[str, float]) -> NodeSizes: ...

    def searched(
        self, x0: np.ndarray, c: np.ndarray, settings: Settings, sizes: NodeSizes
    ) -> tuple[CompiledEquations, Iteration]: ...

    def solve_point(
        self, x0: np.ndarray, c: np.ndarray, settings: Settings, sizes: NodeSizes
    ) -> Point: ...

    def classified(self, point: Point, settings: Settings) -> Point: ...

    def solve_start(
        self,
        x0: np.ndarray,
        c: np.ndarray,
        settings: Settings,
        sizes: NodeSizes,
        max_level: int = ...,
    ) -> tuple[Point, int]: ...


def solved_lines(
    theory: SolvedPoints,
    lines: Lines,
    settings: Settings,
    sizes: NodeSizes,
    warm: bool,
    done: Done,
    most: int,
) -> tuple[Point, np.ndarray]:
    """The points (lines, points), classified, and their levels, at most ``most``."""

    def solve(x0: np.ndarray, c: np.ndarray) -> Point:
        return theory.solve_point(x0, c, settings, sizes)

    def leads(point: Point) -> bool:  # not yet classified
        return bool(point.status == Status.SUCCESSFUL.code)

    found = _along(solve, leads, lines, warm, done)
    return _refined(theory, found, lines, settings, sizes, most)


def _along(
    solve: Callable[[np.ndarray, np.ndarray], Point],
    leads: Callable[[Point], bool],
    lines: Lines,
    warm: bool,
    done: Done,
) -> Point:
    """The points of each line one after the other; if ``warm``, the next one starts from a point
    that leads.
    """
    rows = []
    with double_precision():  # the setting is per thread
        for starts, controls in zip(*lines, strict=True):
            points: list[Point] = []
            for x0, c in zip(starts, controls, strict=True):
                follow = warm and points and leads(points[-1])
                points.append(solve(np.asarray(points[-1].x) if follow else x0, c))
                done(1)
            rows.append(jax.tree.map(lambda *p: np.stack(p), *points))
    return jax.tree.map(lambda *p: np.stack(p), *rows)


def _refined(
    theory: SolvedPoints,
    points: Point,
    lines: Lines,
    settings: Settings,
    sizes: NodeSizes,
    most: int,
) -> tuple[Point, np.ndarray]:
    """Classify every point; solve the unresolved ones again on finer node sets."""
    starts, controls = lines
    levels = np.zeros(starts.shape[:2], dtype=np.int16)
    fields = [np.array(a) for a in points]
    with double_precision():
        for at in np.ndindex(*levels.shape):
            point = theory.classified(Point(*(f[at] for f in fields)), settings)
            if Status.of(int(point.status)) is Status.UNRESOLVED and most > 0:
                begin, c, finer = starts[at], controls[at], sizes.refined()
                point, extra = theory.solve_start(begin, c, settings, finer, most - 1)
                levels[at] = extra + 1
            for f, value in zip(fields, point, strict=True):
                f[at] = value
    return Point(*fields), levels


def lines_point_by_point(
    solve_start: Callable[[np.ndarray, np.ndarray], tuple[Point, int]],
    lines: Lines,
    warm: bool,
    done: Done,
) -> tuple[Point, np.ndarray]:
    """The same for what is solved point by point on the host, classified as it comes."""
    levels = []

    def solve(x0: np.ndarray, c: np.ndarray) -> Point:
        point, level = solve_start(x0, c)
        levels.append(level)
        return point

    def leads(point: Point) -> bool:
        return Status.of(int(point.status)).is_point

    found = _along(solve, leads, lines, warm, done)
    return found, np.reshape(np.array(levels, dtype=np.int16), lines[0].shape[:2])


# one branch as controls move ----------------------------------------------------------------------


class Moved(NamedTuple):
    """A branch at other controls: how its fixed point ended, an observable and its gradient."""

    status: Status
    value: float
    gradient: np.ndarray


class FollowedPoint:
    """One branch, followed as controls move.

    Its observables are known to rounding: where the search for the smallest ends, and how far from
    it that may be, is the gradient's to say, doubled because it is of first order.
    """

    aim: ClassVar[float] = 1e-9
    """The derivative in log lam down to which the search goes."""
    level_off: ClassVar[float] = 1e-15
    """Relative descent in one step that counts as none."""
    margin: ClassVar[float] = 2.0
    """The error of the optimum, in units of its distance to first order."""

    def __init__(
        self, theory: SolvedPoints, x: np.ndarray, settings: Settings, observable: str
    ) -> None:
        self.theory, self.x, self.settings, self.observable = theory, x, settings, observable
        self.entry = list(theory.model.observables).index(observable)

    def to(self, c: np.ndarray, basis: np.ndarray) -> Moved:
        """The branch at controls ``c``; the gradient is along the rows of ``basis``."""
        sizes = self._sizes(c)
        equations, end = self.theory.searched(self.x, c, self.settings, sizes)
        status = Status.of(int(end.status))
        if status is not Status.SUCCESSFUL:
            return Moved(status, np.nan, np.full(len(basis), np.nan))
        self.x = end.x
        value = observed(equations)(c, end.x, arguments(sizes))[self.entry]
        return Moved(status, float(value), self._gradient(end.x, c, sizes, basis))

    def gradient_at(
        self, x: np.ndarray, c: np.ndarray, level: int, basis: np.ndarray
    ) -> np.ndarray:
        """The gradient at a fixed point ``x`` found on node sets refined ``level`` times."""
        sizes = self._sizes(c)
        for _ in range(level):
            sizes = sizes.refined()
        return self._gradient(x, c, sizes, basis)

    def _sizes(self, c: np.ndarray) -> NodeSizes:
        names = [q.name for q in self.theory.model.controls]
        return self.theory.node_sizes(dict(zip(names, map(float, c), strict=True)))

    def _gradient(
        self, x: np.ndarray, c: np.ndarray, sizes: NodeSizes, basis: np.ndarray
    ) -> np.ndarray:
        model = self.theory.model
        columns = np.flatnonzero(np.any(basis != 0, axis=0))
        moved = tuple(model.controls[i].name for i in columns)
        table, _ = derivatives_of(self.theory.equations(sizes), moved)(x, c, arguments(sizes))
        seen = np.asarray(table)[len(model.overlaps) + len(model.conjugates) :]
        return basis[:, columns] @ seen[self.entry]
