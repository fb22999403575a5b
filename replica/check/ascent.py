"""Signal subspace recovery: stochastic ascent with finite d and L against the flow and the mean
path.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, ClassVar

import numpy as np
import xarray as xr

from ..dynamics import recovery
from ..errors import InputError
from ..models import resolve
from ..simulate.subspace import Ascent, Paths, run
from .base import Asked, Experiment, Log, experiment, silent
from .options import DEFAULT_D, DEFAULT_L, AscentOptions
from .report import Comparison, Report, compare, compare_share

GAMMA, EARLY = 0.6, 0.1
"""Exponent of the default steps, and k0 as a share of their number."""
FLOOR, FEWEST, MOST = 0.05, 200, 4000
"""Default number of steps: until the gradient's noise leaves 1 - rho^2 = FLOOR, within these
bounds.
"""
EARLY_TO_END = (1 - GAMMA) / (
    (1 + EARLY) ** GAMMA * ((1 + EARLY) ** (1 - GAMMA) - EARLY ** (1 - GAMMA))
)
"""eta_K K/sum_k eta_k of these steps, for many of them."""
BEYOND = 2.0
"""Default length of a run, in times at which the flow reaches 0.99."""
PARTS = (0.125, 0.25, 0.5, 0.75, 1.0)
"""When alignments are compared, as shares of the steps."""


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


@experiment(recovery.MODEL)
class SubspaceAscent(Experiment):
    """Every run against the mean path from its own start."""

    options: ClassVar[type] = AscentOptions

    def prepare(self, asked: Asked, options: AscentOptions) -> Ascent:
        """R = round(r L), and the theory is evaluated at R/L."""
        _, values = resolve(asked.model, asked.given)
        theta, r, beta = (values[name] for name in ("theta", "r", "beta"))
        d, L = int(values.get("d") or DEFAULT_D), int(values.get("L") or DEFAULT_L)
        resolve(recovery.MODEL, {"theta": theta, "r": r, "beta": beta, "d": d, "L": L})
        draft = Ascent(
            theta,
            d,
            L,
            round(r * L),
            1.0,
            beta=beta,
            trials=options.trials,
            batch=options.batch,
            tokens=options.tokens,
            dtype=options.dtype,
            seed=options.seed,
        )
        draft.checked()
        if options.trials < 2:
            raise InputError("a standard error needs at least 2 trials: use --trials 30")
        steps = schedule(theta, draft.share, beta, d, L, options.batch, options.steps)
        return replace(draft, **steps).checked()

    def perform(self, prepared: Ascent, tell: Log = silent) -> Report:
        tell(
            f"{prepared.trials} trials of {prepared.steps} steps, {prepared.informative} of"
            f" {prepared.L} tokens informative, d = {prepared.d}, {prepared.tokens} tokens,"
            f" {prepared.dtype}: about {prepared.memory() / 1e6:.0f} MB"
        )
        return compare_ascent(prepared)


def compare_ascent(ascent: Ascent) -> Report:
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
    rows = report.to_dataset()
    dataset = _dataset(ascent, paths, theory, finite).merge(rows).assign_attrs(rows.attrs)
    return replace(report, dataset=dataset)


def _comparisons(
    ascent: Ascent, paths: Paths, theory: recovery.Path, limit: dict[str, float]
) -> list[Comparison]:
    """Each trial against the theory from its own start; attention before the last step, where it is
    measured.
    """
    rows = []
    for part in PARTS:
        k = round(part * ascent.steps)
        found, expected = np.abs(paths.rho[:, k]), np.abs(theory.rho[:, k])
        when = f"|rho| at t = {ascent.times[k]:.3g}"
        rows.append(compare(when, found, expected, theory.error[:, k].mean()))
    before, error = theory.rho[:, -2], theory.error[:, -2]
    noise = 1 - recovery.attention_mass(before + 0.0, **limit)
    other = 1 - recovery.attention_mass(before + error, **limit)
    mass = paths.noise_mass[:, -1]
    rows.append(compare("attention on noise tokens", mass, noise, np.abs(noise - other).mean()))
    positive = float(np.mean(theory.rho[:, -1] > 0))
    rows.append(compare_share("share of trials with rho > 0", paths.rho[:, -1] > 0, positive))
    return rows


def _references(
    ascent: Ascent, limit: dict[str, float], finite: dict[str, float]
) -> dict[str, float]:
    recovered = recovery.attention_mass(np.array([1.0]), **limit)[0]
    needed = recovery.recovery_time(ascent.d**-0.5, **finite).values
    return {
        "attention on noise tokens at rho = 1": float(1 - recovered),
        "probability of +xi from a uniform start": recovery.sign_probability(**finite),
        "time at which the flow reaches 0.99": float(needed),
        "final time": float(ascent.times[-1]),
        "memory of the simulation, MB": ascent.memory() / 1e6,
    }


def _dataset(
    ascent: Ascent, paths: Paths, theory: recovery.Path, finite: dict[str, float]
) -> xr.Dataset:
    flow = recovery.trajectory(paths.rho[:, 0], ascent.times, **finite).values.T
    # Attention is measured before a step: there is none after the last.
    mass = np.concatenate([paths.noise_mass, np.full((ascent.trials, 1), np.nan)], axis=1)
    at = ("trial", "step")
    distance = "distance of the mean path from that at L = infinity"
    variables = {
        "rho": (at, paths.rho, {"latex": r"\rho", "long_name": "simulated alignment q_k.xi"}),
        "rho_theory": (at, theory.rho, {"long_name": "mean path from the same start"}),
        "error_rho_theory": (at, theory.error, {"long_name": distance}),
        "rho_flow": (at, flow, {"long_name": "flow from the same start"}),
        "noise_mass": (at, mass, {"long_name": "attention on noise tokens before the step"}),
        "time": ("step", ascent.times, {"latex": r"\sum\eta_k"}),
    }
    coords = {"trial": np.arange(ascent.trials), "step": np.arange(ascent.steps + 1)}
    return xr.Dataset(variables, coords)
