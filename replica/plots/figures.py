"""The figure of files: of one, of several sweeps on one axis, of checks on a sweep."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import xarray as xr

from ..errors import InputError
from ..files import store
from .base import drawn_as
from .checks import split_checks, with_checks
from .registry import drawing_of, kind_of
from .sweeps import draw_together


def plot(
    *datasets: xr.Dataset | str | os.PathLike[str], y: str = "risk", style: str = "default"
) -> Any:
    """Draw what was computed: a sweep, a phase diagram, a curve of fixed points, a check, ...

    Parameters
    ----------
    *datasets : xarray.Dataset or path
        What ``sweep``, ``phase_diagram``, ``curve`` or ``load`` returns, or the files. Several
        sweeps over the same control go on one axis, checks on them as dots.
    y : str
        The variable to draw.
    style : str
        "default", or "paper": one column of a two-column paper.

    Returns
    -------
    matplotlib.figure.Figure
        A notebook shows it; ``savefig`` writes it.

    Raises
    ------
    InputError
        Nothing to draw, no such variable or style, or files that do not belong together.
    """
    if not datasets:
        raise InputError("there is nothing to draw: give datasets or the names of their files")
    loaded = [_loaded(dataset) for dataset in datasets]
    with drawn_as(style):
        return figure_of_all(loaded, y)


def _loaded(dataset: Any) -> xr.Dataset:
    if isinstance(dataset, xr.Dataset):
        return dataset
    if isinstance(dataset, str | os.PathLike):
        return store.load(dataset)
    raise InputError(
        f"cannot draw a {type(dataset).__name__}: give a dataset (of a sweep, a phase diagram, a"
        " curve or a check) or the name of its file"
    )


def figure_of_all(datasets: Sequence[xr.Dataset], y: str = "risk") -> Any:
    """The figure of one file, or of several sweeps on one axis; checks are drawn as dots on the
    sweeps.
    """
    curves, checks = split_checks([_with_branches(dataset) for dataset in datasets])
    drawn = None
    if len(curves) == 1:
        drawn = figure_of(curves[0], y)
    elif curves:
        drawn = draw_together(curves, y)
    return with_checks(drawn, curves, checks, y)


def _with_branches(dataset: xr.Dataset) -> xr.Dataset:
    """A dataset of which one branch was chosen has that one."""
    if "branch" in dataset.coords and dataset["branch"].ndim == 0:
        return dataset.expand_dims("branch", axis=-1)
    return dataset


def figure_of(dataset: xr.Dataset, y: str = "risk") -> Any:
    """The figure of one file, by its kind."""
    draw = drawing_of(dataset)
    try:
        return draw(dataset, y)
    except KeyError as problem:  # parts of a file may be dropped by the program that saved it again
        missing = str(problem.args[0]).partition(". ")[0] if problem.args else "a part"
        raise InputError(
            f"a figure of kind {kind_of(dataset)!r} needs more than this dataset has ({missing}):"
            " draw the file as it was made"
        ) from problem
