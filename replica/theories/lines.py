"""Lines of points, each warm-started along itself.

The points are solved one after the other by the programs that solve a single one, so that a sweep
after a solve compiles nothing; a batched loop would make every point wait for the slowest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import jax
import numpy as np

from solvers import Status

from ..lowering.node_sizes import NodeSizes
from ..runtime.precision import double_precision
from .base import Done, Lines, Point, Settings


class SolvedPoints(Protocol):
    """What is needed of a theory whose points are solved by compiled programs."""

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
    rows = []
    with double_precision():  # the setting is per thread
        for starts, controls in zip(*lines, strict=True):
            points: list[Point] = []
            for x0, c in zip(starts, controls, strict=True):
                follow = warm and points and points[-1].status == Status.SUCCESSFUL.code
                begin = np.asarray(points[-1].x) if follow else x0
                points.append(theory.solve_point(begin, c, settings, sizes))
                done(1)
            rows.append(jax.tree.map(lambda *p: np.stack(p), *points))
    found = jax.tree.map(lambda *p: np.stack(p), *rows)
    return _refined(theory, found, lines, settings, sizes, most)


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
    """The same for what is solved point by point on the host."""
    starts, controls = lines
    rows, levels = [], np.zeros(starts.shape[:2], dtype=np.int16)
    with double_precision():
        for i in range(len(starts)):
            points: list[Point] = []
            for j in range(starts.shape[1]):
                follow = warm and points and Status.of(int(points[-1].status)).is_point
                begin = np.asarray(points[-1].x) if follow else starts[i, j]
                point, levels[i, j] = solve_start(begin, controls[i, j])
                points.append(point)
                done(1)
            rows.append(jax.tree.map(lambda *p: np.stack(p), *points))
    return jax.tree.map(lambda *p: np.stack(p), *rows), levels
