"""Figure of where population gradient flow ends: the largest cross term of every random start, one column per setting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from solvers import Status

from .plot import COLOURS, new_figure

SMALLEST = 1e-16


def draw_manifold(found: Mapping[tuple[str, str, int], xr.Dataset]) -> Any:
    """Dots: the largest cross term at the end, against its value at the start; one panel per location rule, one colour per activation."""
    rules = list(dict.fromkeys(rule for _, rule, *_ in found))
    activations = list(dict.fromkeys(activation for activation, *_ in found))
    figure, axes = new_figure(len(rules))
    for panel, rule in zip(axes, rules, strict=True):
        for (activation, its_rule, _), dataset in found.items():
            if its_rule != rule:
                continue
            rests = dataset.status.values == Status.SUCCESSFUL.code
            x = _largest_cross(dataset.initial.values)
            y = np.maximum(dataset.cross.values, SMALLEST)
            colour = COLOURS[activations.index(activation) % len(COLOURS)]
            panel.plot(x[rests], y[rests], "o", color=colour, markersize=2, label=activation)
            panel.plot(x[~rests], y[~rests], "x", color=colour, markersize=4)
        panel.set(xlabel="largest cross term at the start", ylabel="at the end", xscale="log", yscale="log", title=rule, ylim=(SMALLEST / 3, 30))
        entries = dict(zip(*panel.get_legend_handles_labels()[::-1], strict=True))
        panel.legend(entries.values(), entries.keys(), frameon=False, loc="center left", markerscale=2)
    return figure


def _largest_cross(initial: np.ndarray) -> np.ndarray:
    """Of k.v*, v.k*, k.v; the teacher lies along the last axis (k*... v* last)."""
    k, v = initial[:, 0], initial[:, 1]
    return np.max(np.abs(np.stack([k[:, 0], v[:, 1], np.sum(k * v, axis=1)])), axis=0)
