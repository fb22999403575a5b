"""Figures of checks: simulations as dots with error bars, on the curves of a sweep or
against 1/D.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from ..errors import InputError
from ..inputs import nearest
from .base import COLOURS, label, new_figure
from .registry import drawing_of, figure
from .sweeps import swept

MARKS = ("o", "s", "^", "D", "v")
CHECK = "check"


class Points(NamedTuple):
    """One quantity of a check: controls (or sizes) and measured values with their errors."""

    x: np.ndarray
    value: np.ndarray
    error: np.ndarray


@figure(CHECK)
def draw_check(dataset: xr.Dataset, y: str) -> Any:
    """One quantity: against 1/D with the extrapolation and the theory, or (a user's own) against
    the control that varies.
    """
    drawing, (panel,) = new_figure(1)
    if "size" in dataset.sizes:
        _against_size(panel, dataset, y)
    else:
        _against_control(panel, dataset, y)
    panel.set(ylabel=y.replace("_", " "), title=str(dataset.attrs["model"]))
    panel.legend(frameon=False)
    return drawing


# on the curves of sweeps --------------------------------------------------------------------------


def split_checks(datasets: Sequence[xr.Dataset]) -> tuple[list[xr.Dataset], list[xr.Dataset]]:
    """Curves and checks; a check with a picture of another sort is no dots on a curve."""
    curves, checks = [], []
    for dataset in datasets:
        (checks if drawing_of(dataset) is draw_check else curves).append(dataset)
    return curves, checks


def with_checks(
    drawing: Any, curves: Sequence[xr.Dataset], checks: Sequence[xr.Dataset], y: str
) -> Any:
    """The figure of ``curves`` (sweeps of one control) with the checks as dots; a check alone gets
    a figure of its own.
    """
    if not checks:
        return drawing
    if not curves:
        if len(checks) > 1:
            raise InputError("several checks need a sweep to be drawn on: name its file first")
        return draw_check(checks[0], y)
    axes = swept(curves[0])
    if len(axes) != 1:
        raise InputError(
            f"checks are drawn on a sweep of one control, and this one has {len(axes)}"
        )
    panel = drawing.axes[0]
    for i, dataset in enumerate(checks):
        _belongs(dataset, _curve_of(dataset, curves), axes[0])
        _dots(panel, points(dataset, axes[0], y), i, f"simulation, {dataset.attrs['model']}")
    panel.legend(frameon=False)
    return drawing


def _curve_of(check: xr.Dataset, curves: Sequence[xr.Dataset]) -> xr.Dataset:
    """The sweep of the same model with the same options; the first one if there is none."""
    wanted = check.attrs.get("model"), check.attrs.get("options")
    for curve in curves:
        if (curve.attrs.get("model"), curve.attrs.get("options")) == wanted:
            return curve
    return curves[0]


def _belongs(check: xr.Dataset, curve: xr.Dataset, axis: str) -> None:
    """Refuse dots that belong to another curve."""
    for name, value in curve.attrs.get("controls", {}).items():
        here = _control_values(check, name, value)
        if name != axis and np.any(here != value):
            raise InputError(
                f"the check has {name} = {here[0]:g} and the sweep {name} = {value:g}: they do not"
                " belong together"
            )
    if check.attrs["model"] != curve.attrs["model"]:
        raise InputError(
            f"the check is of {check.attrs['model']} and the sweep of {curve.attrs['model']}:"
            " they do not belong together"
        )


def _control_values(check: xr.Dataset, name: str, default: float) -> np.ndarray:
    """The values of a control: of each row, or the one of all (``default`` if it is not said)."""
    if f"at_{name}" in check:
        return np.ravel(check[f"at_{name}"].values)
    return np.ravel(check.attrs["controls"].get(name, default))


def points(dataset: xr.Dataset, axis: str, y: str) -> Points:
    """Values of ``y`` with their errors against the control ``axis``."""
    rows = _rows(dataset, y)
    extrapolated = np.isfinite(rows.extrapolated.values)
    value = np.where(extrapolated, rows.extrapolated, rows["mean"])
    error = np.where(extrapolated, rows.extrapolated_error, rows.standard_error)
    if f"at_{axis}" in rows:
        return Points(rows[f"at_{axis}"].values, value, error)
    if axis not in dataset.attrs["controls"]:
        raise InputError(f"the check has no control {axis!r} to be drawn against")
    return Points(np.full(value.shape, dataset.attrs["controls"][axis]), value, error)


def _rows(dataset: xr.Dataset, y: str) -> xr.Dataset:
    """The comparisons of one quantity."""
    if not dataset.attrs.get("complete", True):
        raise InputError(
            "the check is unfinished and has nothing to draw yet: continue it with --resume"
        )
    names = dataset["quantity"].values if "quantity" in dataset else dataset["comparison"].values
    if y not in names:
        raise InputError(f"the check has no {y!r}: {nearest(y, sorted(set(map(str, names))))}")
    return dataset.isel(comparison=np.flatnonzero(names == y))


def _dots(panel: Any, at: Points, number: int, name: str) -> None:
    errors = None if np.all(np.isnan(at.error)) else at.error
    panel.errorbar(
        at.x,
        at.value,
        yerr=errors,
        fmt=MARKS[number % len(MARKS)],
        color="black",
        markersize=4,
        capsize=2,
        linewidth=1,
        label=name,
        zorder=5,
    )


# alone --------------------------------------------------------------------------------------------


def _against_size(panel: Any, dataset: xr.Dataset, y: str) -> None:
    """Trials and their means against 1/D, the theory at 1/D = 0 as a line over all."""
    row = _rows(dataset, y).isel(comparison=0)
    values = counted(dataset, y)
    trials = values.shape[1]
    inverse, mean = 1 / dataset["size"].values, values.mean(axis=1)
    means = Points(inverse, mean, values.std(axis=1, ddof=1) / np.sqrt(trials))
    panel.plot(
        np.repeat(inverse, trials),
        values.ravel(),
        ".",
        color=COLOURS[0],
        alpha=0.3,
        markersize=4,
        label="trials",
    )
    _dots(panel, means, 0, "mean")
    if np.isfinite(row.extrapolated):
        _extrapolation(panel, means, float(row.extrapolated), float(row.extrapolated_error))
    theory, width = float(row.theory), float(row.theory_error)
    panel.axhline(theory, color=COLOURS[1], label="theory")
    panel.axhspan(theory - width, theory + width, color=COLOURS[1], alpha=0.2, linewidth=0)
    panel.set(xlabel="1/D")


def _extrapolation(panel: Any, means: Points, value: float, error: float) -> None:
    """The line through ``value`` at 1/D = 0 that is closest to the means (weighted)."""
    inverse = means.x
    moment = np.sum((means.value - value) * inverse / means.error**2)
    slope = moment / np.sum(inverse**2 / means.error**2)
    ends = np.array([0.0, inverse.max()])
    panel.plot(ends, value + slope * ends, color=COLOURS[0], linestyle="--", linewidth=1)
    panel.errorbar(
        [0], [value], yerr=[error], fmt="s", color=COLOURS[0], capsize=3, label="1/D -> 0"
    )


def counted(dataset: xr.Dataset, y: str) -> np.ndarray:
    """The trials that count, shape (size, trial): of several starts the one of lowest objective."""
    values = dataset[y]
    if "start" in values.dims:
        values = values.isel(start=dataset["energy"].argmin("start"))
    return values.transpose("size", "trial").values


def _against_control(panel: Any, dataset: xr.Dataset, y: str) -> None:
    """A user's own measurements against the control that varies, or in their order."""
    rows = _rows(dataset, y)
    varying = _varying(rows)
    x = rows[varying].values if varying else np.arange(rows.sizes["comparison"])
    order = np.argsort(x)
    panel.plot(x[order], rows.theory.values[order], color=COLOURS[1], marker=".", label="theory")
    _dots(panel, Points(x, rows["mean"].values, rows.standard_error.values), 0, "measured")
    panel.set(xlabel=label(rows[varying]) if varying else "row")


def _varying(rows: xr.Dataset) -> str | None:
    """The first control (``at_NAME``) that is not the same in all rows."""
    for name in map(str, rows.data_vars):
        if name.startswith("at_") and np.unique(rows[name].values).size > 1:
            return name
    return None
