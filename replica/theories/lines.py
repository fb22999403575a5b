"""Lines of points: each warm-started along itself, many in one compiled program or point by point.

On a CPU the points are mapped one after the other: in a batch every point would wait for the
slowest. On other devices they are a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from solvers import Status

from ..lowering.node_sizes import NodeSizes
from ..runtime.precision import double_precision, mapped
from .base import Done, Lines, Point, Settings
from .equations import COMPILER_OPTIONS

_REFINING = Lock()
"""Finer node sets are compiled by one thread, not by all that need them at once."""


class CompiledPoints(Protocol):
    """What is needed of a theory whose points are compiled."""

    def point_solver(
        self, sizes: NodeSizes, settings: Settings
    ) -> Callable[[jax.Array, jax.Array], Point]: ...

    def classified(self, point: Point, settings: Settings) -> Point: ...

    def solve_start(
        self,
        x0: np.ndarray,
        c: np.ndarray,
        settings: Settings,
        sizes: NodeSizes,
        max_level: int = ...,
    ) -> tuple[Point, int]: ...


def compiled_lines(
    theory: CompiledPoints,
    lines: Lines,
    width: int,
    settings: Settings,
    sizes: NodeSizes,
    warm: bool,
    done: Done,
    most: int,
) -> tuple[Point, np.ndarray]:
    """The points (lines, points), classified, and their levels, at most ``most``; all calls of one
    ``width`` run the same program.
    """
    count = len(lines[0])
    rows = np.minimum(np.arange(width), count - 1)  # a short column repeats its last line
    starts, controls = (a[rows] for a in lines)
    with double_precision():  # the setting is per thread
        solver = _line_solver(theory, sizes, settings, warm)
        found = solver(jnp.asarray(starts), jnp.asarray(controls))
    points = jax.tree.map(lambda a: np.asarray(a)[:count], found)
    with _REFINING:
        result = _refined(theory, points, lines, settings, sizes, most)
    done(lines[0].shape[0] * lines[0].shape[1])
    return result


@cache
def _line_solver(theory: CompiledPoints, sizes: NodeSizes, settings: Settings, warm: bool) -> Any:
    """Jitted: lines (starts, controls) -> Points, lines one after the other."""
    solve = theory.point_solver(sizes, settings)

    def line(start_and_controls: tuple[jax.Array, jax.Array]) -> Point:
        starts, controls = start_and_controls

        def step(
            carry: tuple[jax.Array, jax.Array], item: tuple[jax.Array, jax.Array]
        ) -> tuple[tuple[jax.Array, jax.Array], Point]:
            previous, good = carry
            x0, c = item
            point = solve(jnp.where(good, previous, x0), c)
            follow = jnp.asarray(warm) & (point.status == Status.SUCCESSFUL.code)
            return (point.x, follow), point

        return jax.lax.scan(step, (starts[0], jnp.asarray(False)), (starts, controls))[1]

    return jax.jit(
        lambda starts, controls: mapped(line, (starts, controls)),
        compiler_options=COMPILER_OPTIONS,
    )


def _refined(
    theory: CompiledPoints,
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
