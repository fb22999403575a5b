"""The main job: two curves of single-location regression, one file, one figure, one short table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from rich.console import Console
from rich.table import Table

from .errors import InputError
from .files import store
from .plots.base import COLOURS, STYLES, new_figure, save_figure
from .plots.sweeps import best_branch, hard_phase, shade_hard, valid
from .runtime.notice import logger
from .sweeps.sweep import sweep

POPULATION = ("bayes", "softmax", "softplus", "erf", "linear")
SPIKES = np.linspace(0.25, 16.0, 22)
RATIOS = np.concatenate(
    [np.linspace(0.4, 1.1, 8), np.linspace(1.15, 1.71, 29), np.linspace(1.8, 2.8, 8)]
)
PARTS = len(POPULATION) + 1
SETTING = {"L": 4, "nu": 1, "Delta": 1e-4}


def write_demo(folder: Path, command: str, *, quiet: bool = False) -> tuple[Path, Path]:
    """Write ``demo.h5`` and ``demo.png`` to ``folder`` (made if missing; earlier ones are
    replaced); print two tables unless ``quiet``.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is not a folder: choose another with --folder")
    folder.mkdir(parents=True, exist_ok=True)
    population = population_risks(SPIKES, L=4, Delta=SETTING["Delta"])
    logger.info("%d of %d: Bayes risk against alpha", PARTS, PARTS)
    bayes = sweep("slr-bayes", over={"alpha": RATIOS}, **SETTING)
    file, picture = folder / "demo.h5", folder / "demo.png"
    store.save(file, joined(population, bayes).assign_attrs(command=command), force=True)
    save_figure(figure(population, bayes), picture, force=True)
    console = Console(quiet=quiet)
    console.print(_population_table(population))
    console.print(_bayes_table(bayes))
    console.print(f"wrote {file} and {picture}")
    return file, picture


def population_risks(spikes: np.ndarray, **controls: Any) -> xr.Dataset:
    """Optimal population risk of each activation against nu (the best start at each point)."""
    best = []
    for number, activation in enumerate(POPULATION, 1):
        logger.info("%d of %d: population risk of %s against nu", number, PARTS, activation)
        result = sweep("slr-population", over={"nu": spikes}, activation=activation, **controls)
        best.append(
            valid(result, "excess_risk")
            .min("branch", skipna=True)
            .assign_coords(activation=activation)
        )
    return xr.concat(best, "activation", coords="different", compat="equals").to_dataset(
        name="excess_risk"
    )


def joined(population: xr.Dataset, bayes: xr.Dataset) -> xr.Dataset:
    """Both parts in one dataset; the population part has the dimensions (activation, nu)."""
    part = population.rename(excess_risk="population_excess_risk")
    part["population_excess_risk"].attrs |= {
        "latex": r"R-\Delta",
        "units": "y^2",
        "long_name": "excess risk at alpha = infinity",
    }
    part["nu"].attrs |= {"latex": r"\nu", "units": "1"}
    return bayes.merge(part)


def figure(population: xr.Dataset, bayes: xr.Dataset) -> Any:
    """Left: population excess risk against nu. Right: algorithmic and information-theoretic Bayes
    risk against alpha.
    """
    drawing, (left, right) = new_figure(2)
    for i, activation in enumerate(POPULATION):
        left.semilogy(
            SPIKES,
            population.excess_risk.sel(activation=activation),
            color=COLOURS[i],
            linestyle=STYLES[i],
            label=activation if activation != "bayes" else "Bayes",
        )
    left.set(
        xlabel=r"spike strength $\nu$",
        ylabel=r"excess risk $R-\Delta$",
        title=r"$\alpha=\infty$, $L=4$",
    )
    left.legend(frameon=False)
    alpha, risk = bayes.alpha.values, valid(bayes, "risk")
    right.plot(alpha, risk.sel(branch="uninformed"), color=COLOURS[0], label="algorithmic")
    right.plot(
        alpha,
        risk.isel(branch=best_branch(bayes)),
        color=COLOURS[1],
        linestyle="--",
        label="information-theoretic",
    )
    right.axhline(
        float(bayes.population_bayes_risk[0, 0]),
        color="grey",
        linewidth=0.8,
        linestyle=":",
        label=r"$\alpha=\infty$",
    )
    shade_hard(right, alpha, hard_phase(bayes).values)
    right.set(
        xlabel=r"sample ratio $\alpha=N/D$",
        ylabel=r"Bayes risk $R$",
        title=r"$L=4$, $\nu=1$, $\Delta=10^{-4}$",
    )
    right.legend(frameon=False)
    return drawing


def _population_table(population: xr.Dataset) -> Table:
    table = Table("nu", *POPULATION, title="excess risk R - Delta at alpha = infinity, L = 4")
    for nu in SPIKES[[0, 1, 5, 10, 21]]:
        table.add_row(
            f"{nu:g}",
            *(f"{float(population.excess_risk.sel(activation=a, nu=nu)):.6f}" for a in POPULATION),
        )
    return table


def _bayes_table(bayes: xr.Dataset) -> Table:
    table = Table(
        "alpha",
        "algorithmic R",
        "information-theoretic R",
        "hard",
        title="Bayes risk, L = 4, nu = 1, Delta = 1e-4",
    )
    best = valid(bayes, "risk").isel(branch=best_branch(bayes))
    hard = hard_phase(bayes)
    for alpha in RATIOS[[0, 7, 10, 17, 24, 34, 38, 44]]:
        at = {"alpha": alpha}
        table.add_row(
            f"{alpha:.3f}",
            f"{float(bayes.risk.sel(alpha=alpha, branch='uninformed')):.6f}",
            f"{float(best.sel(at)):.6f}",
            "yes" if bool(hard.sel(at)) else "",
        )
    return table
