"""The risk over a phase diagram, read off the curve of fixed points of each column without solving
anything again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.interpolate import CubicSpline
from scipy.ndimage import maximum_filter1d

from equations import Model

from ...lowering.lower import SAFETY
from ..curve import traced
from ..roles import BETWEEN, FURTHER, INFORMED, ROLES, UNINFORMED
from ..thresholds import Search, Thresholds

NEARBY = 9
"""Points of the grid of the control that share their largest error."""
FINE = 16
"""Points between two knots at which a curve is interpolated before it is inverted."""

KINDS = (
    ("algorithmic", "alg", "reached from the uninformed start"),
    ("best", "best", "of the branch with the better free energy"),
)
Level = Callable[[Any], Any]
"""Values of the control -> numbers that grow with information."""


class Profile(NamedTuple):
    """One column's curve: the control, the risk, the free energy and the role of each point."""

    control: np.ndarray
    risk: np.ndarray
    free_energy: np.ndarray
    role: np.ndarray


def risk_name(model: Model) -> str | None:
    """The observable that a diagram maps: the risk, or the first one of a model without."""
    return model.with_role("risk") or next(iter(model.observables), None)


def profile(found: Search) -> Profile | None:
    """The points of a search with their risk."""
    line, name = found.line, risk_name(found.line.model)
    if name is None:
        return None
    points = traced(found)
    control = np.array([line.value(t) for t in points.u[:, -1]])
    energy = np.array(
        [
            float(line.at(line.overlaps(u), c).free_energy)
            for u, c in zip(points.u, control, strict=True)
        ]
    )
    return Profile(control, line.observables((name,), points.u)[:, 0], energy, points.role)


def reached(
    curve: Profile, limits: Thresholds, grid: np.ndarray, level: Level
) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """(risk, error) that the algorithm reaches, and of the better branch, on a grid of the control;
    NaN where that was not followed.

    The error is that of the interpolation: the difference from what every second point of the curve
    gives.
    """
    t = level(grid)
    uninformed, informed = (
        _on_grid(curve, curve.role == role, t, level) for role in (UNINFORMED, INFORMED)
    )
    past = (
        np.zeros(len(t), dtype=bool) if limits.alpha_alg is None else t >= level(limits.alpha_alg)
    )
    algorithm = np.where(past, informed, uninformed)
    if (
        FURTHER in curve.role
    ):  # the algorithm climbs to the first of the branches that is there, as the map is monotone
        if limits.alpha_weak is not None:  # a trivial branch is left where it loses stability
            uninformed[:, t > level(limits.alpha_weak)] = np.nan
        inner = np.flatnonzero(curve.role == FURTHER)
        pieces = np.split(inner, np.flatnonzero(np.diff(inner) > 1) + 1)
        every = np.array([uninformed, *(_on_grid(curve, p, t, level) for p in pieces), informed])
        energy = np.where(np.isnan(every[:, 2]), -np.inf, every[:, 2])
        best = np.take_along_axis(every, energy.argmax(axis=0)[None, None], axis=0)[0]
        algorithm = np.take_along_axis(
            every, np.isfinite(every[:, 0]).argmax(axis=0)[None, None], axis=0
        )[0]
    else:
        gain = (
            informed[2] > uninformed[2] if limits.alpha_IT is None else t >= level(limits.alpha_IT)
        )
        best = np.where(past | gain | np.isnan(uninformed[0]), informed, uninformed)
    return (algorithm[0], algorithm[1]), (best[0], best[1])


def _on_grid(curve: Profile, rows: np.ndarray, t: np.ndarray, level: Level) -> np.ndarray:
    """Risk, its error and free energy of one branch at ``t``, shape (3, len(t)); NaN beyond its
    ends.
    """
    rows = np.arange(len(curve.role))[rows]
    rows = rows[np.isfinite(curve.risk[rows])]
    if len(rows) < 3:
        return np.full((3, len(t)), np.nan)
    rows = rows[np.argsort(level(curve.control[rows]), kind="stable")]
    x, risk = level(curve.control[rows]), curve.risk[rows]
    fewer = np.unique([*range(0, len(rows), 2), len(rows) - 1])
    value = _inverted(x, risk, t)
    # The difference passes through zero between the points: its largest value nearby counts.
    error = SAFETY * maximum_filter1d(
        np.nan_to_num(np.abs(value - _inverted(x[fewer], risk[fewer], t))), NEARBY
    )
    return np.array(
        [value, np.where(np.isnan(value), np.nan, error), _inverted(x, curve.free_energy[rows], t)]
    )


