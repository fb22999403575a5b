"""Which figure a file asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import xarray as xr

from . import manifold_plot, subspace_plot
from .branch_map import is_branch_map
from .branch_plot import draw_branches
from .check_plot import split_checks, with_checks
from .curve_plot import draw_curve, is_curve
from .phase_plot import draw_phase, is_phase_diagram
from .plot import draw, draw_together


def figure_of_all(datasets: Sequence[xr.Dataset], y: str = "risk") -> Any:
    """The figure of one file, or of several sweeps on one axis; checks are drawn as dots on the sweeps."""
    curves, checks = split_checks(datasets)
    figure = draw_together(curves, y) if len(curves) > 1 else figure_of(curves[0], y) if curves else None
    return with_checks(figure, curves, checks, y)


def figure_of(dataset: xr.Dataset, y: str = "risk") -> Any:
    """The figure of a sweep, a phase diagram, a branch map, a curve of fixed points or a simulation."""
    if is_branch_map(dataset) and y == "risk":  # other variables are drawn as of the sweep that it also is
        return draw_branches(dataset)
    if is_curve(dataset):
        return draw_curve(dataset, y)
    if subspace_plot.is_ascent(dataset):
        return subspace_plot.draw_check(dataset)
    if manifold_plot.is_evidence(dataset):
        return manifold_plot.draw_manifold([dataset])
    if subspace_plot.is_sign_diagram(dataset):
        return subspace_plot.draw_sign(dataset)
    return draw_phase(dataset, y) if is_phase_diagram(dataset) else draw(dataset, y)
