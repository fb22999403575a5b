"""The columns of a sweep: lines of grid points that are solved as one piece of work, here or on
another machine.

On a CPU the points are mapped one after the other (``lax.map``): a vmapped loop would make every
point wait for the slowest. How a grid is cut into columns depends on the grid alone, so that a run
that was interrupted, or that is spread over machines, computes the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equations import Model
from solvers import Status

from ..lowering.lower import NodeSizes
from ..precision import double_precision
from ..solve import COMPILER_OPTIONS, MAX_LEVEL, classify, solve_start, start_vector
from ..theories.saddle_point import Point, Settings, point_solver

FEWEST, MOST, LINES = 32, 128, 32
"""A start's lines are cut into columns of at most ``LINES``, but into no fewer than ``FEWEST`` and
no more than ``MOST`` columns.
"""
_REFINING = Lock()
"""Finer rules are compiled by one thread, not by all that need them at once."""
Lines = tuple[np.ndarray, np.ndarray]
"""Starts (lines, points, n) and controls (lines, points, m): a line is warm-started along its
points.
"""


@dataclass(frozen=True)
class Column:
    """Lines from one start.

    Attributes
    ----------
    branch : int
        Number of the start.
    where : array (lines, points)
        Flat index of each point in the grid.
    lines : (starts, controls)
    size : int
        Lines of a full column: all columns of a sweep run the same compiled program.
    """

    branch: int
    where: np.ndarray
    lines: Lines
    size: int

    @property
    def points(self) -> int:
        return self.where.size


def columns(
    model: Model,
    axes: dict[str, np.ndarray],
    fixed: dict[str, float],
    warm: str | None,
    directions: dict[str, int],
) -> list[Column]:
    """Cut the grid into columns, the starts one after the other."""
    result = []
    for branch, (name, start) in enumerate(model.starts.items()):
        where, starts, controls = _arranged(
            model, axes, fixed, start, warm, directions.get(name, 1)
        )
        count = len(where)
        size = (
            -(-count // min(max(count // LINES, FEWEST), MOST)) if model.path == "compiled" else 1
        )
        pieces = (slice(i, i + size) for i in range(0, count, size))
        result += [Column(branch, where[p], (starts[p], controls[p]), size) for p in pieces]
    return result


def _arranged(
    model: Model,
    axes: dict[str, np.ndarray],
    fixed: dict[str, float],
    start: Any,
    warm: str | None,
    direction: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The grid as lines along the control ``warm`` (as single points without): flat indices, starts
    and controls.
    """
    order = [n for n in axes if n != warm] + ([warm] if warm else [])
    along = {
        n: np.argsort(axes[n], kind="stable")[::direction] if n == warm else np.arange(len(axes[n]))
        for n in order
    }
    mesh = dict(zip(order, np.meshgrid(*along.values(), indexing="ij"), strict=True))
    where = np.ravel_multi_index([mesh[n].ravel() for n in axes], [len(a) for a in axes.values()])
    values = {n: axes[n][mesh[n].ravel()] for n in axes}
    rows = [{**fixed, **{n: float(v[i]) for n, v in values.items()}} for i in range(where.size)]
    controls = np.array([[row[q.name] for q in model.controls] for row in rows])
    starts = np.array([start_vector(model, start, row) for row in rows])
    length = len(axes[warm]) if warm else 1
    count = where.size // length  # not -1: a model may have no unknowns, and starts no entries
    return (
        where.reshape(count, length),
        starts.reshape(count, length, -1 if starts.size else 0),
        controls.reshape(count, length, -1),
    )


def solve_column(
    model: Model,
    column: Column,
    done: Callable[[int], None],
    *,
    settings: Settings,
    sizes: NodeSizes,
    warm: bool,
) -> tuple[Point, np.ndarray]:
    """The points (lines, points) of a column, judged, and their levels; ``done`` hears how many
    points were finished.
    """
    if model.path != "compiled":
        return _settled_lines(model, column.lines, settings, sizes, warm, done)
    rows = np.minimum(
        np.arange(column.size), len(column.where) - 1
    )  # a short column repeats its last line
    starts, controls = (a[rows] for a in column.lines)
    with double_precision():  # the setting is per thread
        solved = _line_solver(model, sizes, settings, warm)(
            jnp.asarray(starts), jnp.asarray(controls)
        )
    points = jax.tree.map(lambda a: np.asarray(a)[: len(column.where)], solved)
    with _REFINING:
        result = _refined(model, points, column.lines, settings, sizes)
    done(column.points)
    return result


@cache
def _line_solver(model: Model, sizes: NodeSizes, settings: Settings, warm: bool) -> Any:
    """Jitted: lines (starts, controls) -> Points, lines one after the other."""
    solve = point_solver(model, sizes, settings)

    def line(start_and_controls: tuple[jax.Array, jax.Array]) -> Point:
        starts, controls = start_and_controls

        def step(
            carry: tuple[jax.Array, jax.Array], item: tuple[jax.Array, jax.Array]
        ) -> tuple[tuple[jax.Array, jax.Array], Point]:
            previous, good = carry
            x0, c = item
            point = solve(jnp.where(good, previous, x0), c)
            return (point.x, jnp.asarray(warm) & (point.status == Status.SUCCESSFUL.code)), point

        return jax.lax.scan(step, (starts[0], jnp.asarray(False)), (starts, controls))[1]

    return jax.jit(
        lambda starts, controls: jax.lax.map(line, (starts, controls)),
        compiler_options=COMPILER_OPTIONS,
    )


def _settled_lines(
    model: Model,
    lines: Lines,
    settings: Settings,
    sizes: NodeSizes,
    warm: bool,
    done: Callable[[int], None],
) -> tuple[Point, np.ndarray]:
    """The same for a model that is solved point by point on the host."""
    starts, controls = lines
    rows, levels = [], np.zeros(starts.shape[:2], dtype=np.int16)
    with double_precision():
        for i in range(len(starts)):
            points: list[Point] = []
            for j in range(starts.shape[1]):
                follow = warm and points and Status.of(int(points[-1].status)).is_point
                point, levels[i, j] = solve_start(
                    model, points[-1].x if follow else starts[i, j], controls[i, j], settings, sizes
                )
                points.append(point)
                done(1)
            rows.append(jax.tree.map(lambda *p: np.stack(p), *points))
    return jax.tree.map(lambda *p: np.stack(p), *rows), levels


def _refined(
    model: Model, points: Point, lines: Lines, settings: Settings, sizes: NodeSizes
) -> tuple[Point, np.ndarray]:
    """Judge every point; solve the unresolved ones again with finer rules."""
    starts, controls = lines
    levels = np.zeros(starts.shape[:2], dtype=np.int16)
    fields = [np.array(a) for a in points]
    with double_precision():
        for at in np.ndindex(*levels.shape):
            point = classify(model, Point(*(f[at] for f in fields)), settings)
            if Status.of(int(point.status)) is Status.UNRESOLVED and MAX_LEVEL > 0:
                point, extra = solve_start(
                    model, starts[at], controls[at], settings, sizes.refined(), MAX_LEVEL - 1
                )
                levels[at] = extra + 1
            for f, value in zip(fields, point, strict=True):
                f[at] = value
    return Point(*fields), levels
