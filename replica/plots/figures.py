"""Which figure a file asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import xarray as xr

from ..phase.branch_map import is_branch_map
from . import manifold, subspace
from .base import draw, draw_together
from .branches import draw_branches
from .checks import split_checks, with_checks
from .curve import draw_curve, is_curve
from .phase import draw_phase, is_phase_diagram


def figure_of_all(datasets: Sequence[xr.Dataset], y: str = "risk") -> Any:
    """The figure of one file, or of several sweeps on one axis; checks are drawn as dots on the
    sweeps.
    """
    curves, checks = split_checks(datasets)
    figure = (
        draw_together(curves, y) if len(curves) > 1 else figure_of(curves[0], y) if curves else None
    )
    return with_checks(figure, curves, checks, y)


def figure_of(dataset: xr.Dataset, y: str = "risk") -> Any:
    """The figure of a sweep, a phase diagram, a branch map, a curve of fixed points or a
    simulation.
    """
    if (
        is_branch_map(dataset) and y == "risk"
    ):  # other variables are drawn as of the sweep that it also is
        return draw_branches(dataset)
    if is_curve(dataset):
        return draw_curve(dataset, y)
    if subspace.is_ascent(dataset):
        return subspace.draw_check(dataset)
    if manifold.is_evidence(dataset):
        return manifold.draw_manifold([dataset])
    if subspace.is_sign_diagram(dataset):
        return subspace.draw_sign(dataset)
    return draw_phase(dataset, y) if is_phase_diagram(dataset) else draw(dataset, y)
