"""Trained attention: a curve in alpha, warm-started against cold-started prox, Newton against plain damping.

    python benchmarks/erm.py
"""

from __future__ import annotations

import time
from typing import Any

import jax
import numpy as np

import replica
from replica import Settings
from replica.ensemble import Ensemble, Minima
from replica.proximal_solve import DAMPING, ensemble_at, fixed_point
from replica.settings import resolve
from solvers.warm import warm_fixed_point

GIVEN = {"activation": "softmax", "L": 4, "nu": 1, "Delta": 0.1, "lam_k": 0.8, "lam_v": 1.0}
ALPHAS = np.linspace(1.0, 8.0, 20)
STANDARD_ERROR = 3e-3


class Cold(Ensemble):
    """A map that searches every minimiser from scratch at every evaluation."""

    def image(self, x: np.ndarray, known: Minima) -> tuple[np.ndarray, Minima]:
        found = self.search(x, self.unknown())
        return super().image(x, found)


def curve() -> None:
    """A curve of 20 points, both starts at each, to a standard error of the risk of at most ``STANDARD_ERROR``."""
    begun = time.perf_counter()
    # The reported error is twice the standard error.
    result = replica.sweep("slr-erm", over={"alpha": ALPHAS}, settings=Settings(accuracy=2 * STANDARD_ERROR), progress=False, **GIVEN)
    seconds = time.perf_counter() - begun
    points = result.status.isin([s.code for s in replica.Status if s.is_point])
    worst = float(result.error_risk.where(points).max()) / 2
    what = f"{len(ALPHAS)}-point softmax curve, L = 4, two starts each"
    print(f"| {what} | {seconds:.0f} s, compilation included | standard error of the risk <= {worst:.1e} |")
    print(f"{int(points.sum())} of {points.size} points solved")


def prox(given: dict[str, Any]) -> None:
    """Seconds and evaluations of one fixed point on the same samples, by three routes."""
    model, values = resolve("slr-erm", given)
    c = np.array([values[q.name] for q in model.controls])
    here, settings = ensemble_at(model, c), Settings(accuracy=1e-2)
    x0 = np.array([1.0, 1.2, 0.5, 1.0, 1.2, 0.4])
    cold = Cold.__new__(Cold)
    cold.__dict__.update(here.__dict__)
    fixed_point(here, x0, settings)  # compiles
    rows = []
    for name, ensemble in (("warm-started prox, Newton", here), ("cold-started prox, Newton", cold)):
        begun = time.perf_counter()
        end, _ = fixed_point(ensemble, x0, settings)
        rows.append((name, time.perf_counter() - begun, end.steps, end.residual))
    for name, ensemble in (("warm-started prox", here), ("cold-started prox", cold)):
        begun = time.perf_counter()
        plain = warm_fixed_point(  # a slope that is no number: no Newton step is ever taken
            ensemble.image, lambda x, s: np.full((6, 6), np.nan), x0, here.search(x0, here.unknown()),
            tol=settings.tol, max_steps=2000, damping=DAMPING, inside=lambda x: True,
        )  # fmt: skip
        rows.append((f"{name}, plain damping {DAMPING}", time.perf_counter() - begun, plain.steps, plain.residual))
    for name, seconds, steps, residual in rows:
        print(f"| {name} | {seconds:.2f} s | {steps} evaluations | residual {residual:.0e} |")
    image = _median(lambda: here.image(end.x, here.search(end.x, here.unknown())), 3)
    minima = here.search(end.x, here.unknown())
    warm = _median(lambda: here.image(end.x * (1 + 1e-3), minima), 5)
    print(f"one evaluation: cold / warm = {image / warm:.0f}x;  whole solve: cold / warm = {rows[1][1] / rows[0][1]:.1f}x,")
    print(f"cold and plainly damped, as a script would / ours = {rows[3][1] / rows[0][1]:.1f}x")
    print(f"evaluations: plain damping / Newton = {rows[2][2] / rows[0][2]:.1f}x")


def _median(work: Any, times: int) -> float:
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    return float(np.median(taken))


if __name__ == "__main__":
    with jax.enable_x64(True):
        prox(GIVEN | {"alpha": 4.0})
    curve()
