"""Which figure a file asks for."""

from __future__ import annotations

from typing import Any

import xarray as xr

from .branch_map import is_branch_map
from .branch_plot import draw_branches
from .curve_plot import draw_curve, is_curve
from .phase_plot import draw_phase, is_phase_diagram
from .plot import draw


def figure_of(dataset: xr.Dataset, y: str = "risk") -> Any:
    """The figure of a sweep, a phase diagram, a branch map or a curve of fixed points."""
    if is_branch_map(dataset) and y == "risk":  # other variables are drawn as of the sweep that it also is
        return draw_branches(dataset)
    if is_curve(dataset):
        return draw_curve(dataset, y)
    return draw_phase(dataset, y) if is_phase_diagram(dataset) else draw(dataset, y)
