"""The figure of a phase diagram: its lines, and the phases between them filled."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from .plot import COLOURS, label, new_figure

FILLS = ("#BBBBBB", "#F0E442", "#56B4E9")
"""Impossible, hard, easy: grey, yellow, sky blue (Okabe-Ito), of falling and rising lightness also in grey print."""
LINES = (
    ("alpha_IT", COLOURS[6], "-", "information-theoretic"),
    ("alpha_alg", COLOURS[1], "--", "algorithmic"),
    ("alpha_inf", COLOURS[0], ":", "informed spinodal"),
)


def is_phase_diagram(dataset: xr.Dataset) -> bool:
    return dataset.attrs.get("kind") == "phase diagram"


def draw_phase(dataset: xr.Dataset) -> Any:
    """Threshold lines over the second control with the impossible, hard and easy phases filled; a dot where the hard one closes."""
    figure, (panel,) = new_figure(1)
    over, control = dataset.attrs["over"], dataset.attrs["control"]
    lines = dataset.sortby(over)
    x = lines[over].values
    low, high = float(lines[control].min()), float(lines[control].max())
    it, alg = _with_cusp(lines, "alpha_IT"), _with_cusp(lines, "alpha_alg")
    at = it[0]
    has = np.isfinite(it[1]) & np.isfinite(alg[1])
    falling = has.any() and np.mean((alg[1] - it[1])[has]) < 0  # along noise the easy phase is the lower one
    bottom, top = (high, low) if falling else (low, high)
    panel.fill_between(at, bottom, it[1], where=has, color=FILLS[0], alpha=0.5, linewidth=0, label="impossible")
    panel.fill_between(at, it[1], alg[1], where=has, color=FILLS[1], alpha=0.6, linewidth=0, label="hard")
    panel.fill_between(at, alg[1], top, where=has, color=FILLS[2], alpha=0.4, linewidth=0, label="easy")
    for name, colour, style, text in LINES:
        points, values = _with_cusp(lines, name)
        if np.isfinite(values).any():
            panel.plot(points, values, color=colour, linestyle=style, label=text, marker="." if np.isfinite(values).sum() < 3 else None)
    for point in dataset.attrs["tricritical"]:
        panel.plot(point[over], point[control], "o", color=COLOURS[6], markersize=4)
    scales = {"xscale": "log"} if x.min() > 0 and x.max() > 20 * x.min() else {}
    panel.set(xlabel=label(lines[over]), ylabel=label(lines[control]), xlim=(x.min(), x.max()) if x.size > 1 else None, ylim=(low, high), **scales)
    panel.legend(frameon=False, fontsize=8)
    return figure


def _with_cusp(lines: xr.Dataset, name: str) -> tuple[np.ndarray, np.ndarray]:
    """A line with the points where the hard phase closes, at which all three lines meet."""
    over, control = lines.attrs["over"], lines.attrs["control"]
    closing = lines.attrs["tricritical"]
    x = np.concatenate([lines[over].values, [p[over] for p in closing]])
    y = np.concatenate([lines[name].values, [p[control] for p in closing]])
    order = np.argsort(x)
    return x[order], y[order]
