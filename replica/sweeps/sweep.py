"""Curves and maps: every branch over a grid of controls, inside one compiled program.

The grid is cut into columns, which are solved by threads or by workers and may be stored as
they come. A warm start follows one axis in the direction in which the branch it starts from cannot
be left (uninformed: towards more information), so it changes no result.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from equations import Model, Quantity
from equations.numerals import real, shown, whole

from ..errors import InputError
from ..files.writer import Name
from ..inputs import assignments, nearest
from ..jobs.options import JobOptions
from ..jobs.run import Batch, Job, run_job
from ..lowering.node_sizes import NodeSizes
from ..models import control_of, resolve
from ..models.values import number
from ..solve import check, completed
from ..theories import Settings, theory_of
from .columns import SweepColumn, columns, solve_column
from .dataset import GridTable, blank, failures, waiting

MOST_POINTS = 1_000_000
"""Of one axis."""


def grid(quantity: Quantity, text: str, option: str | None = None) -> np.ndarray:
    """Read ``start:stop:num[:log]`` as an array of values of ``quantity``."""
    parts = text.split(":")
    try:
        start, stop, num = real(parts[0]), real(parts[1]), whole(parts[2])
        spacing = parts[3] if len(parts) == 4 else "linear"
        if len(parts) > 4 or spacing not in ("linear", "log") or not 1 <= num <= MOST_POINTS:
            raise ValueError
    except (ValueError, IndexError):
        option = option or f"--over {quantity.name}="
        name = option.rpartition(" ")[2] if option.endswith("=") else ""
        raise InputError(
            f"cannot read {option}{shown(text)}: write {name}start:stop:num or start:stop:num:log"
            f" (num up to {MOST_POINTS})"
        ) from None
    for end in (start, stop):
        number(quantity, end)
    if spacing == "log" and not (start > 0 and stop > 0):
        raise InputError(f"a logarithmic grid of {quantity.name} needs positive ends")
    return np.geomspace(start, stop, num) if spacing == "log" else np.linspace(start, stop, num)


def read_over(model: Model, pairs: Sequence[str]) -> dict[str, np.ndarray]:
    """The ``--over name=start:stop:num[:log]`` options as grids."""
    given = assignments(pairs, "--over")
    return {name: grid(control_of(model, name), text) for name, text in given.items()}


def sweep(
    model: str | Model,
    *,
    over: Mapping[str, Any],
    settings: Settings | None = None,
    warm: str | None = None,
    nodes: NodeSizes | None = None,
    progress: bool | None = None,
    file: Name | None = None,
    resume: bool = False,
    force: bool = False,
    dask: Any = None,
    jobs: int | None = None,
    **controls: Any,
) -> xr.Dataset:
    """Solve a model over a grid of one or more controls.

    Parameters
    ----------
    model : str or Model
    over : dict of control -> values
        The grid is their outer product.
    settings, nodes : optional
        As in ``solve``.
    warm : str, optional
        Control along which each branch starts from its neighbour's solution. The uninformed branch
        is followed towards more information and the informed one towards less, whatever the order
        given.
    progress : bool, optional
        Show a bar; by default when the error stream is a terminal.
    file : path, optional
        Stored there as it goes: whenever some points are finished, the file is replaced by one that
        has them. It can be read at any time; points to come are NaN and have the status "not
        computed yet".
    resume : bool
        Continue ``file`` if it is there (the result is the same, bit for bit); settings that differ
        are refused.
    force : bool
        Replace ``file`` if it is there.
    dask : str or distributed.Client, optional
        Compute on dask workers instead of this process's threads; a scheduler's address or its
        ``.json`` file.
    jobs : int, optional
        Cores of this machine to use; all by default. The result is the same, bit for bit.
    **controls
        The controls that are fixed, and the model's options.

    Returns
    -------
    xarray.Dataset
        Dims: the swept controls and ``branch`` (the starts). Variables: overlaps, conjugates,
        free_energy, observables, status (codes; attribute ``flag_meanings``), residual, steps,
        spectral_radius, level and error_<name>. A failed point keeps its status and its last
        iterate.
    """
    options = JobOptions(file, resume, force, dask, progress, jobs=jobs)
    return swept(model, over, controls, settings or Settings(), warm, nodes, options)


def swept(
    model: str | Model,
    over: Mapping[str, Any],
    controls: Mapping[str, Any],
    settings: Settings,
    warm: str | None,
    nodes: NodeSizes | None,
    options: JobOptions,
) -> xr.Dataset:
    """What ``sweep`` does."""
    grid = prepared(model, over, controls, settings, warm, nodes)
    return run_job(GridJob(grid.model.name, grid.blank(), grid.batch), options)


@dataclass(frozen=True)
class Grid:
    """A sweep that is ready to run: its columns, and what they are solved with."""

    model: Model
    name: str | None
    axes: dict[str, np.ndarray]
    fixed: dict[str, float]
    settings: Settings
    sizes: NodeSizes
    warm: str | None
    directions: dict[str, int]
    columns: list[SweepColumn]

    def blank(self) -> xr.Dataset:
        """The dataset of which nothing is computed."""
        return blank(
            self.model,
            self.axes,
            self.fixed,
            self.settings,
            self.sizes,
            warm=self.warm,
            directions=self.directions,
        )

    def batch(self, table: xr.Dataset) -> Batch:
        """The columns, of which those are pending that ``table`` does not have."""
        rows = GridTable(table, self.model)

        def put(i: int, solved: Any) -> int:
            rows.fill(self.columns[i], solved)
            return failures(rows.statuses(self.columns[i]))

        return Batch(
            solve=partial(
                solve_column, settings=self.settings, sizes=self.sizes, warm=self.warm is not None
            ),
            model=self.model,
            name=self.name,
            pieces=self.columns,
            pending=[i for i, c in enumerate(self.columns) if waiting(rows.statuses(c)).any()],
            put=put,
            failed=failures(table["status"].values),
            cores=theory_of(self.model).cores_of_a_point,
        )


class GridJob(Job):
    """A table over a grid of controls and ``branch``, which is filled in place; ``batch`` says how,
    given the table.
    """

    def __init__(self, title: str, blank: xr.Dataset, batch: Callable[[xr.Dataset], Batch]) -> None:
        self.title = title
        self.grids = tuple(map(str, blank["status"].dims))
        self._table, self._batch = blank, batch

    @property
    def complete(self) -> bool:
        """Whether every point was computed."""
        return not waiting(self._table["status"].values).any()

    def dataset(self) -> xr.Dataset:
        """The table itself: what comes later is written to it."""
        return self._table

    def take(self, stored: xr.Dataset) -> None:
        """Fill the table of a file."""
        self._table = stored

    def batches(self) -> list[Batch]:
        """The one batch that fills the table."""
        return [self._batch(self._table)]


def prepared(
    model: str | Model,
    over: Mapping[str, Any],
    controls: Mapping[str, Any],
    settings: Settings,
    warm: str | None = None,
    nodes: NodeSizes | None = None,
) -> Grid:
    """The checked grid of a sweep."""
    check(settings)
    if settings.route != "exact":
        raise InputError("a sweep uses the exact route; use solve for the sampled one")
    built, fixed = resolve(model, controls, partial=over)
    theory = theory_of(built)
    theory.check_sweep()
    settings = completed(settings, built)
    axes = axes_of(built, over, controls)
    directions = {}
    if warm is not None:
        directions = {start: _direction(built, warm, start) for start in built.starts}
        if warm not in axes:
            raise InputError(f"warm = {warm!r} is not swept: {nearest(warm, axes)}")
    return Grid(
        model=built,
        name=model if isinstance(model, str) else None,
        axes=axes,
        fixed=fixed,
        settings=settings,
        sizes=nodes or theory.node_sizes(*_corners(axes, fixed)),
        warm=warm,
        directions=directions,
        columns=columns(built, axes, fixed, warm, directions),
    )


def axes_of(
    model: Model, over: Mapping[str, Any], controls: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """The grids of the swept controls, checked."""
    axes = {name: _axis(model, name, values) for name, values in over.items()}
    for name in axes:
        if name in controls:
            raise InputError(f"{name} is both swept and fixed: give it once")
    if not axes:
        raise InputError("a sweep needs at least one control in over")
    return axes


def _corners(axes: dict[str, np.ndarray], fixed: dict[str, float]) -> list[dict[str, float]]:
    """The extreme points of the grid: node sets are sized for the most demanding of them."""
    ends = [(float(values.min()), float(values.max())) for values in axes.values()]
    return [
        {**fixed, **dict(zip(axes, corner, strict=True))} for corner in itertools.product(*ends)
    ]


def _axis(model: Model, name: str, values: Any) -> np.ndarray:
    quantity = control_of(model, name)
    result = np.atleast_1d(np.asarray(values, dtype=float))
    if result.size == 0:
        raise InputError(f"the grid of {name} is empty: give at least one value")
    for value in result:
        number(quantity, value)
    return result


def _direction(model: Model, warm: str, start: str) -> int:
    """+1: along growing values of the control, -1: along falling ones."""
    information = control_of(model, warm).information
    if information == 0 or start not in ("uninformed", "informed"):
        raise InputError(
            f"a warm start along {warm} could change the {start} branch: leave warm out"
        )
    return information if start == "uninformed" else -information
