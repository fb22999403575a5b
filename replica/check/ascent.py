"""Signal subspace recovery: stochastic ascent with finite d and L against the flow and the mean
path.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import xarray as xr

from ..dynamics import recovery
from ..errors import InputError
from ..models import resolve
from ..simulate.subspace import Ascent, Paths, run
from .report import Comparison, Report, compare, compare_share

DEFAULT_D, DEFAULT_L = 200, 5000
GAMMA, EARLY = 0.6, 0.1
"""Exponent of the default steps, and k0 as a share of their number."""
FLOOR, FEWEST, MOST = 0.05, 200, 4000
"""Default number of steps: until the gradient's noise leaves 1 - rho^2 = FLOOR, within these
bounds.
"""
BEYOND = 2.0
"""Default length of a run, in times at which the flow reaches 0.99."""
PARTS = (0.125, 0.25, 0.5, 0.75, 1.0)


def schedule(
    theta: float, r: float, beta: float, d: int, L: int, batch: int = 1, steps: int | None = None
) -> dict[str, Any]:
    """Steps eta_k = c/(k + k0)^0.6 that reach BEYOND times the flow's recovery time from rho =
    1/sqrt(d).

    The source leaves the steps open; these are ours. Their number is such that the noise of the
    gradient at the end leaves 1 - rho^2 = eta N/(2 J' batch) <= FLOOR, within FEWEST and MOST.
    """
    controls = {"theta": theta, "r": r, "beta": beta, "d": d, "L": L}
    needed = recovery.recovery_time(d**-0.5, **controls)
    end = BEYOND * float(needed.values)
    if steps is None:
        final = end * EARLY_TO_END
        floor = final * recovery.noise_floor(batch=batch, **controls)
        steps = int(np.clip(floor / FLOOR, FEWEST, MOST))
    k0 = max(1.0, EARLY * steps)
    return {
        "steps": steps,
        "k0": k0,
        "gamma": GAMMA,
        "c": end / float(np.sum((np.arange(steps) + k0) ** -GAMMA)),
    }


EARLY_TO_END = (1 - GAMMA) / (
    (1 + EARLY) ** GAMMA * ((1 + EARLY) ** (1 - GAMMA) - EARLY ** (1 - GAMMA))
)
"""eta_K K/sum_k eta_k of these steps, for many of them."""


def plan(
    theta: float,
    r: float,
    beta: float = 1.0,
    d: int | None = None,
    L: int | None = None,
    *,
    trials: int = 30,
    batch: int = 1,
    steps: int | None = None,
    **options: Any,
) -> Ascent:
    """A simulation of the model at these controls; R = round(r L), and the theory is evaluated at
    R/L.
    """
    d, L = int(d or DEFAULT_D), int(L or DEFAULT_L)
    resolve(recovery.MODEL, {"theta": theta, "r": r, "beta": beta, "d": d, "L": L})
    informative = round(r * L)
    draft = Ascent(
        theta,
        d,
        L,
        informative,
        1.0,
        beta=beta,
        trials=trials,
        batch=batch,
        **{"tokens": "projected", **options},
    )
    draft.checked()
    if trials < 2:
        raise InputError("a standard error needs at least 2 trials: use --trials 30")
    return replace(draft, **schedule(theta, draft.share, beta, d, L, batch, steps)).checked()


def check(ascent: Ascent) -> tuple[Report, xr.Dataset]:
    """Run ``ascent`` and compare; the dataset holds every path, for storage and figures."""
    paths = run(ascent)
    limit = {"theta": ascent.theta, "r": ascent.share, "beta": ascent.beta}
    finite = limit | {"d": ascent.d, "L": ascent.L}
    theory = recovery.mean_path(paths.rho[:, 0], ascent.step_sizes, ascent.batch, **finite)
    report = Report(
        recovery.MODEL,
        asdict(ascent),
        tuple(_comparisons(ascent, paths, theory, limit)),
        _references(ascent, limit, finite),
    )
    return report, _dataset(ascent, paths, theory, finite).merge(report.to_dataset()).assign_attrs(
        report.to_dataset().attrs
    )


def _comparisons(
    ascent: Ascent, paths: Paths, theory: recovery.Path, limit: dict[str, float]
) -> list[Comparison]:
    """Each trial against the theory from its own start; attention before the last step, where it is
    measured.
    """
    rows = []
    for part in PARTS:
        k = round(part * ascent.steps)
        rows.append(
            compare(
                f"|rho| at t = {ascent.times[k]:.3g}",
                np.abs(paths.rho[:, k]),
                np.abs(theory.rho[:, k]),
                theory.error[:, k].mean(),
            )
        )
    noise, other = (
        1 - recovery.attention_mass(theory.rho[:, -2] + shift, **limit)
        for shift in (0.0, theory.error[:, -2])
    )
    rows.append(
        compare(
            "attention on noise tokens",
            paths.noise_mass[:, -1],
            noise,
            np.abs(noise - other).mean(),
        )
    )
    rows.append(
        compare_share(
            "share of trials with rho > 0",
            paths.rho[:, -1] > 0,
            float(np.mean(theory.rho[:, -1] > 0)),
        )
    )
    return rows


def _references(
    ascent: Ascent, limit: dict[str, float], finite: dict[str, float]
) -> dict[str, float]:
    ends = np.array([1.0])
    return {
        "attention on noise tokens at rho = 1": float(
            1 - recovery.attention_mass(ends, **limit)[0]
        ),
        "probability of +xi from a uniform start": recovery.sign_probability(**finite),
        "time at which the flow reaches 0.99": float(
            recovery.recovery_time(ascent.d**-0.5, **finite).values
        ),
        "final time": float(ascent.times[-1]),
        "memory of the simulation, MB": ascent.memory() / 1e6,
    }


def _dataset(
    ascent: Ascent, paths: Paths, theory: recovery.Path, finite: dict[str, float]
) -> xr.Dataset:
    flow = recovery.trajectory(paths.rho[:, 0], ascent.times, **finite).values.T
    mass = np.concatenate([paths.noise_mass, np.full((ascent.trials, 1), np.nan)], axis=1)
    at = ("trial", "step")
    return xr.Dataset(
        {
            "rho": (at, paths.rho, {"latex": r"\rho", "long_name": "simulated alignment q_k.xi"}),
            "rho_theory": (at, theory.rho, {"long_name": "mean path from the same start"}),
            "error_rho_theory": (
                at,
                theory.error,
                {"long_name": "distance of the mean path from that at L = infinity"},
            ),
            "rho_flow": (at, flow, {"long_name": "flow from the same start"}),
            "noise_mass": (at, mass, {"long_name": "attention on noise tokens before the step"}),
            "time": ("step", ascent.times, {"latex": r"\sum\eta_k"}),
        },
        {"trial": np.arange(ascent.trials), "step": np.arange(ascent.steps + 1)},
    )
