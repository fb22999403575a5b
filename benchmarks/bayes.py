"""One point of slr-bayes, beside plain damped iteration of the Nishimori equations on Monte Carlo
samples (numpy), as a script would.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import numpy as np
from table import Row

import replica

POINT = {"alpha": 1.4, "L": 4, "nu": 1.0, "Delta": 0.01}
EXACT = {"q_k": 0.37929142, "q_v": 0.52467609}
"""Reference fixed point of POINT, to 1e-8, computed by independent code."""


def monte_carlo(
    samples: int, seed: int, damping: float = 0.5, tol: float = 1e-5
) -> tuple[np.ndarray, float]:
    """(overlaps, seconds) of damped iteration on common random numbers."""
    begun = time.perf_counter()
    rng = np.random.default_rng(seed)
    length, nu, delta, alpha = int(POINT["L"]), POINT["nu"], POINT["Delta"], POINT["alpha"]
    x_k, x_v, noise = (
        rng.standard_normal((samples, length)),
        rng.standard_normal((samples, length)),
        rng.standard_normal(samples),
    )
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
        hats = alpha * np.array(
            [nu * (s**2).sum(axis=1).mean(), (s**2 * gap**2).sum(axis=1).mean() / width**2]
        )
        new = hats / (1 + hats)
        if np.max(np.abs(new - q)) < tol:
            break
        q = damping * q + (1 - damping) * new
    return new, time.perf_counter() - begun


def warm() -> tuple[np.ndarray, float]:
    """(overlaps, seconds) of the uninformed branch, compiled before."""
    start = {"uninformed": {"q_k": 0.0, "q_v": 0.0}}
    replica.solve("slr-bayes", starts=start, **POINT)
    begun = time.perf_counter()
    branch = replica.solve("slr-bayes", starts=start, **POINT).branches[0]
    return np.array(list(branch.overlaps.values())), time.perf_counter() - begun


def both_branches(point: dict[str, float]) -> float:
    """Seconds of a warm solve from both starts."""
    replica.solve("slr-bayes", **point)
    begun = time.perf_counter()
    replica.solve("slr-bayes", **point)
    return time.perf_counter() - begun


def cold_call() -> float:
    """Seconds of ``replica solve ... --json`` in a new process with a warm compilation cache."""
    settings = [f"--set={k}={v}" for k, v in POINT.items()]
    command = [sys.executable, "-m", "replica", "solve", "slr-bayes", *settings, "--json"]
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(2):
            begun = time.perf_counter()
            subprocess.run(
                command, check=True, capture_output=True, env=os.environ | {"XDG_CACHE_HOME": cache}
            )
            seconds = time.perf_counter() - begun
    return seconds


def rows() -> Iterator[Row]:
    """A point, a point at large L, both branches, a call from the shell."""
    exact = np.array(list(EXACT.values()))
    samples = [monte_carlo(1_000_000, seed) for seed in range(3)]
    other_error, other = (
        float(np.median(v))
        for v in zip(*((np.abs(q - exact).max(), s) for q, s in samples), strict=True)
    )
    overlaps, seconds = warm()
    error = float(np.abs(overlaps - exact).max())
    point = "one slr-bayes branch, L = 4, nu = 1, Delta = 0.01, alpha = 1.4, warm"
    yield Row(
        point, seconds, error, "damped iteration, 1e6 Monte Carlo samples", other, other_error
    )
    same = max(error, 1e-8)  # what the exact values are known to
    yield Row(
        "the same",
        seconds,
        error,
        "the same",
        other * (other_error / same) ** 2,
        same,
        "extrapolated, error as samples^-1/2",
    )
    for length in (2, 10_000):
        yield Row(
            f"both branches, L = {length}, warm",
            both_branches(POINT | {"L": length, "alpha": 3.0, "nu": 6.0}),
            None,
        )
    yield Row(
        "`replica solve slr-bayes ... --json`, new process, compilation cache warm",
        cold_call(),
        None,
    )
