"""Figure of where population gradient flow ends: the largest cross term of every random start, one
column per setting.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from solvers.result import Status

from .base import COLOURS, new_figure
from .registry import figure

SMALLEST = 1e-16
"""Drawn for anything below, on a logarithmic axis."""
WIDTH = 0.7
"""Of a column; neighbours are 1 apart."""
REST = {"marker": "o", "linestyle": "", "color": COLOURS[0], "markersize": 2}
MOVING = {"marker": "x", "linestyle": "", "color": COLOURS[1], "markersize": 3}


@figure("evidence")
def draw_evidence(dataset: xr.Dataset, y: str = "cross") -> Any:
    """One setting. There is one picture, whatever ``y``."""
    return draw_manifold([dataset])


def draw_manifold(found: Sequence[xr.Dataset]) -> Any:
    """The largest cross term at the end of every start; one panel per location rule, one column per
    activation and L.

    Dots rest, crosses still move when their time is up.

    Parameters
    ----------
    found : sequence of datasets of ``descent.evidence``
    """
    rules = list(dict.fromkeys(dataset.attrs["options"]["rule"] for dataset in found))
    drawing, panels = new_figure(len(rules))
    for panel, rule in zip(panels, rules, strict=True):
        columns = [dataset for dataset in found if dataset.attrs["options"]["rule"] == rule]
        for i, dataset in enumerate(columns):
            _column(panel, i, dataset)
        panel.set_xticks(
            range(len(columns)), map(_setting, columns), rotation=60, ha="right", fontsize=7
        )
        panel.set(
            ylabel="largest cross term at the end",
            yscale="log",
            title=rule,
            ylim=(SMALLEST / 3, 30),
        )
        panel.plot([], [], **REST, label="at rest")
        panel.plot([], [], **MOVING, label="still moving")
        panel.legend(frameon=False, loc="center left")
    return drawing


def _column(panel: Any, number: int, dataset: xr.Dataset) -> None:
    """The starts of one setting beside each other."""
    rests = dataset.status.values == Status.SUCCESSFUL.code
    x = number + np.linspace(-WIDTH / 2, WIDTH / 2, len(rests))
    y = np.maximum(dataset.cross.values, SMALLEST)
    panel.plot(x[rests], y[rests], **REST)
    panel.plot(x[~rests], y[~rests], **MOVING)


def _setting(dataset: xr.Dataset) -> str:
    activation, length = dataset.attrs["options"]["activation"], dataset.attrs["controls"]["L"]
    return f"{activation}, $L={length:g}$"
