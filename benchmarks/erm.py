"""Trained attention: a curve in alpha, warm-started against cold-started prox, Newton against plain
damping.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import jax
import numpy as np
from table import Row

import replica
from replica import Settings
from replica.models import resolve
from replica.theories import theory_of
from replica.theories.trained.predictor import DAMPING
from replica.theories.trained.sample_map import Minima, SampleMap
from solvers.warm_start import warm_fixed_point

GIVEN = {"activation": "softmax", "L": 4, "nu": 1, "Delta": 0.1, "lam_k": 0.8, "lam_v": 1.0}
ALPHAS = np.linspace(1.0, 8.0, 20)
STANDARD_ERROR = 3e-3


class Cold(SampleMap):
    """A map that searches every minimiser from scratch at every evaluation."""

    def image(self, x: np.ndarray, known: Minima) -> tuple[np.ndarray, Minima]:
        found = self.search(x, self.unknown())
        return super().image(x, found)


def curve() -> tuple[float, float]:
    """Seconds of a curve of 20 points, both starts at each, and the largest standard error of the
    risk.
    """
    begun = time.perf_counter()
    # The reported error is twice the standard error.
    result = replica.sweep(
        "slr-erm",
        over={"alpha": ALPHAS},
        settings=Settings(accuracy=2 * STANDARD_ERROR),
        progress=False,
        **GIVEN,
    )
    seconds = time.perf_counter() - begun
    points = result.status.isin([s.code for s in replica.Status if s.is_point])
    assert bool(points.all()), "a point of the curve was not solved"
    return seconds, float(result.error_risk.max()) / 2


def fixed_points() -> dict[str, tuple[float, int]]:
    """Route -> (seconds, evaluations) of one fixed point on the same samples."""
    model, values = resolve("slr-erm", GIVEN | {"alpha": 4.0})
    c = np.array([values[q.name] for q in model.controls])
    theory, settings = theory_of(model), Settings(accuracy=1e-2)
    here = theory.samples(c)
    x0 = np.array([1.0, 1.2, 0.5, 1.0, 1.2, 0.4])
    cold = Cold.__new__(Cold)
    cold.__dict__.update(here.__dict__)
    theory.fixed_point(here, x0, settings)  # compiles
    found = {}
    for name, ensemble in (("warm, Newton", here), ("cold, Newton", cold)):
        begun = time.perf_counter()
        end, _ = theory.fixed_point(ensemble, x0, settings)
        found[name] = time.perf_counter() - begun, end.steps
    for name, ensemble in (("warm, plain", here), ("cold, plain", cold)):
        begun = time.perf_counter()
        plain = warm_fixed_point(  # a slope that is no number: no Newton step is ever taken
            ensemble.image,
            lambda x, s: np.full((6, 6), np.nan),
            x0,
            here.search(x0, here.unknown()),
            tol=settings.tol,
            max_steps=2000,
            damping=DAMPING,
            inside=lambda x: True,
        )
        found[name] = time.perf_counter() - begun, plain.steps
    return found


def rows() -> Iterator[Row]:
    """One fixed point by four routes, and the curve."""
    with jax.enable_x64(True):
        found = fixed_points()
    seconds, steps = found["warm, Newton"]
    instead = {
        "cold, Newton": "every prox searched from scratch, Newton",
        "warm, plain": f"warm prox, damping {DAMPING}",
        "cold, plain": f"as a script: from scratch, damping {DAMPING}",
    }
    for route, words in instead.items():
        other, others = found[route]
        yield Row(
            f"one softmax fixed point, L = 4, 8192 samples, {steps} evaluations",
            seconds,
            None,
            f"{words}, {others} evaluations",
            other,
        )
    seconds, error = curve()
    yield Row("20-point softmax curve, both starts, L = 4, compilation included", seconds, error)
