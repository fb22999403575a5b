"""The columns of a sweep: lines of grid points that are solved as one piece of work, here or on
another machine.

How a grid is cut into columns depends on the grid alone, so that a run
that was interrupted, or that is spread over machines, computes the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from equations import Model

from ..lowering.node_sizes import NodeSizes
from ..theories import theory_of
from ..theories.base import Lines, Point, Settings

FEWEST, MOST, LINES = 32, 128, 32
"""A start's lines are cut into columns of at most ``LINES``, but into no fewer than ``FEWEST`` and
no more than ``MOST`` columns.
"""


@dataclass(frozen=True)
class SweepColumn:
    """Lines from one start.

    Attributes
    ----------
    branch : int
        Number of the start.
    where : array (lines, points)
        Flat index of each point in the grid.
    lines : (starts, controls)
    """

    branch: int
    where: np.ndarray
    lines: Lines

    @property
    def points(self) -> int:
        return self.where.size


def columns(
    model: Model,
    axes: dict[str, np.ndarray],
    fixed: dict[str, float],
    warm: str | None,
    directions: dict[str, int],
) -> list[SweepColumn]:
    """Cut the grid into columns, the starts one after the other."""
    result, theory = [], theory_of(model)
    for branch, (name, start) in enumerate(model.starts.items()):
        where, starts, controls = _arranged(
            model, axes, fixed, start, warm, directions.get(name, 1)
        )
        count = len(where)
        most = min(max(count // LINES, FEWEST), MOST)
        size = -(-count // most) if theory.batched else 1
        pieces = (slice(i, i + size) for i in range(0, count, size))
        result += [SweepColumn(branch, where[p], (starts[p], controls[p])) for p in pieces]
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
    theory = theory_of(model)
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
    starts = np.array([theory.start_vector(start, row) for row in rows])
    length = len(axes[warm]) if warm else 1
    count = where.size // length  # not -1: a model may have no unknowns, and starts no entries
    return (
        where.reshape(count, length),
        starts.reshape(count, length, -1 if starts.size else 0),
        controls.reshape(count, length, -1),
    )


def solve_column(
    model: Model,
    column: SweepColumn,
    done: Callable[[int], None],
    *,
    settings: Settings,
    sizes: NodeSizes,
    warm: bool,
) -> tuple[Point, np.ndarray]:
    """The points (lines, points) of a column, judged, and their levels; ``done`` hears how many
    points were finished.
    """
    theory = theory_of(model)
    return theory.lines(column.lines, settings, sizes, warm, done)
