"""Figures of signal subspace recovery: alignment against iteration, and the phase diagram of the
sign.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from .base import COLOURS, label, line_look, new_figure
from .phase import PHASE_FILLS
from .registry import figure

BAND = (0.1, 0.9)
"""Quantiles of the trials that are shaded."""
CROWDING = (0.01, 0.03, 0.1, 0.3)
"""Values of (d - 1)/L whose boundary is drawn."""
ALIGNMENT = r"$|q_k\cdot\xi|$"


def _is_ascent(dataset: xr.Dataset) -> bool:
    """Checks of stochastic ascent store paths, beside the comparisons that every check has."""
    return "rho_flow" in dataset


def draw_ascent(panels: Mapping[str, Mapping[str, xr.Dataset]]) -> Any:
    """One panel per title, one curve per run: mean of ``|rho|`` over trials with a 10-90 % band;
    dotted, the mean path of the theory.

    Parameters
    ----------
    panels : dict of title -> dict of label -> dataset of ``check.ascent.check``
    """
    drawing, axes = new_figure(len(panels))
    theory = {"color": "black", "linestyle": ":", "linewidth": 1}
    for panel, (title, runs) in zip(axes, panels.items(), strict=True):
        for i, (name, run) in enumerate(runs.items()):
            # The axis is logarithmic: without step 0.
            step, rho = run.step.values[1:], np.abs(run.rho.values[:, 1:])
            expected = np.abs(run.rho_theory.values[:, 1:]).mean(axis=0)
            look = line_look(i)
            low, high = np.quantile(rho, BAND, axis=0)
            panel.fill_between(step, low, high, color=look["color"], alpha=0.2, linewidth=0)
            panel.plot(step, rho.mean(axis=0), **look, linewidth=1.2, label=name)
            panel.plot(step, expected, **theory)
        panel.plot([], [], **theory, label="theory")
        panel.set(xlabel="iteration", ylabel=ALIGNMENT, xscale="log", ylim=(0, 1.02), title=title)
        panel.legend(frameon=False, fontsize=8, loc="upper left")
    return drawing


@figure("check", when=_is_ascent)
def draw_ascent_check(dataset: xr.Dataset, y: str = "rho") -> Any:
    """One stored check: the simulation in rescaled time with its band, the flow and the mean path
    of the theory. There is one picture, whatever ``y``.
    """
    drawing, (panel,) = new_figure(1)
    time, rho = dataset.time.values, np.abs(dataset.rho.values)
    theory = np.abs(dataset.rho_theory.values).mean(axis=0)
    flow = np.abs(dataset.rho_flow.values).mean(axis=0)
    low, high = np.quantile(rho, BAND, axis=0)
    band = f"10-90 % of {rho.shape[0]} trials"
    panel.fill_between(time, low, high, color=COLOURS[0], alpha=0.25, linewidth=0, label=band)
    panel.plot(time, rho.mean(axis=0), color=COLOURS[0], label="simulation, mean")
    panel.plot(time, theory, color="black", linestyle=":", label="theory with gradient noise")
    panel.plot(time, flow, color=COLOURS[1], linestyle="--", label="flow (steps to zero)")
    panel.set(xlabel=r"$\sum_k\eta_k$", ylabel=ALIGNMENT, ylim=(0, 1.02))
    panel.legend(frameon=False)
    return drawing


@figure("sign diagram")
def draw_sign(dataset: xr.Dataset, y: str = "boundary_share") -> Any:
    """Where -xi attracts too: at L = infinity (filled), and at finite (d - 1)/L (contours). There
    is one picture, whatever ``y``.
    """
    drawing, (panel,) = new_figure(1)
    theta, r = dataset.theta.values, dataset.r.values
    boundary = dataset.boundary_share.values
    panel.fill_between(
        theta,
        0,
        boundary,
        color=PHASE_FILLS[1],
        alpha=0.6,
        linewidth=0,
        label=r"$-\xi$ attracts too, $L=\infty$",
    )
    panel.plot(theta, boundary, color=COLOURS[6])
    values = dataset.boundary_crowding.values.T
    if min(values.shape) > 1 and values.max() > CROWDING[0]:
        ink = COLOURS[0]
        lines = panel.contour(theta, r, values, levels=CROWDING, colors=[ink], linewidths=0.8)
        panel.clabel(lines, fontsize=7)
        panel.plot([], [], color=ink, linewidth=0.8, label="boundary at this $(d-1)/L$")
    panel.set(
        xlabel=label(dataset.theta),
        ylabel=label(dataset.r),
        xlim=(theta.min(), theta.max()),
        ylim=(r.min(), r.max()),
    )
    panel.legend(frameon=False, fontsize=8)
    return drawing
