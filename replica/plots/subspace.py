"""Figures of signal subspace recovery: alignment against iteration, and the phase diagram of the
sign.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from .base import COLOURS, STYLES, label, new_figure
from .phase import FILLS


def is_ascent(dataset: xr.Dataset) -> bool:
    return dataset.attrs.get("kind") == "check" and "rho_flow" in dataset


def is_sign_diagram(dataset: xr.Dataset) -> bool:
    return dataset.attrs.get("kind") == "sign diagram"


def draw_ascent(panels: Mapping[str, Mapping[str, xr.Dataset]]) -> Any:
    """One panel per title, one curve per run: mean of |rho| over trials with a 10-90 % band;
    dotted, the mean path of the theory.

    Parameters
    ----------
    panels : dict of title -> dict of label -> dataset of ``subspace_check.check``
    """
    figure, axes = new_figure(len(panels))
    for panel, (title, runs) in zip(axes, panels.items(), strict=True):
        for i, (name, run) in enumerate(runs.items()):
            step, rho = (
                run.step.values[1:],
                np.abs(run.rho.values[:, 1:]),
            )  # the axis is logarithmic: without step 0
            low, high = np.quantile(rho, [0.1, 0.9], axis=0)
            panel.fill_between(step, low, high, color=COLOURS[i % 7], alpha=0.2, linewidth=0)
            panel.plot(
                step,
                rho.mean(axis=0),
                color=COLOURS[i % 7],
                linestyle=STYLES[i % 5],
                linewidth=1.2,
                label=name,
            )
            panel.plot(
                step,
                np.abs(run.rho_theory.values[:, 1:]).mean(axis=0),
                color="black",
                linestyle=":",
                linewidth=1,
            )
        panel.plot([], [], color="black", linestyle=":", linewidth=1, label="theory")
        panel.set(
            xlabel="iteration", ylabel=r"$|q_k\cdot\xi|$", xscale="log", ylim=(0, 1.02), title=title
        )
        panel.legend(frameon=False, fontsize=8, loc="upper left")
    return figure


def draw_check(dataset: xr.Dataset) -> Any:
    """One stored check: the simulation in rescaled time with its band, the flow and the mean path
    of the theory.
    """
    figure, (panel,) = new_figure(1)
    time, rho = dataset.time.values, np.abs(dataset.rho.values)
    low, high = np.quantile(rho, [0.1, 0.9], axis=0)
    panel.fill_between(
        time,
        low,
        high,
        color=COLOURS[0],
        alpha=0.25,
        linewidth=0,
        label=f"10-90 % of {rho.shape[0]} trials",
    )
    panel.plot(time, rho.mean(axis=0), color=COLOURS[0], label="simulation, mean")
    panel.plot(
        time,
        np.abs(dataset.rho_theory.values).mean(axis=0),
        color="black",
        linestyle=":",
        label="theory with gradient noise",
    )
    panel.plot(
        time,
        np.abs(dataset.rho_flow.values).mean(axis=0),
        color=COLOURS[1],
        linestyle="--",
        label="flow (steps to zero)",
    )
    panel.set(xlabel=r"$\sum_k\eta_k$", ylabel=r"$|q_k\cdot\xi|$", ylim=(0, 1.02))
    panel.legend(frameon=False)
    return figure


def draw_sign(dataset: xr.Dataset) -> Any:
    """Where -xi attracts too: at L = infinity (filled), and at finite (d - 1)/L (contours)."""
    figure, (panel,) = new_figure(1)
    theta, r = dataset.theta.values, dataset.r.values
    boundary = dataset.boundary_share.values
    panel.fill_between(
        theta,
        0,
        boundary,
        color=FILLS[1],
        alpha=0.6,
        linewidth=0,
        label=r"$-\xi$ attracts too, $L=\infty$",
    )
    panel.plot(theta, boundary, color=COLOURS[6])
    values = dataset.boundary_crowding.values.T
    levels = [0.01, 0.03, 0.1, 0.3]
    if min(values.shape) > 1 and values.max() > levels[0]:
        lines = panel.contour(theta, r, values, levels=levels, colors=[COLOURS[0]], linewidths=0.8)
        panel.clabel(lines, fontsize=7)
        panel.plot([], [], color=COLOURS[0], linewidth=0.8, label="boundary at this $(d-1)/L$")
    panel.set(
        xlabel=label(dataset.theta),
        ylabel=label(dataset.r),
        xlim=(theta.min(), theta.max()),
        ylim=(r.min(), r.max()),
    )
    panel.legend(frameon=False, fontsize=8)
    return figure
