"""Results as labelled arrays: a grid that is filled column by column, and single solutions."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from equations import Model
from solvers import Status

from ..files.store import versions
from ..lowering.node_sizes import NodeSizes
from ..solution import Solution
from ..theories.saddle_point import Point, Settings
from .columns import Column


class _Variable(NamedTuple):
    """A variable of the dataset, and its values in a solved column."""

    name: str
    dtype: Any
    attrs: dict[str, Any]
    pick: Callable[[Point, np.ndarray], np.ndarray]


def _variables(model: Model) -> Iterator[_Variable]:
    def number(name: str, pick: Callable[[Point], np.ndarray], **attrs: Any) -> _Variable:
        return _Variable(
            name,
            float,
            {k: v for k, v in attrs.items() if v not in (None, "")},
            lambda point, _: pick(point),
        )

    for quantities, field in ((model.overlaps, "x"), (model.conjugates, "hats")):
        for i, q in enumerate(quantities):
            label = {"latex": q.label, "long_name": q.meaning, "units": "1", "scaling": q.scaling}
            yield number(q.name, lambda p, f=field, i=i: getattr(p, f)[..., i], **label)
            error = {"long_name": f"error estimate of {q.name}", "units": "1"}
            yield number(
                f"error_{q.name}", lambda p, f=field, i=i: getattr(p, f"error_{f}")[..., i], **error
            )
    yield number(
        "free_energy",
        lambda p: p.free_energy,
        latex=r"\Phi",
        long_name="free energy per dimension",
        units="1",
    )
    yield number(
        "error_free_energy",
        lambda p: p.error_free_energy,
        long_name="error estimate of free_energy",
        units="1",
    )
    for i, name in enumerate(model.observables):
        unit = model.units.get(name, "1")
        yield number(
            name, lambda p, i=i: p.observables[..., i], latex=model.latex.get(name, ""), units=unit
        )
        yield number(
            f"error_{name}",
            lambda p, i=i: p.error_observables[..., i],
            long_name=f"error estimate of {name}",
            units=unit,
        )
    meanings = {"long_name": "how the solve ended", "flag_meanings": [s.value for s in Status]}
    yield _Variable("status", np.int16, meanings, lambda p, _: p.status)
    yield number("residual", lambda p: p.residual, long_name="undamped residual max|F(x) - x|")
    yield _Variable(
        "steps", np.int64, {"long_name": "evaluations of the map"}, lambda p, _: p.steps
    )
    yield number("spectral_radius", lambda p: p.radius, long_name="spectral radius of dF/dx")
    yield _Variable(
        "level", np.int16, {"long_name": "refinements of the node sets"}, lambda _, levels: levels
    )


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
    coords: dict[str, Any] = {
        n: (n, v, {"latex": quantities[n].label, "long_name": quantities[n].meaning, "units": "1"})
        for n, v in axes.items()
    }
    coords["branch"] = ("branch", list(model.starts))
    return xr.Dataset(
        variables,
        coords,
        metadata(model, fixed, sizes) | {"settings": dict(vars(settings))} | attrs,
    )


def fill(
    dataset: xr.Dataset, model: Model, column: Column, solved: tuple[Point, np.ndarray]
) -> None:
    """Put the points of a column in their places."""
    where = _where(dataset, column)
    for variable in _variables(model):
        dataset[variable.name].values[where] = variable.pick(*solved)


def statuses(dataset: xr.Dataset, column: Column) -> np.ndarray:
    """The status codes of a column's points."""
    return dataset["status"].values[_where(dataset, column)]


def waiting(status: np.ndarray) -> np.ndarray:
    """Which points are not computed yet."""
    return status == Status.NOT_COMPUTED.code


def failures(status: np.ndarray) -> int:
    """How many points were computed and are none (a warning about the theory is no failure)."""
    return int((~np.isin(status, Status.point_codes()) & ~waiting(status)).sum())


def _where(dataset: xr.Dataset, column: Column) -> tuple[Any, ...]:
    return (*np.unravel_index(column.where, dataset["status"].shape[:-1]), column.branch)


def metadata(
    model: Model, fixed: dict[str, float], sizes: NodeSizes | None = None
) -> dict[str, Any]:
    """What a file says about where its numbers come from."""
    terms = (model.prior, model.coupling, model.channel, *model.observables.values())
    source = (
        {}
        if model.source is None
        else {"source_file": model.source.file, "source_sha256": model.source.sha256}
    )
    return source | {
        "model": model.name,
        "title": model.title,
        "options": dict(model.options),
        "controls": fixed,
        "best": model.best,
        "nodes": None if sizes is None else dict(vars(sizes)),
        "equations": hashlib.sha256("\n".join(map(str, terms)).encode()).hexdigest()[:16],
        "sources": list(model.sources),
        "starts": {k: {n: str(v) for n, v in start.items()} for k, start in model.starts.items()},
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
    names = {k for b in branches for k in (*b.overlaps, *b.conjugates, *b.observables)}

    def value(b: Any, name: str) -> float:
        return {**b.overlaps, **b.conjugates, **b.observables}[name]

    variables: dict[str, Any] = {
        n: ("branch", [value(b, n) for b in branches]) for n in sorted(names)
    }
    variables |= {
        f"error_{n}": ("branch", [b.error[n] for b in branches])
        for n in sorted(names | {"free_energy"})
    }
    variables["free_energy"] = ("branch", [b.free_energy for b in branches])
    codes = np.array([b.status.code for b in branches], dtype=np.int16)
    variables["status"] = ("branch", codes, {"flag_meanings": [s.value for s in Status]})
    for n in ("residual", "steps", "spectral_radius", "level"):
        variables[n] = ("branch", [getattr(b, n) for b in branches])
    attrs = metadata(solution.model, solution.controls) | {
        "settings": dict(vars(solution.settings))
    }
    return xr.Dataset(variables, {"branch": [b.start for b in branches]}, attrs)
