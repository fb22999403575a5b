"""Results as labelled arrays: a grid that is filled column by column, and single solutions."""

from __future__ import annotations

import datetime
import hashlib
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from equations import Model
from solvers import Status

from ..files.store import versions
from ..lowering.node_sizes import NodeSizes
from ..solution import Solution
from ..theories import Point, Settings
from .columns import SweepColumn


class _Variable(NamedTuple):
    """A variable of the dataset: an entry of a field of ``Point``."""

    name: str
    dtype: Any
    attrs: dict[str, Any]
    field: str
    entry: int | None = None

    def values(self, point: Point, levels: np.ndarray) -> np.ndarray:
        """Its values in a solved column."""
        values = levels if self.field == "level" else getattr(point, self.field)
        return values if self.entry is None else values[..., self.entry]


def _variables(model: Model) -> list[_Variable]:
    result = []
    for quantities, field in ((model.overlaps, "x"), (model.conjugates, "hats")):
        for i, q in enumerate(quantities):
            label = {"latex": q.label, "long_name": q.meaning, "units": "1", "scaling": q.scaling}
            result += _with_error(q.name, label, field, i)
    label = {"latex": r"\Phi", "long_name": "free energy per dimension", "units": "1"}
    result += _with_error("free_energy", label, "free_energy")
    for i, (name, observable) in enumerate(model.observables.items()):
        label = {"latex": observable.latex, "units": observable.units}
        result += _with_error(name, label, "observables", i)
    meanings = {"long_name": "how the solve ended", "flag_meanings": [s.value for s in Status]}
    residual = {"long_name": "undamped residual max|F(x) - x|"}
    steps = {"long_name": "evaluations of the map"}
    radius = {"long_name": "spectral radius of dF/dx"}
    level = {"long_name": "refinements of the node sets"}
    return [
        *result,
        _Variable("status", np.int16, meanings, "status"),
        _Variable("residual", float, residual, "residual"),
        _Variable("steps", np.int64, steps, "steps"),
        _Variable("spectral_radius", float, radius, "radius"),
        _Variable("level", np.int16, level, "level"),
    ]


def _with_error(
    name: str, label: dict[str, Any], field: str, entry: int | None = None
) -> list[_Variable]:
    """A number and its error estimate."""
    attrs = {key: value for key, value in label.items() if value not in (None, "")}
    about_error = {"long_name": f"error estimate of {name}", "units": label["units"]}
    return [
        _Variable(name, float, attrs, field, entry),
        _Variable(f"error_{name}", float, about_error, f"error_{field}", entry),
    ]


def blank(
    model: Model,
    axes: dict[str, np.ndarray],
    fixed: dict[str, float],
    settings: Settings,
    sizes: NodeSizes,
    **attrs: Any,
) -> xr.Dataset:
    """The dataset of a sweep of which no column is computed: NaN, and the status that says so."""
    dims, shape = [*axes, "branch"], [*map(len, axes.values()), len(model.starts)]
    empty = {"status": Status.NOT_COMPUTED.code, "steps": 0, "level": 0}
    variables = {
        v.name: (dims, np.full(shape, empty.get(v.name, np.nan), v.dtype), v.attrs)
        for v in _variables(model)
    }
    quantities = {q.name: q for q in model.controls}
    coords: dict[str, Any] = {}
    for name, values in axes.items():
        q = quantities[name]
        label = {"latex": q.label, "long_name": q.meaning, "units": "1"}
        coords[name] = (name, values, label)
    coords["branch"] = ("branch", list(model.starts))
    given = metadata(model, fixed, sizes) | {"settings": dict(vars(settings))}
    return xr.Dataset(variables, coords, given | attrs)


class GridTable:
    """The arrays of a sweep's dataset, looked up once: a column of points is put in its places."""

    def __init__(self, dataset: xr.Dataset, model: Model) -> None:
        self._arrays = [(v, dataset[v.name].values) for v in _variables(model)]
        self._status = dataset["status"].values

    def fill(self, column: SweepColumn, solved: tuple[Point, np.ndarray]) -> None:
        """Take the points of a column."""
        where = self._where(column)
        for variable, array in self._arrays:
            array[where] = variable.values(*solved)

    def statuses(self, column: SweepColumn) -> np.ndarray:
        """The status codes of a column's points."""
        return self._status[self._where(column)]

    def _where(self, column: SweepColumn) -> tuple[Any, ...]:
        return (*np.unravel_index(column.where, self._status.shape[:-1]), column.branch)


def waiting(status: np.ndarray) -> np.ndarray:
    """Which points are not computed yet."""
    return status == Status.NOT_COMPUTED.code


def failures(status: np.ndarray) -> int:
    """How many points were computed and are none (a warning about the theory is no failure)."""
    return int((~np.isin(status, Status.point_codes()) & ~waiting(status)).sum())


def metadata(
    model: Model, fixed: dict[str, float], sizes: NodeSizes | None = None
) -> dict[str, Any]:
    """What a file says about where its numbers come from."""
    terms = (model.prior, model.coupling, model.channel, *model.expressions.values())
    source = {}
    if model.source is not None:
        source = {"source_file": model.source.file, "source_sha256": model.source.sha256}
    starts = {}
    for name, start in model.starts.items():
        starts[name] = {overlap: str(value) for overlap, value in start.items()}
    return source | {
        "model": model.name,
        "title": model.title,
        "options": dict(model.options),
        "controls": fixed,
        "best": model.best,
        "nodes": None if sizes is None else sizes.attributes(),
        # Two models of one name with other equations are told apart by this.
        "equations": hashlib.sha256("\n".join(map(str, terms)).encode()).hexdigest()[:16],
        "sources": list(model.sources),
        "starts": starts,
        "versions": versions(),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def to_dataset(solution: Solution) -> xr.Dataset:
    """A single solution as a dataset with the one dimension ``branch``, to be stored.

    Parameters
    ----------
    solution : Solution
        What ``solve`` returns.

    Returns
    -------
    xarray.Dataset
        Overlaps, conjugates, observables, free energy, their errors, status, residual; settings and
        versions as attributes.
    """
    branches = solution.branches
    found = [{**b.overlaps, **b.conjugates, **b.observables} for b in branches]
    names = sorted(set().union(*found))
    variables: dict[str, Any] = {}
    for name in names:
        variables[name] = ("branch", [numbers[name] for numbers in found])
    for name in sorted([*names, "free_energy"]):
        variables[f"error_{name}"] = ("branch", [b.error[name] for b in branches])
    variables["free_energy"] = ("branch", [b.free_energy for b in branches])
    codes = np.array([b.status.code for b in branches], dtype=np.int16)
    variables["status"] = ("branch", codes, {"flag_meanings": [s.value for s in Status]})
    for name in ("residual", "steps", "spectral_radius", "level"):
        variables[name] = ("branch", [getattr(b, name) for b in branches])
    attrs = metadata(solution.model, solution.controls) | {
        "settings": dict(vars(solution.settings))
    }
    return xr.Dataset(variables, {"branch": [b.start for b in branches]}, attrs)
