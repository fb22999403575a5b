"""The (alpha, nu) phase diagram of slr-bayes by continuation, beside the grid of plain iterations a user would run instead.

    python benchmarks/phase.py [columns] [sample]

``columns`` columns of nu (64), all three lines to 1e-4. The grid has columns x columns points, each iterated without
acceleration from both starts to 1e-9; ``sample`` of its points (64), spread evenly, are timed one after the other and the
total is extrapolated, over two threads (a lower bound for the grid: two threads are counted as twice as fast).
"""

from __future__ import annotations

import sys
import time

import numpy as np

import replica

L, DELTA, NU, ALPHA = 8, 1e-4, (0.1, 8.0), (0.8, 4.0)


def diagram(columns: int) -> tuple[float, float]:
    """Seconds, and the largest error estimate of a line."""
    start = time.perf_counter()
    lines = replica.phase_diagram("slr-bayes", over={"nu": np.geomspace(*NU, columns)}, L=L, Delta=DELTA, accuracy=1e-4)
    seconds = time.perf_counter() - start
    worst = max(float(lines[f"error_{name}"].max()) for name in ("alpha_inf", "alpha_IT", "alpha_alg"))
    kinds = lines.transition.values
    print(f"continuation: {columns} columns, {(kinds == 1).sum()} with a transition, {(kinds == 3).sum()} failed")
    print(f"largest error estimate {worst:.1e}, {seconds:.1f} s")
    for point in lines.attrs["tricritical"]:
        print(f"the hard phase closes at nu = {point['nu']:.5f}, alpha = {point['alpha']:.5f}")
    return seconds, worst


def grid(columns: int, sample: int) -> float:
    """Extrapolated seconds of a columns x columns grid of plain iterations from both starts, compilation left out."""
    plain = replica.Settings(polish="none", tol=1e-9)
    pairs = [(a, n) for n in np.geomspace(*NU, columns) for a in np.linspace(*ALPHA, columns)]
    chosen = [pairs[i] for i in np.linspace(0, len(pairs) - 1, sample).astype(int)]
    replica.solve("slr-bayes", settings=plain, alpha=2.0, nu=1.0, L=L, Delta=DELTA)
    start = time.perf_counter()
    for alpha, nu in chosen:
        replica.solve("slr-bayes", settings=plain, alpha=alpha, nu=nu, L=L, Delta=DELTA)
    return (time.perf_counter() - start) / sample * len(pairs) / 2


def main() -> None:
    columns, sample = (int(a) for a in (*sys.argv[1:], *("64", "64")[len(sys.argv) - 1 :]))
    seconds, _ = diagram(columns)
    other = grid(columns, sample)
    print(f"grid of plain iterations: {other:.0f} s (extrapolated from {sample} points), ratio {other / seconds:.1f};")
    print(f"its lines are resolved to the spacing, {(ALPHA[1] - ALPHA[0]) / (columns - 1):.2g}, not to 1e-4")


if __name__ == "__main__":
    main()
