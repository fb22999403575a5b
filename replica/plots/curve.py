"""The figure of a curve of fixed points: stable parts solid, unstable ones dashed, the thresholds
marked.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr

from ..errors import InputError
from ..inputs import nearest
from ..phase.curve import BETWEEN, FURTHER, INFORMED, MARGINAL, UNINFORMED
from .base import COLOURS, GREY, label, legend_above, new_figure, scaled
from .phase import LINES

PARTS = (
    (UNINFORMED, COLOURS[1], "uninformed branch"),
    (INFORMED, COLOURS[0], "informed branch"),
    (FURTHER, COLOURS[2], "further branch"),
)
ROOM = 0.35
"""Shown beyond the outermost threshold, as a share of the thresholds' range or of their size."""


def is_curve(dataset: xr.Dataset) -> bool:
    return dataset.attrs.get("kind") == "curve"


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
    figure, (panel,) = new_figure(1)
    shown: set[str] = set()
    for piece in np.unique(dataset["piece"].values):
        part = dataset.isel(point=dataset["piece"].values == piece)
        for rows, (colour, style, text) in _runs(part):
            panel.plot(
                part[control][rows],
                part[y][rows],
                color=colour,
                linestyle=style,
                label=None if text in shown else text,
                zorder=3,
            )
            shown.add(text)
    low, high = _limits(dataset)
    panel.set(
        xlabel=label(dataset[control]),
        ylabel=label(dataset[y]),
        xlim=(low, high),
        ylim=_heights(dataset, y, low, high),
    )
    scaled(panel, "log" if low > 0 and high > 20 * low else "linear", "linear")
    _mark_thresholds(panel, dataset)
    legend_above(figure, panel)
    return figure


def _runs(part: xr.Dataset) -> list[tuple[slice, tuple[str, Any, str]]]:
    """Slices of neighbouring points that are drawn alike: a segment is unstable if one of its ends
    is (folds are neither).
    """
    radius, roles = part["spectral_radius"].values, part["role"].values
    unstable = (radius > 1 + MARGINAL) | ((roles == BETWEEN) & ~(radius < 1 - MARGINAL))
    kinds = []
    for i, j in pairwise(range(len(roles))):
        if unstable[i] or unstable[j]:
            kinds.append((GREY, "--", "unstable"))
            continue
        role = roles[i] if roles[i] == roles[j] else BETWEEN
        kinds.append(next((colour, "-", text) for code, colour, text in PARTS if code == role))
    runs, start = [], 0
    for i in range(1, len(kinds) + 1):
        if i == len(kinds) or kinds[i] != kinds[start]:
            runs.append((slice(start, i + 1), kinds[start]))
            start = i
    return runs


def _limits(dataset: xr.Dataset) -> tuple[float, float]:
    """The range of the control that is worth showing."""
    places = [
        t["value"] for t in dataset.attrs["thresholds"].values() if t["value"] is not None
    ] + [f["value"] for f in dataset.attrs["folds"]]
    values = dataset[dataset.attrs["control"]].values
    if not places:
        return float(values.min()), float(values.max())
    first, last = min(places), max(places)
    room = max(ROOM * abs(first), ROOM * abs(last), 0.8 * (last - first))
    low, high = first - room, last + room
    return max(low, float(values.min())), min(high, float(values.max()))


def _heights(dataset: xr.Dataset, y: str, low: float, high: float) -> tuple[float, float]:
    x, values = dataset[dataset.attrs["control"]].values, dataset[y].values
    seen = values[(x >= low) & (x <= high) & np.isfinite(values)]
    room = 0.05 * (seen.max() - seen.min()) or 0.05 * max(abs(seen.max()), 1e-12)
    return float(seen.min() - room), float(seen.max() + room)


def _mark_thresholds(panel: Any, dataset: xr.Dataset) -> None:
    limits = dataset.attrs["thresholds"]
    values = [limits[name]["value"] for name, *_ in LINES]
    if dataset.attrs["transition"] == "continuous":
        panel.axvline(
            values[0],
            color=GREY,
            linestyle=":",
            linewidth=0.8,
            label="continuous transition",
            zorder=1,
        )
        return
    for (_, colour, style, text), value in zip(LINES, values, strict=True):
        if value is not None:
            panel.axvline(
                value,
                color=colour,
                linestyle=style,
                linewidth=0.8,
                label=f"{text}: {value:.4g}",
                zorder=1,
            )
