"""What local algorithms find in and around the hard phase: message passing, L-BFGS, BFGS and
gradient descent, each from two starts.

    python benchmarks/local.py [--trials 4]

Spiked data, L = 4, nu = 1, Delta = 1e-4: the informed branch of the posterior begins at alpha =
1.157, is the better one from 1.324, and the blind branch ends at 1.685. Prints one row per
algorithm, ridge, start, alpha and D with the number of runs that end at each branch of the theory
(within 0.1 in the cosines m/sqrt(q)), and writes docs/local.csv and docs/local.png. Runs are kept
in results/ and not repeated.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

import replica
from replica import landscape, solve, thresholds
from replica.plots import COLOURS, SHADE, new_figure, save_figure

BASE = {"L": 4, "nu": 1, "Delta": 1e-4}
ALPHAS = (1.0, 1.25, 1.4, 1.6, 2.0)
FINE = np.linspace(0.8, 2.2, 29)


class Asked(NamedTuple):
    """One algorithm with its ridge (None: message passing) and sizes."""

    algorithm: str
    ridge: float | None
    sizes: str
    alphas: tuple[float, ...] = ALPHAS


ASKED = (
    Asked("lbfgs", 0.3, "250,500"),
    Asked("gd", 0.3, "100"),
    Asked("bfgs", 0.3, "100"),
    Asked(landscape.MESSAGES, None, "250,500"),
    Asked("lbfgs", 0.01, "100,250", (1.4, 2.0)),
)
"""BFGS multiplies 2D x 2D matrices at every step and gradient descent takes thousands of them:
small D.
"""
TARGETS: dict[tuple[float | None, float], dict[str, tuple[float, float]]] = {}


def found_by(asked: Asked, alpha: float, trials: int) -> tuple[list[dict[str, Any]], xr.Dataset]:
    """Rows of the table, and the runs themselves."""
    ridge = (
        {}
        if asked.ridge is None
        else {"activation": "softmax", "lam_k": asked.ridge, "lam_v": asked.ridge}
    )
    given = BASE | {"alpha": alpha} | ridge
    if (asked.ridge, alpha) not in TARGETS:
        TARGETS[asked.ridge, alpha] = landscape.branches(
            "slr-bayes" if asked.ridge is None else "slr-erm", given
        )
    theory = TARGETS[asked.ridge, alpha]
    file = (
        Path("results") / f"local_{asked.algorithm}_{asked.ridge}_{alpha}_{asked.sizes}_{trials}.h5"
    )
    if not file.exists():
        replica.save(
            file,
            landscape.reached(asked.algorithm, given, theory, sizes=asked.sizes, trials=trials),
        )
    found = replica.load(file)
    rows = []
    for row in landscape.counts(found, list(theory)):
        ends = ", ".join(f"{row.pop(name)} {name}" for name in (*theory, landscape.NONE))
        about = {n: f"{row[n]:.3f}" for n in (*landscape.COSINES, "risk", "distance")}
        where = "; ".join(f"{n} {k:.3f} {v:.3f}" for n, (k, v) in theory.items())
        rows.append(
            {"alpha": alpha, "ridge": asked.ridge} | row | about | {"ends": ends, "theory": where}
        )
    return rows, found


def show(row: dict[str, Any]) -> str:
    ridge = "" if row["ridge"] is None else f"ridge {row['ridge']}"
    where = (
        f"{row['algorithm']:<16}{ridge:<12}{row['start']:<11}alpha {row['alpha']:<5} D"
        f" {row['D']:<5}"
    )
    return (
        f"{where}{row['ends']:<44} unconverged {row['unconverged']}  cosines {row['cosine_k']}"
        f" {row['cosine_v']}  risk {row['risk']}"
    )


def draw(runs: list[tuple[float, xr.Dataset]], erm: dict[float, tuple[float, float]]) -> Any:
    """Cosine of the value vector against alpha: branches as lines, runs as dots."""
    figure, panels = new_figure(2)
    limits = thresholds("slr-bayes", **BASE)
    posterior = [solve("slr-bayes", alpha=a, **BASE) for a in FINE]
    for panel, (title, mine) in zip(
        panels, {"message passing": True, "trained softmax attention": False}.items(), strict=True
    ):
        panel.axvspan(
            limits.alpha_IT,
            limits.alpha_alg,
            color=SHADE,
            alpha=0.4,
            linewidth=0,
            label="hard phase",
        )
        if mine:
            for name, colour in (("uninformed", COLOURS[0]), ("informed", COLOURS[1])):
                on_branch = [
                    v
                    for p in posterior
                    for n, (_, v) in landscape.cosines_of(p).items()
                    if name in n.split("+")
                ]
                panel.plot(FINE, on_branch, color=colour, label=f"{name} branch")
        else:
            panel.plot(
                list(erm),
                [v for _, v in erm.values()],
                color=COLOURS[2],
                label="replica-symmetric theory",
            )
        for i, (start, mark) in enumerate((("blind", "o"), ("informed", "^"))):
            for alpha, found in runs:
                if (found.attrs["algorithm"] == landscape.MESSAGES) is mine:
                    shift = 0.012 * (2 * i - 1)
                    last = found.isel(start=i, size=-1)["cosine_v"].values
                    panel.plot(
                        np.full(last.size, alpha + shift),
                        last,
                        mark,
                        color="black",
                        markersize=3,
                        alpha=0.5,
                        fillstyle="none",
                    )
            panel.plot(
                [], [], mark, color="black", markersize=3, fillstyle="none", label=f"{start} start"
            )
        panel.set(xlabel=r"$\alpha$", ylabel=r"$m_v/\sqrt{q_v}$", title=title, ylim=(0, 1.05))
        panel.legend(frameon=False, loc="lower right")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=4)
    trials = parser.parse_args().trials
    Path("results").mkdir(exist_ok=True)
    table, runs = [], []
    for asked in ASKED:
        for alpha in asked.alphas:
            rows, found = found_by(asked, alpha, trials)
            table += rows
            if asked.ridge in (None, ASKED[0].ridge):
                runs.append((alpha, found))
            print("\n".join(map(show, rows)), flush=True)
            with Path("docs/local.csv").open("w", newline="") as stream:
                writer = csv.DictWriter(stream, list(table[0]))
                writer.writeheader()
                writer.writerows(table)
    erm = {
        alpha: next(iter(theory.values()))
        for (ridge, alpha), theory in TARGETS.items()
        if ridge == ASKED[0].ridge and theory
    }
    save_figure(draw(runs, erm), Path("docs/local.png"), force=True)


if __name__ == "__main__":
    main()