def _inverted(x: np.ndarray, y: np.ndarray, t: np.ndarray) -> np.ndarray:
    """y at x = t, interpolated along the curve (x, y), which is smooth also where dy/dx is
    infinite: at a fold.
    """
    if not np.all(np.isfinite(y)):
        return np.full(len(t), np.nan)
    scale = np.array([np.ptp(x) or 1.0, np.ptp(y) or 1.0])
    arc = np.concatenate(
        [
            [0.0],
            np.cumsum(
                np.linalg.norm(np.diff(np.column_stack([x, y]), axis=0) / scale, axis=1) + 1e-12
            ),
        ]
    )
    fine = np.concatenate(
        [np.linspace(a, b, FINE, endpoint=False) for a, b in pairwise(arc)] + [arc[-1:]]
    )
    return np.interp(
        t,
        np.maximum.accumulate(CubicSpline(arc, x)(fine)),
        CubicSpline(arc, y)(fine),
        left=np.nan,
        right=np.nan,
    )


# in a file ---------------------------------------------------------------------------------------


def stacked(profiles: Sequence[Profile | None], name: str, control: str) -> dict[str, Any]:
    """The curves as variables over (column, knot), the shorter ones filled up with NaN."""
    longest = max((len(p.control) for p in profiles if p is not None), default=0)

    def table(field: str, fill: Any, dtype: Any) -> np.ndarray:
        result = np.full((len(profiles), longest), fill, dtype=dtype)
        for row, p in zip(result, profiles, strict=True):
            if p is not None:
                row[: len(p.control)] = getattr(p, field)
        return result

    dims = (name, "knot")
    return {
        "curve_control": (
            dims,
            table("control", np.nan, float),
            {"long_name": f"{control} along the curve of fixed points", "units": "1"},
        ),
        "curve_risk": (
            dims,
            table("risk", np.nan, float),
            {"long_name": "risk along the curve of fixed points"},
        ),
        "curve_free_energy": (
            dims,
            table("free_energy", np.nan, float),
            {"long_name": "free energy along the curve of fixed points", "units": "1"},
        ),
        "curve_role": (
            dims,
            table("role", BETWEEN, np.int8),
            {"long_name": "branch", "flag_meanings": list(ROLES)},
        ),
    }


def unstacked(dataset: xr.Dataset, i: int, name: str) -> Profile | None:
    """The curve of column i of a diagram, as it was computed."""
    if "curve_control" not in dataset:
        return None
    at = dataset.isel({name: i})
    there = np.isfinite(at["curve_control"].values)
    if not there.any():
        return None
    return Profile(
        *(at[f"curve_{n}"].values[there] for n in ("control", "risk", "free_energy", "role"))
    )


def mapped(
    model: Model,
    columns: Sequence[tuple[Thresholds, Profile] | None],
    grid: np.ndarray,
    name: str,
    control: str,
    level: Level,
) -> dict[str, Any]:
    """The variables algorithmic_risk and best_risk over (column, control), with their errors."""
    observable = risk_name(model) or ""
    values = np.full((4, len(columns), len(grid)), np.nan)
    for i, column in enumerate(columns):
        if column is not None:
            (values[0, i], values[1, i]), (values[2, i], values[3, i]) = reached(
                column[1], column[0], grid, level
            )
    known = model.observables.get(observable)
    latex, unit = ("", "1") if known is None else (known.latex, known.units)
    result: dict[str, Any] = {}
    for k, (which, short, text) in enumerate(KINDS):
        label = {"latex": rf"{latex}_\mathrm{{{short}}}"} if latex else {}
        attrs = {"long_name": f"{observable} {text}", "units": unit, **label}
        result[f"{which}_risk"] = ((name, control), values[2 * k], attrs)
        error = {
            "long_name": "error of interpolating between the points of the curve",
            "units": unit,
        }
        result[f"error_{which}_risk"] = ((name, control), values[2 * k + 1], error)
    return result
