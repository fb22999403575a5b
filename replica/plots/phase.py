"""The figure of a phase diagram: its lines with the phases between them filled, and the risk with
its contours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from ..errors import InputError
from .base import (
    COLOURS,
    colour_map,
    label,
    legend_above,
    new_figure,
    round_levels,
    scale_of,
    scaled,
)
from .registry import figure

PHASE_FILLS = ("#D9D9D9", "#F7EE9B", "#BFE3F7")
"""Impossible, hard, easy: grey, yellow, sky blue (Okabe-Ito, lightened; opaque, since not every
program draws transparency alike).
"""
THRESHOLD_LINES = (
    ("alpha_IT", COLOURS[6], "-", "information-theoretic"),
    ("alpha_alg", COLOURS[1], "--", "algorithmic"),
    ("alpha_inf", COLOURS[0], ":", "informed spinodal"),
)
MAPS = {
    "risk": "algorithmic_risk",
    "algorithmic_risk": "algorithmic_risk",
    "best_risk": "best_risk",
}
"""What may be drawn beside the phases."""
SHADES = 48


@figure("phase diagram")
def draw_phase(dataset: xr.Dataset, y: str = "risk") -> Any:
    """Threshold lines over the second control with the phases filled, a dot where the hard one
    closes; beside it a map of the risk.

    Raises
    ------
    InputError
        ``y`` is neither the algorithm's risk nor the best one.
    """
    if y not in MAPS:
        raise InputError(f"a phase diagram has no map of {y!r}: choose {' or '.join(MAPS)}")
    lines = dataset.sortby(dataset.attrs["over"])
    risk = _shown_risk(lines, MAPS[y])
    drawing, panels = new_figure(1 if risk is None else 2)
    _phases(panels[0], lines)
    _thresholds(panels[0], lines)
    _axes(panels[0], lines)
    if risk is not None:
        _risk(drawing, panels[1], lines, risk)
        _thresholds(panels[1], lines)
        _axes(panels[1], lines)
    side_by_side = risk is not None and drawing.get_figwidth() > 6
    legend_above(drawing, panels[0], 3 if side_by_side else 2)
    return drawing


def _shown_risk(lines: xr.Dataset, name: str) -> xr.DataArray | None:
    """What the second panel shows; None if there is nothing to make a map of."""
    if name not in lines or lines.sizes[lines.attrs["over"]] < 2:
        return None
    return lines[name] if bool(np.isfinite(lines[name]).any()) else None


def _phases(panel: Any, lines: xr.Dataset) -> None:
    """Impossible, hard and easy, where there is a transition."""
    control = lines.attrs["control"]
    low, high = float(lines[control].min()), float(lines[control].max())
    (x, it), (_, alg) = _with_cusp(lines, "alpha_IT"), _with_cusp(lines, "alpha_alg")
    has = np.isfinite(it) & np.isfinite(alg)
    # Along noise the easy phase is the lower one.
    falling = has.any() and np.mean((alg - it)[has]) < 0
    bottom, top = (high, low) if falling else (low, high)
    regions = (("impossible", bottom, it), ("hard", it, alg), ("easy", alg, top))
    for (name, start, end), fill in zip(regions, PHASE_FILLS, strict=True):
        panel.fill_between(x, start, end, where=has, color=fill, linewidth=0, label=name)


def _thresholds(panel: Any, lines: xr.Dataset) -> None:
    over, control = lines.attrs["over"], lines.attrs["control"]
    for name, colour, style, text in THRESHOLD_LINES:
        points, values = _with_cusp(lines, name)
        known = np.isfinite(values).sum()
        if known:
            # One or two points make no line that one could see.
            marker = "." if known < 3 else None
            panel.plot(points, values, color=colour, linestyle=style, label=text, marker=marker)
    for point in lines.attrs["tricritical"]:
        panel.plot(point[over], point[control], "o", color=COLOURS[6], markersize=4)


def _axes(panel: Any, lines: xr.Dataset) -> None:
    over, control = lines.attrs["over"], lines.attrs["control"]
    x, values = lines[over].values, lines[control].values
    scaled(panel, scale_of(x.min(), x.max()), scale_of(values.min(), values.max()))
    panel.set(
        xlabel=label(lines[over]),
        ylabel=label(lines[control]),
        xlim=(x.min(), x.max()) if x.size > 1 else None,
        ylim=(values.min(), values.max()),
    )


def _risk(drawing: Any, panel: Any, lines: xr.Dataset, risk: xr.DataArray) -> None:
    """A map of the risk with contours, which are not drawn across the jump where the algorithm
    finds the informed branch.
    """
    over, control = lines.attrs["over"], lines.attrs["control"]
    x, height = lines[over].values, lines[control].values
    values = risk.transpose(control, over).values
    mesh = panel.pcolormesh(
        x, height, values, cmap=colour_map(SHADES), shading="nearest", rasterized=True
    )
    jump = "alpha_alg" if risk.name == "algorithmic_risk" else "alpha_IT"
    past = height[:, None] >= lines[jump].values
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    levels = round_levels(low, high)
    for side in (past, ~past):
        part = np.where(side, values, np.nan)
        inside = _levels_inside(levels, part)
        if inside and min(part.shape) > 1:
            # The map is bright where the risk is large.
            inks = ["black" if level > (low + high) / 2 else "white" for level in inside]
            drawn = panel.contour(x, height, part, levels=inside, colors=inks, linewidths=0.6)
            panel.clabel(drawn, fontsize=6, fmt="%g")
    drawing.colorbar(mesh, ax=panel, label=label(risk))


def _levels_inside(levels: np.ndarray, values: np.ndarray) -> list[float]:
    """The levels that the values cross."""
    if not np.isfinite(values).any():
        return []
    low, high = np.nanmin(values), np.nanmax(values)
    return [level for level in levels if low < level < high]


def _with_cusp(lines: xr.Dataset, name: str) -> tuple[np.ndarray, np.ndarray]:
    """A line with the points where the hard phase closes, at which all three lines meet."""
    over, control = lines.attrs["over"], lines.attrs["control"]
    closing = lines.attrs["tricritical"]
    x = np.concatenate([lines[over].values, [p[over] for p in closing]])
    y = np.concatenate([lines[name].values, [p[control] for p in closing]])
    order = np.argsort(x)
    return x[order], y[order]
