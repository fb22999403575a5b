"""The two figures of [SLR] arXiv 2509.21936, and the exponential gap: data into results/*.h5
(resumed), figures into docs/*.png.

    python benchmarks/slr_figures.py [population] [finite] [gap]        (all three by default)

population: excess risk at alpha = infinity of every activation: L = 2 against nu (spiked), against
L at nu = inf (max), and L uniform on 1, 2, 3 against nu (spiked). finite: test risk against alpha
at L = 3, Delta = 0.01: softmax and linear attention at their best ridge, and Bayes. gap: softmax
and linear attention against nu, on a log axis, with bounds.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import replica
from replica import Settings, Status
from replica.plots import (
    COLOURS,
    STYLES,
    best_branch,
    legend_above,
    new_figure,
    save_figure,
    valid,
)

RESULTS, DOCS = Path("results"), Path(__file__).parents[1] / "docs"
ACTIVATIONS = ("bayes", "softmax", "softplus", "sigmoid", "erf", "relu", "linear")
SPIKES = np.linspace(0.25, 5, 20)
LENGTHS = (2, 3, 4, 5, 7, 10, 14, 20, 30, 40, 50)
STRONG = np.linspace(1, 40, 40)
DELTA = 0.01
SETTINGS = {
    "nu1": {"rule": "spiked", "nu": 1},
    "nu2": {"rule": "spiked", "nu": 2},
    "max": {"rule": "max", "nu": "inf"},
}
TITLES = {"nu1": r"spiked, $\nu=1$", "nu2": r"spiked, $\nu=2$", "max": r"max, $\nu=\infty$"}
RATIOS = {
    "linear": np.array([0.5, 1, 2, 3, 4, 6, 8, 12, 16, 20]),
    "softmax": np.array([1.0, 2, 4, 8, 14, 20]),
}
START = {"linear": {"lam_k": 0.3, "lam_v": 0.3}, "softmax": {"lam_k": 0.8, "lam_v": 1.0}}
BAYES = np.concatenate([np.linspace(0.25, 5, 39), np.linspace(5.5, 20, 30)])
BAYES_MAX = np.array([0.5, 1, 1.5, 2, 3, 4, 6, 10, 20])


# population ---------------------------------------------------------------------------------------


def least(name: str, over: dict[str, Any], activation: str, **given: Any) -> xr.DataArray:
    """Excess risk at the best start of each point."""
    file = RESULTS / f"{name}_{activation}.h5"
    result = replica.sweep(
        "slr-population", over=over, activation=activation, Delta=0, file=file, resume=True, **given
    )
    return valid(result, "excess_risk").min("branch", skipna=True)


def population() -> None:
    """Every activation in three settings."""
    drawing, panels = new_figure(3)
    columns = {
        "slr_population_spiked": (r"spiked, $L=2$", "nu", SPIKES, {"L": 2}),
        "slr_population_max": (r"max, $\nu=\infty$", "L", LENGTHS, {"rule": "max", "nu": "inf"}),
        "slr_population_lengths": (
            r"spiked, $L$ uniform on 1, 2, 3",
            "nu",
            SPIKES,
            {"L": "1:1/3,2:1/3,3:1/3"},
        ),
    }
    for panel, (name, (title, control, values, given)) in zip(panels, columns.items(), strict=True):
        for i, activation in enumerate(ACTIVATIONS):
            if (
                activation == "relu" and "rule" in given
            ):  # slr-population has no slope for its bend in the max rule
                continue
            risk = least(name, {control: values}, activation, **given)
            panel.plot(
                values,
                risk,
                color=COLOURS[i % 7],
                linestyle=STYLES[i % 5],
                label="Bayes" if activation == "bayes" else activation,
            )
        symbol = r"spike strength $\nu$" if control == "nu" else "tokens $L$"
        panel.set(
            xlabel=symbol,
            ylabel=r"excess risk $R-\Delta$",
            title=title,
            ylim=(-0.02 if control == "L" else 0, None),
        )
    legend_above(drawing, panels[0], len(ACTIVATIONS))
    save_figure(drawing, DOCS / "slr_population.png", force=True)


# finite alpha -------------------------------------------------------------------------------------


def trained(name: str, activation: str) -> xr.Dataset:
    """Trained attention at its best ridge."""
    return replica.optimise(
        "slr-erm",
        over=["lam_k", "lam_v"],
        along={"alpha": RATIOS[activation]},
        start=START[activation],
        settings=Settings(accuracy=3e-2),
        file=RESULTS / f"slr_{name}_{activation}.h5",
        resume=True,
        activation=activation,
        L=3,
        Delta=DELTA,
        **SETTINGS[name],
    )


def optimal(name: str) -> xr.Dataset:
    """Bayes, from both starts."""
    ratios, settings = (
        (BAYES_MAX, Settings(accuracy=1e-2)) if name == "max" else (BAYES, Settings())
    )
    file = RESULTS / f"slr_{name}_bayes.h5"
    return replica.sweep(
        "slr-bayes",
        over={"alpha": ratios},
        settings=settings,
        file=file,
        resume=True,
        L=3,
        Delta=DELTA,
        **SETTINGS[name],
    )


def draw_trained(panel: Any, result: xr.Dataset, activation: str, colour: str, marker: str) -> None:
    """Points with error bars; hollow where replica symmetry is unstable, a cross where the optimum
    was not found.
    """
    row = result.isel(branch=0)
    good, unstable = (
        row.status == Status.SUCCESSFUL.code,
        row.status.isin([Status.RS_UNSTABLE.code, Status.FORMS_DIFFER.code]),
    )
    shown = (good | unstable).values
    panel.errorbar(
        row.alpha[shown],
        row.risk[shown],
        row.error_risk[shown],
        color=colour,
        label=activation,
        linewidth=1,
    )
    for chosen, style in (
        (good, {"color": colour}),
        (unstable, {"color": colour, "markerfacecolor": "white"}),
    ):
        panel.plot(
            row.alpha[chosen.values],
            row.risk[chosen.values],
            marker,
            linestyle="none",
            markersize=5,
            **style,
        )
    failed = ~shown & np.isfinite(row.risk.values)
    panel.plot(row.alpha[failed], row.risk[failed], "x", color=colour, markersize=7)


def draw_optimal(panel: Any, result: xr.Dataset) -> None:
    """The risk message passing reaches, and that of the larger free entropy."""
    risk = valid(result, "risk")
    panel.plot(
        result.alpha, risk.sel(branch="uninformed"), color="black", label="Bayes, algorithmic"
    )
    panel.plot(
        result.alpha,
        risk.isel(branch=best_branch(result)),
        color="black",
        linestyle="--",
        label="Bayes, information-theoretic",
    )
    panel.axhline(
        float(result.population_bayes_risk[-1, 0]),
        color="grey",
        linewidth=0.8,
        linestyle=":",
        label=r"Bayes, $\alpha=\infty$",
    )


def finite() -> None:
    """Three panels: two spike strengths and the max rule."""
    drawing, panels = new_figure(3)
    for panel, name in zip(panels, SETTINGS, strict=True):
        draw_optimal(panel, optimal(name))
        for activation, colour, marker in (
            ("softmax", COLOURS[0], "o"),
            ("linear", COLOURS[1], "s"),
        ):
            begun = time.perf_counter()
            draw_trained(
                panel, trained(name, activation), f"{activation}, best ridge", colour, marker
            )
            print(f"{name} {activation}: {time.perf_counter() - begun:.0f} s", flush=True)
        panel.set(
            xlabel=r"sample ratio $\alpha=N/D$",
            ylabel="test risk $R$",
            title=rf"{TITLES[name]}, $L=3$, $\Delta={DELTA}$",
            ylim=(0, 1.05),
        )
    for marker, meaning in (
        ("o", "RS suspect: see its status"),
        ("x", "search for the ridge stopped"),
    ):
        panels[0].plot([], [], marker, color="grey", markerfacecolor="white", label=meaning)
    legend_above(drawing, panels[0], 4)
    save_figure(drawing, DOCS / "slr_finite.png", force=True)


# the exponential gap ------------------------------------------------------------------------------


def gap() -> None:
    """Softmax at its best scale sqrt(nu), which is the Bayes predictor, below (L-1)/2 e^{-nu/4};
    linear attention at L/nu.
    """
    drawing, panels = new_figure(2)
    risks = {a: least("slr_gap", {"L": [2, 10], "nu": STRONG}, a) for a in ("bayes", "linear")}
    for panel, length in zip(panels, (2, 10), strict=True):
        panel.semilogy(
            STRONG,
            risks["linear"].sel(L=length),
            color=COLOURS[1],
            linestyle="--",
            label="linear, best scale",
        )
        panel.semilogy(
            STRONG,
            length / STRONG,
            color=COLOURS[1],
            linewidth=0.8,
            linestyle=":",
            label=r"$L/\nu$",
        )
        panel.semilogy(
            STRONG, risks["bayes"].sel(L=length), color=COLOURS[0], label="softmax = Bayes"
        )
        bound = (length - 1) / 2 * np.exp(-STRONG / 4)
        panel.semilogy(
            STRONG,
            bound,
            color="black",
            linewidth=0.8,
            linestyle="--",
            label=r"bound $\frac{L-1}{2}\,e^{-\nu/4}$",
        )
        panel.set(
            xlabel=r"spike strength $\nu$",
            ylabel=r"excess risk $R-\Delta$",
            title=f"$L={length}$",
            ylim=(1e-5, 3),
        )
    legend_above(drawing, panels[0], 4)
    save_figure(drawing, DOCS / "slr_gap.png", force=True)


JOBS = {"population": population, "finite": finite, "gap": gap}


if __name__ == "__main__":
    RESULTS.mkdir(exist_ok=True)
    for job in sys.argv[1:] or JOBS:
        JOBS[job]()
