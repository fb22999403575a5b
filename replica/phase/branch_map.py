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

from ..errors import InputError
from ..jobs.run import JobOptions, opened, progress_bar
from ..models import resolve
from ..sweeps.sweep import Grid, advance, prepared
from ..theories import Settings

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
UNKNOWN = -1
SAME = 1e-7
"""Two points are one if they differ by less than this and their errors."""


def is_branch_map(dataset: xr.Dataset) -> bool:
    """Whether a file holds what ``run`` returns."""
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


def run(
    model: str | Model,
    control: str,
    values: Any,
    over: Mapping[str, Any],
    controls: Mapping[str, Any],
    accuracy: float | None,
    work: JobOptions,
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
    grids = [grid, *_reference(grid, axes, controls, settings)]
    labels = {
        "kind": "branch map",
        "control": control,
        "over": next(iter(over)),
        "activation": grid.model.options.get("activation", grid.model.name),
    }
    labels["compared"] = None if len(grids) == 1 else dict(grids[1].model.options)
    empty = _joined([g.blank() for g in grids]).assign_attrs(labels)
    with opened(work, empty, [*grid.axes, "branch"]) as target:
        parts, noted = _parts(target.dataset, len(grids)), target.dataset.attrs

        def whole() -> xr.Dataset:
            complete = not any((p["status"] == Status.NOT_COMPUTED.code).any() for p in parts)
            return _joined(parts).assign_attrs(noted, complete=complete)

        left = sum(
            c.points for g, p in zip(grids, parts, strict=True) for c in g.pending(p).values()
        )
        total = sum(p["status"].size for p in parts)
        with progress_bar(work, grid.model.name, total, total - left) as bar:
            for g, p in zip(grids, parts, strict=True):
                advance(g, p, target.client, bar, lambda: target.write(whole()))
        return whole()


def _reference(
    grid: Grid, axes: Mapping[str, Any], controls: Mapping[str, Any], settings: Settings
) -> list[Grid]:
    """The same grid with linear attention, where there is such a comparison."""
    if grid.name is None or grid.model.options.get("activation", REFERENCE) == REFERENCE:
        return []
    known = {
        q.name
        for q in resolve(
            grid.name, {"activation": REFERENCE}, partial=[q.name for q in grid.model.controls]
        )[0].controls
    }
    if not set(axes) <= known:
        return []
    options = {**grid.model.options, "activation": REFERENCE}
    return [
        prepared(
            grid.name,
            axes,
            {**{n: v for n, v in controls.items() if n in known}, **options},
            settings,
        )
    ]


# one table of two sweeps --------------------------------------------------------------------------


def _joined(parts: list[xr.Dataset]) -> xr.Dataset:
    """Both sweeps in one dataset, with the numbers of each point."""
    first = parts[0]
    variables = dict(first.data_vars)
    for other in parts[1:]:
        variables |= {f"{PREFIX}{n}": v for n, v in other.data_vars.items()}
    return xr.Dataset(variables, first.coords, first.attrs).assign(_summary(parts))


def _parts(dataset: xr.Dataset, count: int) -> list[xr.Dataset]:
    """The sweeps inside a joined dataset, as views: what is written to them is written to it."""
    swept = [str(n) for n, v in dataset.data_vars.items() if "branch" in v.dims]
    theirs = [n for n in swept if n.startswith(PREFIX)]
    mine = dataset[[n for n in swept if n not in theirs]]
    return (
        [mine]
        if count == 1
        else [mine, dataset[theirs].rename({n: n.removeprefix(PREFIX) for n in theirs})]
    )


def _summary(parts: list[xr.Dataset]) -> dict[str, Any]:
    mine, dims = parts[0], [d for d in parts[0]["status"].dims if d != "branch"]
    best, unit = _best(mine), mine["risk"].attrs.get("units", "1")
    replicon, starts = _picked(mine, "replicon", best), [str(b) for b in mine.branch.values]
    rs = np.where(np.isnan(replicon), 2, replicon > 1).astype(np.int8)
    result: dict[str, Any] = {
        "branches": (
            dims,
            distinct(mine),
            {"long_name": "distinct branches from the starts (-1: not computed yet)"},
        ),
        "rs": (
            dims,
            rs,
            {"long_name": "replica symmetry of the best branch", "flag_meanings": list(STABILITY)},
        ),
        "best": (
            dims,
            best,
            {
                "long_name": "start that leads to the lowest energy (-1: none)",
                "flag_meanings": starts,
            },
        ),
    }
    for n in ("replicon", "risk"):
        for prefix in ("", "error_"):
            attrs = dict(mine[f"{prefix}{n}"].attrs) | {
                "long_name": f"{prefix.replace('_', ' of ')}{n} of the best branch"
            }
            result[f"{prefix}best_{n}"] = (dims, _picked(mine, f"{prefix}{n}", best), attrs)
    result["best_status"] = (dims, _status(mine, best), dict(mine["status"].attrs))
    if len(parts) == 2:
        other, theirs = parts[1], _best(parts[1])
        gain = _picked(other, "risk", theirs) - _picked(mine, "risk", best)
        error = _picked(other, "error_risk", theirs) + _picked(mine, "error_risk", best)
        name = f"{mine.attrs['options']['activation']}_gain"
        result[name] = (
            dims,
            gain,
            {
                "latex": r"R_\mathrm{linear}-R",
                "long_name": "risk of linear attention minus this risk",
                "units": unit,
            },
        )
        result[f"error_{name}"] = (
            dims,
            error,
            {"long_name": f"error estimate of {name}", "units": unit},
        )
        result[f"{PREFIX}best_status"] = (dims, _status(other, theirs), dict(other["status"].attrs))
    return result


def _points(part: xr.Dataset) -> np.ndarray:
    return np.isin(part["status"].values, Status.point_codes())


def _best(part: xr.Dataset) -> np.ndarray:
    """Index of the branch with the best free energy at each point; -1 where there is none."""
    sign = 1.0 if part.attrs.get("best", "smallest") == "smallest" else -1.0
    energy = np.where(_points(part), sign * part["free_energy"].values, np.inf)
    return np.where(np.isfinite(energy).any(axis=-1), energy.argmin(axis=-1), UNKNOWN).astype(
        np.int8
    )


def _picked(part: xr.Dataset, name: str, best: np.ndarray) -> np.ndarray:
    values = np.take_along_axis(
        part[name].values, np.maximum(best, 0)[..., None].astype(int), axis=-1
    )[..., 0]
    return np.where(best == UNKNOWN, np.nan, values)


def _status(part: xr.Dataset, best: np.ndarray) -> np.ndarray:
    """The status of the best branch, or of the first start where all failed."""
    return np.take_along_axis(
        part["status"].values, np.maximum(best, 0)[..., None].astype(int), axis=-1
    )[..., 0]


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
    waiting = (part["status"].values == Status.NOT_COMPUTED.code).any(axis=-1)
    return np.where(waiting, UNKNOWN, count).astype(np.int8)


def _same(part: xr.Dataset, names: list[str], i: int, j: int) -> np.ndarray:
    close = [
        np.abs(part[n].values[..., i] - part[n].values[..., j])
        <= SAME + part[f"error_{n}"].values[..., i] + part[f"error_{n}"].values[..., j]
        for n in names
    ]
    return np.all(close, axis=0)
