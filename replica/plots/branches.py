"""The figure of a branch map: regions by the number of branches, hatched where replica symmetry is
unstable, contours of the gain.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from ..phase.roles import UNKNOWN_BRANCH
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
from .registry import figure
from .sweeps import draw_sweep

COUNT_FILLS = ("#FFFFFF", "#BFE3F7", "#F7EE9B", "#F3C9A5", "#E3B7CE")
"""By the number of branches: none (all starts failed), one, two, three, more."""
COUNT_NAMES = ("no branch found", "one branch", "two branches", "three branches", "four or more")
HATCHED = {"facecolor": "none", "edgecolor": "#8C8C8C", "hatch": "////", "linewidth": 0.0}
UNSTABLE = 1
"""In the variable ``rs`` of the map."""
Cell = tuple[tuple[float, float], float, float]
"""Corner, width, height."""


@figure("branch map")
def draw_branch_map(dataset: xr.Dataset, y: str = "risk") -> Any:
    """The regions of the map. Another variable is drawn as of the sweep that the file also is."""
    return draw_branches(dataset) if y == "risk" else draw_sweep(dataset, y)


def draw_branches(dataset: xr.Dataset) -> Any:
    """Cells of the grid by the number of branches, hatched where the best one is unstable, with
    contours of the gain (if compared).
    """
    over, control = dataset.attrs["over"], dataset.attrs["control"]
    data = dataset.sortby([over, control]).transpose(control, over, "branch")
    drawing, (panel,) = new_figure(1)
    scales = [spacing(data[name].values) for name in (over, control)]
    x, y = edges(data[over].values, scales[0]), edges(data[control].values, scales[1])
    handles = _regions(panel, data, x, y)
    handles += _gain(panel, data)
    panel.set(
        xlabel=label(data[over]),
        ylabel=label(data[control]),
        xlim=(x[0], x[-1]),
        ylim=(y[0], y[-1]),
    )
    scaled(panel, *scales)
    legend_above(drawing, panel, 2, handles)
    return drawing


def _regions(panel: Any, data: xr.Dataset, x: np.ndarray, y: np.ndarray) -> list[Any]:
    """The filled and the hatched cells; what they are, for the legend."""
    count, unstable = data["branches"].values, data["rs"].values == UNSTABLE
    handles = []
    for code in np.unique(count[count != UNKNOWN_BRANCH]):
        kind = min(int(code), len(COUNT_FILLS) - 1)
        fill = {"facecolor": COUNT_FILLS[kind], "edgecolor": COUNT_FILLS[kind], "linewidth": 0.3}
        handles.append(fill_cells(panel, _cells(x, y, count == code), COUNT_NAMES[kind], **fill))
    if unstable.any():
        where = _cells(x, y, unstable)
        handles.append(fill_cells(panel, where, "replica symmetry unstable", **HATCHED))
    return handles


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
        linewidths=[1.4 if level == 0 else 0.7 for level in levels],
        linestyles=["--" if level < 0 else "-" for level in levels],
    )
    panel.clabel(drawn, fontsize=6, fmt="%g")
    words = f"gain over {_reference(data)}, {label(data[name])}"
    return [legend_line(words, color=COLOURS[6], linewidth=0.7)]


def _reference(data: xr.Dataset) -> str:
    """What the map is compared with: the options of that sweep in which it differs."""
    mine = data.attrs.get("options", {})
    differing = [
        str(value) for key, value in data.attrs["compared"].items() if value != mine.get(key)
    ]
    return ", ".join(differing)


def spacing(values: np.ndarray) -> str:
    """The scale on which a grid is even: log or linear."""
    if len(values) < 3 or values[0] <= 0:
        return "linear"
    uneven = np.ptp(np.diff(values)) / np.mean(values)
    return "log" if np.ptp(np.diff(np.log(values))) < uneven else "linear"


def edges(values: np.ndarray, scale: str) -> np.ndarray:
    """The ends of the cells around the values of a grid."""
    if len(values) == 1:
        return np.array([values[0] - 0.5, values[0] + 0.5])
    at = np.log(values) if scale == "log" else values
    middle = (at[1:] + at[:-1]) / 2
    ends = np.concatenate([[2 * at[0] - middle[0]], middle, [2 * at[-1] - middle[-1]]])
    return np.exp(ends) if scale == "log" else ends


def _cells(x: np.ndarray, y: np.ndarray, chosen: np.ndarray) -> list[Cell]:
    """The chosen cells of shape (y, x)."""
    widths, heights = np.diff(x), np.diff(y)
    return [((x[j], y[i]), widths[j], heights[i]) for i, j in np.argwhere(chosen)]
