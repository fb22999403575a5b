"""The figure of a phase diagram: its lines with the phases between them filled, and the risk with
its contours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from ..errors import InputError
from .base import COLOURS, label, legend_above, new_figure, round_levels, scaled, shades

FILLS = ("#D9D9D9", "#F7EE9B", "#BFE3F7")
"""Impossible, hard, easy: grey, yellow, sky blue (Okabe-Ito, lightened; opaque, since not every
program draws transparency alike).
"""
LINES = (
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


def is_phase_diagram(dataset: xr.Dataset) -> bool:
    return dataset.attrs.get("kind") == "phase diagram"


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
    shown = (
        lines[MAPS[y]]
        if MAPS[y] in lines
        and lines.sizes[lines.attrs["over"]] > 1
        and bool(np.isfinite(lines[MAPS[y]]).any())
        else None
    )
    figure, panels = new_figure(1 if shown is None else 2)
    _phases(panels[0], lines)
    _thresholds(panels[0], lines)
    _axes(panels[0], lines)
    if shown is not None:
        _risk(figure, panels[1], lines, shown)
        _thresholds(panels[1], lines)
        _axes(panels[1], lines)
    legend_above(figure, panels[0], 3 if shown is not None and figure.get_figwidth() > 6 else 2)
    return figure


def _phases(panel: Any, lines: xr.Dataset) -> None:
    """Impossible, hard and easy, where there is a transition."""
    control = lines.attrs["control"]
    low, high = float(lines[control].min()), float(lines[control].max())
    (x, it), (_, alg) = _with_cusp(lines, "alpha_IT"), _with_cusp(lines, "alpha_alg")
    has = np.isfinite(it) & np.isfinite(alg)
    falling = (
        has.any() and np.mean((alg - it)[has]) < 0
    )  # along noise the easy phase is the lower one
    bottom, top = (high, low) if falling else (low, high)
    panel.fill_between(x, bottom, it, where=has, color=FILLS[0], linewidth=0, label="impossible")
    panel.fill_between(x, it, alg, where=has, color=FILLS[1], linewidth=0, label="hard")
    panel.fill_between(x, alg, top, where=has, color=FILLS[2], linewidth=0, label="easy")


def _thresholds(panel: Any, lines: xr.Dataset) -> None:
    over, control = lines.attrs["over"], lines.attrs["control"]
    for name, colour, style, text in LINES:
        points, values = _with_cusp(lines, name)
        if np.isfinite(values).any():
            panel.plot(
                points,
                values,
                color=colour,
                linestyle=style,
                label=text,
                marker="." if np.isfinite(values).sum() < 3 else None,
            )
    for point in lines.attrs["tricritical"]:
        panel.plot(point[over], point[control], "o", color=COLOURS[6], markersize=4)


def _axes(panel: Any, lines: xr.Dataset) -> None:
    over, control = lines.attrs["over"], lines.attrs["control"]
    x, values = lines[over].values, lines[control].values
    scaled(
        panel, *("log" if v.min() > 0 and v.max() > 20 * v.min() else "linear" for v in (x, values))
    )
    limits = {
        "xlim": (x.min(), x.max()) if x.size > 1 else None,
        "ylim": (values.min(), values.max()),
    }
    panel.set(xlabel=label(lines[over]), ylabel=label(lines[control]), **limits)


def _risk(figure: Any, panel: Any, lines: xr.Dataset, risk: xr.DataArray) -> None:
    """A map of the risk with contours, which are not drawn across the jump where the algorithm
    finds the informed branch.
    """
    over, control = lines.attrs["over"], lines.attrs["control"]
    x, y, values = lines[over].values, lines[control].values, risk.transpose(control, over).values
    mesh = panel.pcolormesh(x, y, values, cmap=shades(SHADES), shading="nearest", rasterized=True)
    jump = "alpha_alg" if risk.name == "algorithmic_risk" else "alpha_IT"
    past = y[:, None] >= lines[jump].values
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    levels = round_levels(low, high)
    for side in (past, ~past):
        part = np.where(side, values, np.nan)
        inside = (
            [v for v in levels if np.nanmin(part) < v < np.nanmax(part)]
            if np.isfinite(part).any()
            else []
        )
        if inside and min(part.shape) > 1:
            inks = [
                "black" if v > (low + high) / 2 else "white" for v in inside
            ]  # the map is bright where the risk is large
            drawn = panel.contour(x, y, part, levels=inside, colors=inks, linewidths=0.6)
            panel.clabel(drawn, fontsize=6, fmt="%g")
    figure.colorbar(mesh, ax=panel, label=label(risk))


def _with_cusp(lines: xr.Dataset, name: str) -> tuple[np.ndarray, np.ndarray]:
    """A line with the points where the hard phase closes, at which all three lines meet."""
    over, control = lines.attrs["over"], lines.attrs["control"]
    closing = lines.attrs["tricritical"]
    x = np.concatenate([lines[over].values, [p[over] for p in closing]])
    y = np.concatenate([lines[name].values, [p[control] for p in closing]])
    order = np.argsort(x)
    return x[order], y[order]
