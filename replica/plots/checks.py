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

MARKS = ("o", "s", "^", "D", "v")


class Points(NamedTuple):
    """One quantity of a check: controls (or sizes) and measured values with their errors."""

    x: np.ndarray
    value: np.ndarray
    error: np.ndarray


def is_check(dataset: xr.Dataset) -> bool:
    return dataset.attrs.get("kind") == "check" and "rho_flow" not in dataset


def split_checks(datasets: Sequence[xr.Dataset]) -> tuple[list[xr.Dataset], list[xr.Dataset]]:
    """Curves and checks."""
    return [d for d in datasets if not is_check(d)], [d for d in datasets if is_check(d)]


def with_checks(
    figure: Any, curves: Sequence[xr.Dataset], checks: Sequence[xr.Dataset], y: str
) -> Any:
    """The figure of ``curves`` (sweeps of one control) with the checks as dots; a check alone gets
    a figure of its own.
    """
    if not checks:
        return figure
    if not curves:
        if len(checks) > 1:
            raise InputError("several checks need a sweep to be drawn on: name its file first")
        return draw_check(checks[0], y)
    axes = [str(d) for d in curves[0].sizes if d != "branch"]
    if len(axes) != 1:
        raise InputError(
            f"checks are drawn on a sweep of one control, and this one has {len(axes)}"
        )
    panel = figure.axes[0]
    for i, dataset in enumerate(checks):
        _agree(_curve_of(dataset, curves), dataset, axes[0])
        _dots(panel, points(dataset, axes[0], y), i, f"simulation, {dataset.attrs['model']}")
    panel.legend(frameon=False)
    return figure


def _curve_of(check: xr.Dataset, curves: Sequence[xr.Dataset]) -> xr.Dataset:
    """The sweep of the same model with the same options; the first one if there is none."""
    return next(
        (
            c
            for c in curves
            if all(c.attrs.get(k) == check.attrs.get(k) for k in ("model", "options"))
        ),
        curves[0],
    )


def _agree(curve: xr.Dataset, dataset: xr.Dataset, axis: str) -> None:
    """Refuse dots that belong to another curve."""
    for name, value in curve.attrs.get("controls", {}).items():
        here = np.ravel(
            dataset[f"at_{name}"].values
            if f"at_{name}" in dataset
            else dataset.attrs["controls"].get(name, value)
        )
        if name != axis and np.any(here != value):
            raise InputError(
                f"the check has {name} = {here[0]:g} and the sweep {name} = {value:g}: they do not"
                " belong together"
            )
    if dataset.attrs["model"] != curve.attrs["model"]:
        raise InputError(
            f"the check is of {dataset.attrs['model']} and the sweep of {curve.attrs['model']}:"
            " they do not belong together"
        )


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
    if not dataset.attrs.get("complete", True):
        raise InputError(
            "the check is unfinished and has nothing to draw yet: continue it with --resume"
        )
    names = dataset["quantity"].values if "quantity" in dataset else dataset["comparison"].values
    if y not in names:
        raise InputError(f"the check has no {y!r}: {nearest(y, sorted(set(map(str, names))))}")
    return dataset.isel(comparison=np.flatnonzero(names == y))


def _dots(panel: Any, at: Points, i: int, name: str) -> None:
    errors = None if np.all(np.isnan(at.error)) else at.error
    panel.errorbar(
        at.x,
        at.value,
        yerr=errors,
        fmt=MARKS[i % 5],
        color="black",
        markersize=4,
        capsize=2,
        linewidth=1,
        label=name,
        zorder=5,
    )


def draw_check(dataset: xr.Dataset, y: str) -> Any:
    """One quantity: against 1/D with the extrapolation and the theory, or (a user's own) against
    the control that varies.
    """
    figure, (panel,) = new_figure(1)
    if "size" not in dataset.sizes:
        _own(panel, dataset, y)
    else:
        _against_size(panel, dataset, y)
    panel.set(ylabel=y.replace("_", " "), title=str(dataset.attrs["model"]))
    panel.legend(frameon=False)
    return figure


def _against_size(panel: Any, dataset: xr.Dataset, y: str) -> None:
    row = _rows(dataset, y).isel(comparison=0)
    values = counted(dataset, y)
    inverse, mean = 1 / dataset["size"].values, values.mean(axis=1)
    error = values.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
    panel.plot(
        np.repeat(inverse, values.shape[1]),
        values.ravel(),
        ".",
        color=COLOURS[0],
        alpha=0.3,
        markersize=4,
        label="trials",
    )
    _dots(panel, Points(inverse, mean, error), 0, "mean")
    if np.isfinite(row.extrapolated):
        slope = np.sum((mean - float(row.extrapolated)) * inverse / error**2) / np.sum(
            inverse**2 / error**2
        )
        ends = np.array([0.0, inverse.max()])
        panel.plot(
            ends,
            float(row.extrapolated) + slope * ends,
            color=COLOURS[0],
            linestyle="--",
            linewidth=1,
        )
        panel.errorbar(
            [0],
            [float(row.extrapolated)],
            yerr=[float(row.extrapolated_error)],
            fmt="s",
            color=COLOURS[0],
            capsize=3,
            label="1/D -> 0",
        )
    theory, width = float(row.theory), float(row.theory_error)
    panel.axhline(theory, color=COLOURS[1], label="theory")
    panel.axhspan(theory - width, theory + width, color=COLOURS[1], alpha=0.2, linewidth=0)
    panel.set(xlabel="1/D")


def counted(dataset: xr.Dataset, y: str) -> np.ndarray:
    """The trials that count, shape (size, trial): of several starts the one of lowest objective."""
    values = dataset[y]
    return (
        (values.isel(start=dataset["energy"].argmin("start")) if "start" in values.dims else values)
        .transpose("size", "trial")
        .values
    )


def _own(panel: Any, dataset: xr.Dataset, y: str) -> None:
    rows = _rows(dataset, y)
    varying = [
        str(n)
        for n in rows.data_vars
        if str(n).startswith("at_") and np.unique(rows[n].values).size > 1
    ]
    x = rows[varying[0]].values if varying else np.arange(rows.sizes["comparison"])
    order = np.argsort(x)
    panel.plot(x[order], rows.theory.values[order], color=COLOURS[1], marker=".", label="theory")
    _dots(panel, Points(x, rows["mean"].values, rows.standard_error.values), 0, "measured")
    panel.set(xlabel=label(rows[varying[0]]) if varying else "row")
