"""Phase diagrams: the thresholds along one control as lines over a second one, and where the hard
phase closes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from equations import Model

from ...errors import InputError, SolveError
from ...files.writer import Name
from ...jobs.options import JobOptions
from ...jobs.run import Batch, Job, SinglePoint, run_job
from ...lowering.lower import NodeSizes
from ...models import control_of
from ...models.values import number
from ...sweeps.dataset import metadata
from ...theories import theory_of
from ..thresholds import ACCURACY, checked, search, span
from .branch_map import branch_map, default_grid
from .cusp import closings
from .diagram_table import Found, Plane, columns_of, table
from .risk_map import profile


def phase_diagram(
    model: str | Model,
    control: str = "alpha",
    *,
    over: Mapping[str, Any],
    within: tuple[float, float] | None = None,
    accuracy: float | None = None,
    nodes: NodeSizes | None = None,
    tricritical: bool = True,
    grid: Any = None,
    progress: bool | None = None,
    file: Name | None = None,
    resume: bool = False,
    force: bool = False,
    dask: Any = None,
    jobs: int | None = None,
    **controls: Any,
) -> xr.Dataset:
    """Threshold lines along ``control`` over a second control; for a model that averages over
    samples, a map of its branches.

    Parameters
    ----------
    model, control, within, accuracy, nodes : optional but for the model
        As in ``thresholds``. In a map of branches, ``accuracy`` is that of ``Settings``.
    over : dict with one control -> values
        One column each; columns are independent.
    tricritical : bool
        Also find where the hard phase closes, between the columns where it does.
    grid : values, optional
        Of the control, for a map of branches (such as that of slr-erm), which is solved point by
        point; by default 16 of them ``within`` 0.5..8. Other models need none.
    progress, file, resume, force, dask, jobs : optional
        As in ``sweep``: a bar; stored whenever a column is finished, continued, replaced; computed
        by dask workers, or on so many cores of this machine.
    **controls
        The other controls and the model's options.

    Returns
    -------
    xarray.Dataset
        Lines alpha_inf, alpha_IT, alpha_alg (NaN where there is none) and their errors over the
        second control, ``transition`` (codes; "failed" columns say why in the attribute
        ``failures``), ``level``, and over both controls the map ``region``, ``algorithmic_risk``
        and ``best_risk`` with their errors, interpolated on the curves of fixed points, which are
        stored too (``curve_control``, ``curve_risk``, ``curve_role``). Attribute ``tricritical``:
        points where the hard phase closes, with errors.

        A map of branches has, for each pair of values, ``branches`` (how many), ``rs`` (whether
        replica symmetry is stable), ``best_risk``, ``best_replicon``, ``best_status`` and, for
        softmax, ``softmax_gain`` (how much lower the risk is than that of linear attention), with
        errors, and all that the sweeps behind it have.
    """
    options = JobOptions(file, resume, force, dask, progress, jobs=jobs)
    return diagram(
        model, control, over, controls, within, accuracy, nodes, tricritical, options, grid
    )


def diagram(
    model: str | Model,
    control: str,
    over: Mapping[str, Any],
    controls: Mapping[str, Any],
    within: tuple[float, float] | None,
    accuracy: float | None,
    nodes: NodeSizes | None,
    tricritical: bool,
    options: JobOptions,
    grid: Any = None,
) -> xr.Dataset:
    """What ``phase_diagram`` does."""
    second, values = _second(over)
    built, fixed = checked(model, control, dict(controls), tuple(over))
    if second == control or second in controls:
        raise InputError(f"{second} is given twice: choose another control for over")
    quantity = next((q for q in built.controls if q.name == second), None)
    if quantity is None:
        raise InputError(f"{built.name} has no control {second!r}")
    columns = [number(quantity, v) for v in values]
    asked = Asked(
        model, control, second, columns, controls, within, accuracy, nodes, tricritical, grid
    )
    return DIAGRAMS[theory_of(built).diagram](asked, built, fixed, options)


@dataclass(frozen=True)
class Asked:
    """What a diagram is to be: the arguments of ``phase_diagram``, its second control apart."""

    model: str | Model
    control: str
    second: str
    columns: list[float]
    controls: Mapping[str, Any]
    within: tuple[float, float] | None
    accuracy: float | None
    nodes: NodeSizes | None
    tricritical: bool
    grid: Any


def _lines(asked: Asked, built: Model, fixed: dict[str, float], options: JobOptions) -> xr.Dataset:
    """The thresholds along the control, column by column."""
    if asked.grid is not None:
        raise InputError(
            f"{built.name} is followed along {asked.control} and needs no grid: leave it out, or"
            " say within which range to search"
        )
    within = span(built, asked.control, asked.within)
    job = DiagramJob(
        Plane(built, asked.control, asked.second, asked.columns, within),
        name=asked.model if isinstance(asked.model, str) else None,
        fixed=fixed,
        accuracy=ACCURACY if asked.accuracy is None else asked.accuracy,
        nodes=asked.nodes,
        tricritical=asked.tricritical,
    )
    return run_job(job, options)


def _map(asked: Asked, built: Model, fixed: dict[str, float], options: JobOptions) -> xr.Dataset:
    """The branches at every point of a grid."""
    if asked.grid is not None and asked.within is not None:
        raise InputError("within and grid both say where: give one of them")
    points = default_grid(asked.within) if asked.grid is None else asked.grid
    over = {asked.second: asked.columns}
    return branch_map(
        asked.model, asked.control, points, over, asked.controls, asked.accuracy, options
    )


DIAGRAMS = {"lines": _lines, "map": _map}
"""How each kind of diagram is made; a theory names the one that its models have."""


class DiagramJob(Job):
    """The columns of a diagram, each one value of the second control, and where the hard phase
    closes between them.
    """

    def __init__(
        self,
        plane: Plane,
        *,
        name: str | None,
        fixed: dict[str, float],
        accuracy: float,
        nodes: NodeSizes | None,
        tricritical: bool,
    ) -> None:
        self.title, self.grids = plane.model.name, (plane.second,)
        self._plane, self._name, self._fixed = plane, name, fixed
        self._accuracy, self._nodes, self._tricritical = accuracy, nodes, tricritical
        self._origin = metadata(plane.model, fixed, nodes) | {
            "accuracy": accuracy,
            "search_tricritical": tricritical,
        }
        self._columns: list[Found | str | None] = [None] * len(plane.columns)
        self._closings: list[dict[str, float]] | None = None

    @property
    def complete(self) -> bool:
        """Whether also the places where the hard phase closes were searched."""
        return self._closings is not None

    def dataset(self) -> xr.Dataset:
        """The lines, and the map between them."""
        return table(self._plane, self._columns, self._closings or [], self._origin)

    def take(self, stored: xr.Dataset) -> None:
        """Continue with the columns of a file."""
        self._columns = columns_of(stored, self._plane)

    def outcomes(self, stored: xr.Dataset) -> Collection[str]:
        """Why columns failed, and where the hard phase closes."""
        return ("failures", "tricritical")

    def batches(self) -> list[Batch]:
        """One piece a column."""
        plane = self._plane

        def put(i: int, result: Found | str) -> int:
            self._columns[i] = result
            return isinstance(result, str)

        batch = Batch(
            solve=partial(
                solve_column,
                control=plane.control,
                within=plane.within,
                accuracy=self._accuracy,
                nodes=self._nodes,
            ),
            model=plane.model,
            name=self._name,
            pieces=[SinglePoint({**self._fixed, plane.second: v}) for v in plane.columns],
            pending=[i for i, column in enumerate(self._columns) if column is None],
            put=put,
            failed=sum(isinstance(column, str) for column in self._columns),
        )
        return [batch]

    def conclude(self) -> bool:
        """Find where the hard phase closes: between columns, so after all of them."""
        plane, kinds = self._plane, []
        for column in self._columns:
            kinds.append(column.thresholds.transition if isinstance(column, Found) else None)
        second = control_of(plane.model, plane.second)
        self._closings = []
        # Between two integers there is nothing to follow.
        if self._tricritical and not second.integer:
            self._closings = closings(plane, kinds, self._fixed, self._accuracy, self._nodes)
        return True


def solve_column(
    model: Model,
    column: SinglePoint,
    done: Callable[[int], None],
    *,
    control: str,
    within: tuple[float, float],
    accuracy: float,
    nodes: NodeSizes | None,
) -> Found | str:
    """The thresholds of a column and the curve they were read off, or why there are none."""
    try:
        found = search(model, control, within, accuracy, nodes, column.controls)
        return Found(found.thresholds, profile(found))
    except SolveError as error:
        return str(error)
    finally:
        done(1)


def _second(over: Mapping[str, Any]) -> tuple[str, np.ndarray]:
    if len(over) != 1:
        raise InputError(f"a phase diagram needs one second control in over, not {len(over)}")
    ((name, values),) = over.items()
    try:
        values = np.atleast_1d(np.asarray(values, dtype=float))
    except (TypeError, ValueError):
        raise InputError(f"the values of {name} are not numbers") from None
    if values.size == 0 or len(set(values.tolist())) < values.size:
        raise InputError(f"the values of {name} must be given, each once")
    return name, values
