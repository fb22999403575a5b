"""The figure of a branch map: regions by the number of branches, hatched where replica symmetry is
unstable, contours of the gain.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from ..phase.branch_map import UNKNOWN
from .base import (
    COLOURS,
    fill_cells,
    label,
    legend_above,
    legend_line,
    new_figure,
    round_levels,
    scaled,
)

FILLS = ("#FFFFFF", "#BFE3F7", "#F7EE9B", "#F3C9A5", "#E3B7CE")
"""No branch (all starts failed), one, two, three, four or more."""
HATCH = "#8C8C8C"
NAMES = ("no branch found", "one branch", "two branches", "three branches", "four or more")


def draw_branches(dataset: xr.Dataset) -> Any:
    """Cells of the grid by the number of branches, hatched where the best one is unstable, with
    contours of the gain (if compared).
    """
    over, control = dataset.attrs["over"], dataset.attrs["control"]
    data = dataset.sortby([over, control]).transpose(control, over, "branch")
    figure, (panel,) = new_figure(1)
    scales = [spacing(data[n].values) for n in (over, control)]
    x, y = (edges(data[n].values, s) for n, s in zip((over, control), scales, strict=True))
    count, unstable = data["branches"].values, data["rs"].values == 1
    handles = []
    for code in np.unique(count[count != UNKNOWN]):
        kind = min(int(code), len(FILLS) - 1)
        handles.append(
            fill_cells(
                panel,
                _cells(x, y, count == code),
                NAMES[kind],
                facecolor=FILLS[kind],
                edgecolor=FILLS[kind],
                linewidth=0.3,
            )
        )
    if unstable.any():
        style = {"facecolor": "none", "edgecolor": HATCH, "hatch": "////", "linewidth": 0.0}
        handles.append(
            fill_cells(panel, _cells(x, y, unstable), "replica symmetry unstable", **style)
        )
    handles += _gain(panel, data)
    panel.set(
        xlabel=label(data[over]),
        ylabel=label(data[control]),
        xlim=(x[0], x[-1]),
        ylim=(y[0], y[-1]),
    )
    scaled(panel, *scales)
    legend_above(figure, panel, 2, handles)
    return figure


def _gain(panel: Any, data: xr.Dataset) -> list[Any]:
    """Contours of the gain, solid where it is positive; what they are, for the legend."""
    name = f"{data.attrs['activation']}_gain"
    if name not in data or min(data[name].shape) < 2 or np.isfinite(data[name].values).sum() < 4:
        return []
    values = data[name].values
    levels = round_levels(float(np.nanmin(values)), float(np.nanmax(values)), 6)
    if not len(levels):
        return []
    over, control = data.attrs["over"], data.attrs["control"]
    drawn = panel.contour(
        data[over],
        data[control],
        values,
        levels=levels,
        colors=COLOURS[6],
        linewidths=[1.4 if v == 0 else 0.7 for v in levels],
        linestyles=["--" if v < 0 else "-" for v in levels],
    )
    panel.clabel(drawn, fontsize=6, fmt="%g")
    return [
        legend_line(
            f"gain over linear attention, {label(data[name])}", color=COLOURS[6], linewidth=0.7
        )
    ]


def spacing(values: np.ndarray) -> str:
    """The scale on which a grid is even: log or linear."""
    if len(values) < 3 or values[0] <= 0:
        return "linear"
    return (
        "log"
        if np.ptp(np.diff(np.log(values))) < np.ptp(np.diff(values)) / np.mean(values)
        else "linear"
    )


def edges(values: np.ndarray, scale: str) -> np.ndarray:
    """The ends of the cells around the values of a grid."""
    if len(values) == 1:
        return np.array([values[0] - 0.5, values[0] + 0.5])
    at = np.log(values) if scale == "log" else values
    middle = (at[1:] + at[:-1]) / 2
    ends = np.concatenate([[2 * at[0] - middle[0]], middle, [2 * at[-1] - middle[-1]]])
    return np.exp(ends) if scale == "log" else ends


def _cells(
    x: np.ndarray, y: np.ndarray, chosen: np.ndarray
) -> list[tuple[tuple[float, float], float, float]]:
    """(corner, width, height) of the chosen cells, shape (y, x)."""
    return [
        ((x[j], y[i]), x[j + 1] - x[j], y[i + 1] - y[i])
        for i, j in zip(*np.nonzero(chosen), strict=True)
    ]
