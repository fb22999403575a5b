"""Theory against simulation over many settings of trained attention: share of |z| < 3, and the
settings where disagreement is expected.

    python benchmarks/check_table.py [--sizes 100,200,400] [--trials 16] [-o docs/check_table.csv]

One point of the table is one quantity at one setting (six quantities each; those of one setting
come from the same trials, so they are not independent; every setting has a seed of its own, so no
two share a teacher). z holds the value extrapolated to 1/D = 0 against the theory, the error of the
theory included. Settings were chosen before they were run: the first group where the ridge is not
small, the last where replica symmetry is unstable or the ridge is small.
"""

from __future__ import annotations

import argparse
import csv
import platform
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import replica
from replica import Report

QUANTITIES = ("m_k", "q_k", "m_v", "q_v", "risk", "training_loss")
NUMBERS = (
    "theory",
    "theory_error",
    "mean",
    "standard_error",
    "extrapolated",
    "extrapolated_error",
    "z",
)
EXPECTED = "expected to agree"
UNSTABLE = "expected to fail"
BAYES = "message passing"
LIMIT = 3.0


def erm(
    activation: str, rule: str, L: int, nu: str, alpha: float, lam_k: float, lam_v: float
) -> dict[str, Any]:
    ridge = {"lam_k": lam_k, "lam_v": lam_v}
    return {
        "model": "slr-erm",
        "activation": activation,
        "rule": rule,
        "L": L,
        "nu": nu,
        "Delta": 0.1,
        "alpha": alpha,
    } | ridge


def bayes(rule: str, L: int, nu: str, alpha: float, Delta: float) -> dict[str, Any]:
    return {"model": "slr-bayes", "rule": rule, "L": L, "nu": nu, "Delta": Delta, "alpha": alpha}


SETTINGS = (
    (EXPECTED, erm("softmax", "spiked", 2, "1", 4, 0.1, 0.1)),
    (EXPECTED, erm("softmax", "spiked", 4, "1", 4, 0.8, 1)),
    (EXPECTED, erm("softmax", "spiked", 3, "4", 2, 1, 1)),
    (EXPECTED, erm("linear", "spiked", 2, "1", 3, 0.5, 0.5)),
    (EXPECTED, erm("linear", "spiked", 4, "2", 4, 1, 1)),
    (EXPECTED, erm("linear", "spiked", 3, "4", 2, 1, 1)),
    (EXPECTED, erm("softmax", "max", 3, "inf", 3, 1, 1)),
    (EXPECTED, erm("softmax", "max", 2, "2", 4, 0.5, 0.5)),
    (EXPECTED, erm("softmax", "max", 4, "inf", 2, 1, 1)),
    (EXPECTED, erm("linear", "max", 3, "inf", 3, 1, 1)),
    (EXPECTED, erm("linear", "max", 2, "2", 4, 0.5, 0.5)),
    (EXPECTED, erm("linear", "max", 4, "inf", 5, 1, 1)),
    (BAYES, bayes("spiked", 2, "1", 0.75, 0.1)),
    (BAYES, bayes("spiked", 4, "2", 2, 0.1)),
    (BAYES, bayes("max", 3, "inf", 1.5, 0.1)),
    (BAYES, bayes("max", 2, "2", 2, 0.1)),
    (UNSTABLE, erm("linear_pure", "spiked", 2, "1", 3, 1, 1)),
    (UNSTABLE, erm("softmax", "spiked", 2, "1", 1.5, 0.01, 0.01)),
    (UNSTABLE, erm("linear", "spiked", 2, "1", 2, 0.02, 0.02)),
)


def name(setting: dict[str, Any]) -> str:
    return " ".join(f"{k}={v}" for k, v in setting.items() if k != "model")


def checked(setting: dict[str, Any], sizes: str, trials: int, seed: int) -> Report:
    return replica.check(**setting, sizes=sizes, trials=trials, seed=seed)


def rows(
    group: str, setting: dict[str, Any], report: Report, seed: int, seconds: float
) -> list[dict[str, Any]]:
    replicon = report.references.get("replicon of the theory", np.nan)
    shared = {"group": group, "model": setting["model"], "setting": name(setting)}
    about = {
        "replicon": f"{replicon:.3g}",
        "problems": "; ".join(report.problems),
        "seed": seed,
        "seconds": round(seconds),
    }
    found = []
    for c in report.comparisons:
        if c.name in QUANTITIES:
            numbers = {n: f"{getattr(c, n):.5g}" for n in NUMBERS}
            found.append(shared | {"quantity": c.name} | numbers | about)
    return found


def summary(table: list[dict[str, Any]]) -> list[str]:
    lines = []
    for group in (EXPECTED, BAYES, UNSTABLE):
        z = np.array([float(r["z"]) for r in table if r["group"] == group])
        if z.size:
            spread = f"largest {np.abs(z).max():.2f}, rms {np.sqrt(np.mean(z**2)):.2f}"
            lines.append(
                f"{group}: |z| < {LIMIT:g} on {np.sum(np.abs(z) < LIMIT)} of {z.size} points,"
                f" {spread}"
            )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="100,200,400")
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument(
        "--only",
        default="",
        help="groups and settings that contain one of these texts, separated by |",
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/check_table.csv"))
    asked = parser.parse_args()
    table: list[dict[str, Any]] = []
    for seed, (group, setting) in enumerate(SETTINGS):
        if not any(text in f"{group}: {name(setting)}" for text in asked.only.split("|")):
            continue
        began = time.perf_counter()
        found = rows(
            group,
            setting,
            checked(setting, asked.sizes, asked.trials, seed),
            seed,
            time.perf_counter() - began,
        )
        table += found
        zs = "  ".join(f"{r['quantity']} {float(r['z']):+.2f}" for r in found)
        print(
            f"{group:<18}{name(setting)}\n    {zs}  (replicon {found[0]['replicon']},"
            f" {found[0]['seconds']} s)",
            flush=True,
        )
        write(asked.output, table)
    print("\n".join(summary(table)))


def write(path: Path, table: list[dict[str, Any]]) -> None:
    """All rows so far, with the command and the machine in the first line."""
    with path.open("w", newline="") as stream:
        machine = (
            f"{platform.processor() or platform.machine()}, Python {platform.python_version()}"
        )
        stream.write(f"# python {shlex.join(sys.argv)}; {machine}\n")
        writer = csv.DictWriter(stream, list(table[0]))
        writer.writeheader()
        writer.writerows(table)


if __name__ == "__main__":
    main()
