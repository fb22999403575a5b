"""Does population gradient flow reach the manifold where the cross terms vanish? Random starts,
activations, rules; table and figure.

    python benchmarks/manifold.py [STARTS [ACTIVATION ...]]     python benchmarks/manifold.py figure

Each row is one setting: how many of the random starts (k, v with N(0, 1/4) coordinates in the space
of k, v, k*, v*) rest on the manifold (largest cross term below 1e-6), rest elsewhere, or do not
rest, and the distinct ends. Writes results/manifold_*.h5, and docs/manifold.png from all of them;
"figure" does that alone. softmax with the max rule runs on coarser node sets, with a tenth of the
starts: it is a hundred times slower (hours).
"""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path

import replica
from replica import Status
from replica.dynamics import descent
from replica.plots import draw_manifold, save_figure

ACTIVATIONS = "linear", "linear_pure", "erf", "erf_odd", "softplus_elementwise", "softmax"
SETTINGS = tuple((rule, L, nu) for rule, nu in (("spiked", 1.0), ("max", math.inf)) for L in (2, 3))
DELTA = 0.1
COARSE = replica.NodeSizes(gaussian=25, line=71, mellin=91)
COLUMNS = (
    "activation",
    "rule",
    "L",
    "on the manifold",
    "off it",
    "unfinished",
    "ends: count x (risk; cos kk*, kv*, vk*, vv*)",
    "Bayes",
    "s",
)
HEADER = f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}"


def run(
    activation: str, rule: str, length: int, nu: float, starts: int, nodes: replica.NodeSizes | None
) -> None:
    """One setting: its line of the table, its file."""
    begun = time.perf_counter()
    found = descent.evidence(
        starts, activation=activation, rule=rule, L=length, nu=nu, Delta=DELTA, nodes=nodes
    )
    replica.save(Path("results") / f"manifold_{activation}_{rule}_{length}.h5", found, force=True)
    rests = found.status == Status.SUCCESSFUL.code
    on = found.cross <= 1e-6
    ends = "; ".join(_end(e) for e in descent.classes(found, 3)[:4])
    print(
        f"| {activation} | {rule} | {length} | {int((rests & on).sum())} |"
        f" {int((rests & ~on).sum())} | {int((~rests).sum())} | {ends} |"
        f" {found.attrs['population_bayes_risk']:.4f} | {time.perf_counter() - begun:.0f} |",
        flush=True,
    )


def _end(e: dict) -> str:
    cosines = ", ".join(
        f"{e[k]:.2f}" for k in ("cos(k, k*)", "cos(k, v*)", "cos(v, k*)", "cos(v, v*)")
    )
    kind = "" if e["status"] is Status.SUCCESSFUL else f" {e['status'].name}, such as"
    return f"{e['count']} x{kind} ({e['risk']:.3f}; {cosines}{'' if e['stable'] else '; unstable'})"


def figure() -> None:
    """The figure of every file there is."""
    found = [replica.load(file) for file in sorted(Path("results").glob("manifold_*.h5"))]
    save_figure(draw_manifold(found), Path("docs") / "manifold.png", force=True)
    print("wrote docs/manifold.png")


def main() -> None:
    """Every setting, the files, the figure."""
    if sys.argv[1:] != ["figure"]:
        starts = int(sys.argv[1]) if len(sys.argv) > 1 else 100
        Path("results").mkdir(exist_ok=True)
        print(HEADER, flush=True)
        for activation in sys.argv[2:] or ACTIVATIONS:
            for rule, length, nu in SETTINGS:
                slow = activation == "softmax" and rule == "max"
                run(
                    activation,
                    rule,
                    length,
                    nu,
                    math.ceil(starts / 10) if slow else starts,
                    COARSE if slow else None,
                )
    figure()


if __name__ == "__main__":
    main()
