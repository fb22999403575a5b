"""The figure of a curve of fixed points: stable parts solid, unstable ones dashed, the thresholds
marked.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from ..errors import InputError
from ..inputs import nearest
from ..phase.roles import BETWEEN, FURTHER, INFORMED, MARGINAL, UNINFORMED
from .base import COLOURS, GREY, label, legend_above, new_figure, scale_of, scaled
from .phase import THRESHOLD_LINES
from .registry import figure


class Look(NamedTuple):
    """How a part of the curve is drawn."""

    colour: str
    style: str
    text: str


LOOKS = {
    UNINFORMED: Look(COLOURS[1], "-", "uninformed branch"),
    INFORMED: Look(COLOURS[0], "-", "informed branch"),
    FURTHER: Look(COLOURS[2], "-", "further branch"),
}
UNSTABLE = Look(GREY, "--", "unstable")
ROOM = 0.35
"""Shown beyond the outermost threshold, as a share of its size."""
SPREAD = 0.8
"""The same as a share of the thresholds' range; the larger of both is shown."""
MARGIN = 0.05
"""Above and below the curve, as a share of its height."""


@figure("curve")
def draw_curve(dataset: xr.Dataset, y: str = "risk") -> Any:
    """One variable along the curve against the control; the unstable part dashed, thresholds as
    vertical lines.

    Raises
    ------
    InputError
        No such variable.
    """
    control = dataset.attrs["control"]
    known = [str(n) for n in dataset.data_vars if f"error_{n}" in dataset and n != control]
    if y not in known:
        raise InputError(f"the curve has no variable {y!r}: {nearest(y, known)}")
    drawing, (panel,) = new_figure(1)
    _pieces(panel, dataset, y)
    low, high = _limits(dataset)
    panel.set(
        xlabel=label(dataset[control]),
        ylabel=label(dataset[y]),
        xlim=(low, high),
        ylim=_heights(dataset, y, low, high),
    )
    scaled(panel, scale_of(low, high), "linear")
    _mark_thresholds(panel, dataset)
    legend_above(drawing, panel)
    return drawing


def _pieces(panel: Any, dataset: xr.Dataset, y: str) -> None:
    """Every connected piece, in runs that are drawn alike; each look once in the legend."""
    control, piece = dataset.attrs["control"], dataset["piece"].values
    shown: set[str] = set()
    for number in np.unique(piece):
        part = dataset.isel(point=piece == number)
        for rows, look in _runs(part):
            panel.plot(
                part[control][rows],
                part[y][rows],
                color=look.colour,
                linestyle=look.style,
                label=None if look.text in shown else look.text,
                zorder=3,
            )
            shown.add(look.text)


def _runs(part: xr.Dataset) -> list[tuple[slice, Look]]:
    """Slices of neighbouring points that are drawn alike."""
    looks = _segments(part)
    runs, start = [], 0
    for i in range(1, len(looks) + 1):
        if i == len(looks) or looks[i] != looks[start]:
            runs.append((slice(start, i + 1), looks[start]))
            start = i
    return runs


def _segments(part: xr.Dataset) -> list[Look]:
    """The look of every segment between two points: unstable if one of its ends is (folds are
    neither).
    """
    radius, roles = part["spectral_radius"].values, part["role"].values
    unstable = (radius > 1 + MARGINAL) | ((roles == BETWEEN) & ~(radius < 1 - MARGINAL))
    looks = []
    for i in range(len(roles) - 1):
        if unstable[i] or unstable[i + 1]:
            looks.append(UNSTABLE)
        else:
            role = roles[i] if roles[i] == roles[i + 1] else BETWEEN
            # What is stable between the two branches is one more branch.
            looks.append(LOOKS.get(int(role), LOOKS[FURTHER]))
    return looks


def _limits(dataset: xr.Dataset) -> tuple[float, float]:
    """The range of the control that is worth showing."""
    thresholds = [t["value"] for t in dataset.attrs["thresholds"].values()]
    marked = [value for value in thresholds if value is not None]
    marked += [fold["value"] for fold in dataset.attrs["folds"]]
    values = dataset[dataset.attrs["control"]].values
    if not marked:
        return float(values.min()), float(values.max())
    first, last = min(marked), max(marked)
    room = max(ROOM * abs(first), ROOM * abs(last), SPREAD * (last - first))
    return max(first - room, float(values.min())), min(last + room, float(values.max()))


def _heights(dataset: xr.Dataset, y: str, low: float, high: float) -> tuple[float, float]:
    """The range of the variable in the shown range of the control, with some room."""
    x, values = dataset[dataset.attrs["control"]].values, dataset[y].values
    seen = values[(x >= low) & (x <= high) & np.isfinite(values)]
    # A constant has no height: then a share of its value.
    room = MARGIN * (seen.max() - seen.min()) or MARGIN * max(abs(seen.max()), 1e-12)
    return float(seen.min() - room), float(seen.max() + room)


def _mark_thresholds(panel: Any, dataset: xr.Dataset) -> None:
    """Vertical lines, thin and behind the curve."""
    limits = dataset.attrs["thresholds"]
    thin = {"linewidth": 0.8, "zorder": 1}
    if dataset.attrs["transition"] == "continuous":
        # All three thresholds are the one point.
        (name, *_), *_ = THRESHOLD_LINES
        place = limits[name]["value"]
        panel.axvline(place, color=GREY, linestyle=":", label="continuous transition", **thin)
        return
    for name, colour, style, text in THRESHOLD_LINES:
        value = limits[name]["value"]
        if value is not None:
            words = f"{text}: {value:.4g}"
            panel.axvline(value, color=colour, linestyle=style, label=words, **thin)
