"""Figure of where population gradient flow ends: the largest cross term of every random start, one
column per setting.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from solvers import Status

from .base import COLOURS, new_figure

SMALLEST = 1e-16


def is_evidence(dataset: xr.Dataset) -> bool:
    return dataset.attrs.get("kind") == "evidence"


def draw_manifold(found: Sequence[xr.Dataset]) -> Any:
    """The largest cross term at the end of every start; one panel per location rule, one column per
    activation and L.

    Dots rest, crosses still move when their time is up.

    Parameters
    ----------
    found : sequence of datasets of ``descent.evidence``
    """
    rules = list(dict.fromkeys(dataset.attrs["options"]["rule"] for dataset in found))
    figure, axes = new_figure(len(rules))
    for panel, rule in zip(axes, rules, strict=True):
        columns = [dataset for dataset in found if dataset.attrs["options"]["rule"] == rule]
        for i, dataset in enumerate(columns):
            rests = dataset.status.values == Status.SUCCESSFUL.code
            x = i + np.linspace(-0.35, 0.35, len(rests))
            y = np.maximum(dataset.cross.values, SMALLEST)
            panel.plot(x[rests], y[rests], "o", color=COLOURS[0], markersize=2)
            panel.plot(x[~rests], y[~rests], "x", color=COLOURS[1], markersize=3)
        names = [
            f"{d.attrs['options']['activation']}, $L={d.attrs['controls']['L']:g}$" for d in columns
        ]
        panel.set_xticks(range(len(columns)), names, rotation=60, ha="right", fontsize=7)
        panel.set(
            ylabel="largest cross term at the end",
            yscale="log",
            title=rule,
            ylim=(SMALLEST / 3, 30),
        )
        panel.plot([], [], "o", color=COLOURS[0], markersize=2, label="at rest")
        panel.plot([], [], "x", color=COLOURS[1], markersize=3, label="still moving")
        panel.legend(frameon=False, loc="center left")
    return figure
