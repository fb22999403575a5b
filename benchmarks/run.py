"""Speed and accuracy against what one would do instead; prints the tables of the README.

    python benchmarks/run.py

Baseline: plain damped iteration of the Nishimori equations on Monte Carlo samples (numpy), as a script would.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import replica
from replica import Settings

POINT = {"alpha": 1.4, "L": 4, "nu": 1.0, "Delta": 0.01}
EXACT = {"q_k": 0.37929142, "q_v": 0.52467609}
"""Reference fixed point of POINT, to 1e-8, computed by independent code."""


def monte_carlo(samples: int, seed: int, damping: float = 0.5, tol: float = 1e-5) -> tuple[float, float, int]:
    """(largest error of the overlaps, seconds, evaluations) of damped iteration on common random numbers."""
    begun = time.perf_counter()
    rng = np.random.default_rng(seed)
    length, nu, delta, alpha = int(POINT["L"]), POINT["nu"], POINT["Delta"], POINT["alpha"]
    x_k, x_v, noise = rng.standard_normal((samples, length)), rng.standard_normal((samples, length)), rng.standard_normal(samples)
    q = np.array([1e-3, 1e-3])
    evaluations = 0
    while evaluations < 500:
        evaluations += 1
        width = 1 - q[1] + delta
        key, value = np.sqrt(q[0]) * x_k, np.sqrt(q[1]) * x_v
        key[:, 0] += np.sqrt(nu) * q[0]
        gap = value[:, :1] + np.sqrt(width) * noise[:, None] - value
        log_weight = np.sqrt(nu) * key - gap**2 / (2 * width)
        s = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
        s /= s.sum(axis=1, keepdims=True)
        hats = alpha * np.array([nu * (s**2).sum(axis=1).mean(), (s**2 * gap**2).sum(axis=1).mean() / width**2])
        new = hats / (1 + hats)
        if np.max(np.abs(new - q)) < tol:
            break
        q = damping * q + (1 - damping) * new
    return max(abs(new[0] - EXACT["q_k"]), abs(new[1] - EXACT["q_v"])), time.perf_counter() - begun, evaluations


def ours(tol: float) -> tuple[float, float, int]:
    """The same numbers for one warm branch of ``replica.solve``."""
    settings = Settings(tol=tol)
    start = {"uninformed": {"q_k": 0.0, "q_v": 0.0}}
    replica.solve("slr-bayes", settings=settings, starts=start, **POINT)
    begun = time.perf_counter()
    branch = replica.solve("slr-bayes", settings=settings, starts=start, **POINT).branches[0]
    seconds = time.perf_counter() - begun
    return max(abs(branch.overlaps[k] - v) for k, v in EXACT.items()), seconds, branch.steps


def cold_call() -> float:
    """Seconds of ``replica solve ... --json`` in a new process with a warm compilation cache."""
    settings = [f"--set={k}={v}" for k, v in POINT.items()]
    command = [sys.executable, "-m", "replica", "solve", "slr-bayes", *settings, "--json"]
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(2):
            begun = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True, env=os.environ | {"XDG_CACHE_HOME": cache})
            seconds = time.perf_counter() - begun
    return seconds


def large_length() -> tuple[float, float]:
    """Seconds of a warm branch at L = 2 and at L = 10000."""
    times = []
    for length in (2, 10_000):
        controls = POINT | {"L": length, "alpha": 3.0, "nu": 6.0}
        replica.solve("slr-bayes", **controls)
        begun = time.perf_counter()
        replica.solve("slr-bayes", **controls)
        times.append(time.perf_counter() - begun)
    return times[0], times[1]


def main() -> None:
    """Run everything, print the tables, store results with the machine they were made on."""
    trials = {n: np.median([monte_carlo(n, seed) for seed in range(3)], axis=0) for n in (10_000, 100_000, 1_000_000)}
    runs = [(f"Monte Carlo, {n:.0e} samples, damping 0.5", *middle) for n, middle in trials.items()]
    best = runs[-1]
    rows = [*runs, ("replica, tol 1e-7", *ours(1e-7)), ("replica, tol 1e-10", *ours(1e-10))]
    print("| one slr-bayes branch | error of the overlaps | seconds | map evaluations |\n|---|---|---|---|")
    for name, error, seconds, steps in rows:
        print(f"| {name} | {error:.1e} | {seconds:.3f} | {int(steps)} |")
    ratio = best[2] / rows[-2][2]
    extrapolated = ratio * (best[1] / max(1e-6, rows[-2][1])) ** 2
    print(f"\nRatio to Monte Carlo at its error of {best[1]:.0e}: {ratio:.0f}x faster.")
    print(f"At equal accuracy (extrapolated with error ~ samples^-1/2, not run): {extrapolated:.0e}x.")
    cold, lengths = cold_call(), large_length()
    print(f"\n| what | seconds |\n|---|---|\n| `replica solve ... --json`, new process, compilation cache warm | {cold:.1f} |")
    print(f"| both branches at L = 2, warm | {lengths[0]:.2f} |\n| both branches at L = 10000, warm | {lengths[1]:.2f} |")
    machine = {"python": platform.python_version(), "processor": platform.processor() or platform.machine(), "cores": os.cpu_count()}
    record = {"machine": machine, "rows": [list(map(str, r)) for r in rows], "ratio": ratio, "cold_call": cold, "lengths": lengths}
    Path("results").mkdir(exist_ok=True)
    Path("results/benchmarks.json").write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
