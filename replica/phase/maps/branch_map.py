"""The phases of trained attention: how many branches there are, where replica symmetry holds, and
the gain over linear attention.

A model that averages over samples is not followed along its curve of fixed points. It is solved on
a grid of two controls, from every start, by the machinery of ``sweep``; the reference model is
solved at the same points.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from equations import Model
from solvers import Status

from ...errors import InputError
from ...jobs.options import JobOptions
from ...jobs.run import Batch, Job, run_job
from ...models import resolve
from ...sweeps.dataset import waiting
from ...sweeps.sweep import Grid, prepared
from ...theories import Settings
from ..roles import UNKNOWN_BRANCH

REFERENCE = "linear"
"""The activation that others are compared with."""
PREFIX = f"{REFERENCE}_"
WITHIN, POINTS = (0.5, 8.0), 16
"""Grid of the control unless the caller gives one."""
STABILITY = (
    "stable: the replicon of the best branch is below 1",
    "unstable: it is above 1",
    "unknown: no branch was found or not computed yet",
)
SAME = 1e-7
"""Two points are one if they differ by less than this and their errors."""


def is_branch_map(dataset: xr.Dataset) -> bool:
    """Whether a file holds what ``branch_map`` returns."""
    return dataset.attrs.get("kind") == "branch map"


def default_grid(within: tuple[float, float] | None) -> np.ndarray:
    """Logarithmic, as sample ratios are."""
    low, high = within or WITHIN
    if not 0 < low < high:
        raise InputError(
            f"cannot make a grid within {low:g}..{high:g}: the ends must be positive and"
            " increasing, or give the grid"
        )
    return np.geomspace(low, high, POINTS)


def branch_map(
    model: str | Model,
    control: str,
    values: Any,
    over: Mapping[str, Any],
    controls: Mapping[str, Any],
    accuracy: float | None,
    options: JobOptions,
) -> xr.Dataset:
    """The map over (second control, control), stored point by point.

    Returns
    -------
    xarray.Dataset
        The sweep of the model, that of the reference (names that begin with "linear_"), and for
        each point ``branches``, ``rs``, and ``replicon``, ``risk`` and the gain over the reference
        of the best branch, with errors and statuses.
    """
    axes, settings = {**over, control: values}, Settings(accuracy=accuracy)
    grid = prepared(model, axes, controls, settings)
    reference = _reference(grid, axes, controls, settings)
    labels = {
        "kind": "branch map",
        "control": control,
        "over": next(iter(over)),
        "activation": grid.model.options.get("activation", grid.model.name),
        "compared": None if reference is None else dict(reference.model.options),
    }
    grids = [grid] if reference is None else [grid, reference]
    return run_job(BranchMapJob(grids, labels), options)


Names = Mapping[str, str | None]
"""Names of observables by their roles, None where the model has none."""


class BranchMapJob(Job):
    """One or two sweeps over the same grid, in one table with the numbers of each point."""

    def __init__(self, sweeps: list[Grid], labels: dict[str, Any]) -> None:
        self.title, self.grids = sweeps[0].model.name, (*sweeps[0].axes, "branch")
        self._sweeps = sweeps
        model = sweeps[0].model
        self._names = {role: model.with_role(role) for role in ("replicon", "risk")}
        empty = _joined([s.blank() for s in sweeps], self._names).assign_attrs(labels)
        self._parts = _parts(empty, len(sweeps))

    @property
    def complete(self) -> bool:
        """Whether every point of every sweep was computed."""
        return not any(waiting(part["status"].values).any() for part in self._parts)

    def dataset(self) -> xr.Dataset:
        """The sweeps with what follows from them so far."""
        return _joined(self._parts, self._names)

    def take(self, stored: xr.Dataset) -> None:
        """Continue with the sweeps of a file."""
        self._parts = _parts(stored, len(self._sweeps))

    def batches(self) -> list[Batch]:
        """One a sweep."""
        pairs = zip(self._sweeps, self._parts, strict=True)
        return [sweep.batch(part) for sweep, part in pairs]


def _reference(
    grid: Grid, axes: Mapping[str, Any], controls: Mapping[str, Any], settings: Settings
) -> Grid | None:
    """The same grid with linear attention, where there is such a comparison."""
    if grid.name is None or grid.model.options.get("activation", REFERENCE) == REFERENCE:
        return None
    names = [q.name for q in grid.model.controls]
    other, _ = resolve(grid.name, {"activation": REFERENCE}, partial=names)
    known = {q.name for q in other.controls}
    if not set(axes) <= known:
        return None
    given = {name: value for name, value in controls.items() if name in known}
    options = {**grid.model.options, "activation": REFERENCE}
    return prepared(grid.name, axes, {**given, **options}, settings)


# one table of two sweeps --------------------------------------------------------------------------


def _joined(parts: list[xr.Dataset], names: Names) -> xr.Dataset:
    """The sweeps in one dataset, with the numbers of each point; ``names`` by their roles."""
    first = parts[0]
    variables = dict(first.data_vars)
    for other in parts[1:]:
        variables |= {f"{PREFIX}{n}": v for n, v in other.data_vars.items()}
    variables |= _summary(first, names)
    risk = names["risk"]
    if len(parts) == 2 and risk is not None:
        variables |= _gain(first, parts[1], risk)
    return xr.Dataset(variables, first.coords, first.attrs)


def _parts(dataset: xr.Dataset, count: int) -> list[xr.Dataset]:
    """The sweeps inside a joined dataset, as views: what is written to them is written to it."""
    swept = [str(n) for n, v in dataset.data_vars.items() if "branch" in v.dims]
    if count == 1:
        return [dataset[swept]]
    theirs = [n for n in swept if n.startswith(PREFIX)]
    mine = [n for n in swept if n not in theirs]
    return [dataset[mine], dataset[theirs].rename({n: n.removeprefix(PREFIX) for n in theirs})]


def _summary(part: xr.Dataset, names: Names) -> dict[str, Any]:
    """What each point is: how many branches, and the best one of them."""
    dims, best = _dims(part), _best(part)
    unstable = names["replicon"]
    replicon = np.full(best.shape, np.nan)
    if unstable is not None:
        replicon = _picked(part, unstable, best)
    rs = np.where(np.isnan(replicon), 2, replicon > 1).astype(np.int8)
    about_branches = {"long_name": "distinct branches from the starts (-1: not computed yet)"}
    about_rs = {
        "long_name": "replica symmetry of the best branch",
        "flag_meanings": list(STABILITY),
    }
    about_best = {
        "long_name": "start that leads to the lowest energy (-1: none)",
        "flag_meanings": [str(b) for b in part.branch.values],
    }
    result: dict[str, Any] = {
        "branches": (dims, distinct(part), about_branches),
        "rs": (dims, rs, about_rs),
        "best": (dims, best, about_best),
    }
    for role, name in names.items():
        if name is None:
            continue
        for prefix, of in (("", ""), ("error_", "error of ")):
            label = {"long_name": f"{of}{role} of the best branch"}
            attrs = dict(part[f"{prefix}{name}"].attrs) | label
            result[f"{prefix}best_{role}"] = (dims, _picked(part, f"{prefix}{name}", best), attrs)
    result["best_status"] = (dims, _status(part, best), dict(part["status"].attrs))
    return result


def _gain(mine: xr.Dataset, other: xr.Dataset, risk: str) -> dict[str, Any]:
    """How much lower the risk of the best branch is than that of the reference."""
    dims, best, theirs = _dims(mine), _best(mine), _best(other)
    unit = mine[risk].attrs.get("units", "1")
    gain = _picked(other, risk, theirs) - _picked(mine, risk, best)
    error = _picked(other, f"error_{risk}", theirs) + _picked(mine, f"error_{risk}", best)
    name = f"{mine.attrs['options']['activation']}_gain"
    about_gain = {
        "latex": r"R_\mathrm{linear}-R",
        "long_name": "risk of linear attention minus this risk",
        "units": unit,
    }
    about_error = {"long_name": f"error estimate of {name}", "units": unit}
    status = _status(other, theirs)
    return {
        name: (dims, gain, about_gain),
        f"error_{name}": (dims, error, about_error),
        f"{PREFIX}best_status": (dims, status, dict(other["status"].attrs)),
    }


def _dims(part: xr.Dataset) -> list[str]:
    """Those of the grid."""
    return [str(d) for d in part["status"].dims if d != "branch"]


def _points(part: xr.Dataset) -> np.ndarray:
    return np.isin(part["status"].values, Status.point_codes())


def _best(part: xr.Dataset) -> np.ndarray:
    """Index of the branch with the best free energy at each point; -1 where there is none."""
    sign = 1.0 if part.attrs.get("best", "smallest") == "smallest" else -1.0
    energy = np.where(_points(part), sign * part["free_energy"].values, np.inf)
    return np.where(
        np.isfinite(energy).any(axis=-1), energy.argmin(axis=-1), UNKNOWN_BRANCH
    ).astype(np.int8)


def _picked(part: xr.Dataset, name: str, best: np.ndarray) -> np.ndarray:
    """A variable of the best branch; NaN where there is none."""
    return np.where(best == UNKNOWN_BRANCH, np.nan, _taken(part, name, best))


def _status(part: xr.Dataset, best: np.ndarray) -> np.ndarray:
    """The status of the best branch, or of the first start where all failed."""
    return _taken(part, "status", best)


def _taken(part: xr.Dataset, name: str, best: np.ndarray) -> np.ndarray:
    index = np.maximum(best, 0)[..., None].astype(int)
    return np.take_along_axis(part[name].values, index, axis=-1)[..., 0]


def distinct(part: xr.Dataset) -> np.ndarray:
    """How many different points the starts lead to, two being one if they agree within their
    errors; -1 if a start is not computed yet.
    """
    good, count = _points(part), np.zeros(part["status"].shape[:-1], dtype=np.int8)
    names = list(next(iter(part.attrs["starts"].values())))  # the overlaps
    for i in range(good.shape[-1]):
        new = good[..., i].copy()
        for j in range(i):
            new &= ~(good[..., j] & _same(part, names, i, j))
        count += new
    to_come = waiting(part["status"].values).any(axis=-1)
    return np.where(to_come, UNKNOWN_BRANCH, count).astype(np.int8)


def _same(part: xr.Dataset, names: list[str], i: int, j: int) -> np.ndarray:
    close = []
    for name in names:
        values, errors = part[name].values, part[f"error_{name}"].values
        tolerance = SAME + errors[..., i] + errors[..., j]
        close.append(np.abs(values[..., i] - values[..., j]) <= tolerance)
    return np.all(close, axis=0)
