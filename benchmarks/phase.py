"""Thresholds and the (alpha, nu) phase diagram of slr-bayes by continuation, beside what one would
run instead.

Thresholds: bisection with plain iteration, to 1e-4. Diagram: 64 columns of nu, all three lines to
1e-4. The grid has 64 x 64 points, each iterated without acceleration from both starts to 1e-9; some
of them, spread evenly, are timed one after the other and the total is extrapolated, over two
threads (a lower bound for the grid: two threads are counted as twice as fast).
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from table import Row

import replica

L, DELTA, NU, ALPHA = 8, 1e-4, (0.1, 8.0), (0.8, 4.0)
COLUMNS, SAMPLE = 64, 64


def diagram(columns: int) -> tuple[float, float]:
    """Seconds, and the largest error estimate of a line."""
    start = time.perf_counter()
    lines = replica.phase_diagram(
        "slr-bayes", over={"nu": np.geomspace(*NU, columns)}, L=L, Delta=DELTA, accuracy=1e-4
    )
    seconds = time.perf_counter() - start
    worst = max(
        float(lines[f"error_{name}"].max()) for name in ("alpha_inf", "alpha_IT", "alpha_alg")
    )
    return seconds, worst


def grid(columns: int, sample: int) -> float:
    """Extrapolated seconds of a columns x columns grid of plain iterations from both starts,
    compilation left out.
    """
    plain = replica.Settings(polish="none", tol=1e-9)
    pairs = [(a, n) for n in np.geomspace(*NU, columns) for a in np.linspace(*ALPHA, columns)]
    chosen = [pairs[i] for i in np.linspace(0, len(pairs) - 1, sample).astype(int)]
    replica.solve("slr-bayes", settings=plain, alpha=2.0, nu=1.0, L=L, Delta=DELTA)
    start = time.perf_counter()
    for alpha, nu in chosen:
        replica.solve("slr-bayes", settings=plain, alpha=alpha, nu=nu, L=L, Delta=DELTA)
    return (time.perf_counter() - start) / sample * len(pairs) / 2


def bisection() -> float:
    """Seconds to alpha_alg at nu = 1 within 1e-4, by plain iteration from the uninformed start."""
    plain, start = (
        replica.Settings(polish="none", tol=1e-9),
        {"uninformed": {"q_k": 0.0, "q_v": 0.0}},
    )

    def informative(alpha: float) -> bool:
        branch = replica.solve(
            "slr-bayes", settings=plain, starts=start, alpha=alpha, nu=1, L=L, Delta=DELTA
        ).branches[0]
        return branch.overlaps["q_v"] > 0.9

    informative(2.0)
    begun, (low, high) = time.perf_counter(), ALPHA
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if informative(middle) else (middle, high)
    return time.perf_counter() - begun


def rows() -> Iterator[Row]:
    """Three thresholds at one nu, and the whole diagram."""
    replica.thresholds("slr-bayes", nu=1.1, L=L, Delta=DELTA)
    begun = time.perf_counter()
    found = replica.thresholds("slr-bayes", nu=1, L=L, Delta=DELTA)
    seconds = time.perf_counter() - begun
    worst = max(found.error.values())
    yield Row(
        "three thresholds, L = 8, nu = 1, warm",
        seconds,
        worst,
        "bisection for alpha_alg alone, plain iteration",
        bisection(),
        1e-4,
    )
    seconds, worst = diagram(COLUMNS)
    spacing = (ALPHA[1] - ALPHA[0]) / (COLUMNS - 1)
    problem = f"phase diagram, L = 8, {COLUMNS} columns, compilation included"
    instead, note = (
        f"{COLUMNS} x {COLUMNS} grid of plain iterations",
        f"extrapolated from {SAMPLE} points",
    )
    yield Row(problem, seconds, worst, instead, grid(COLUMNS, SAMPLE), spacing, note)
