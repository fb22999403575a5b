"""Independent trials at several sizes D, for the checks of theory against simulation."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from equations import Model
from equations.numerals import shown, whole
from equations.slr.laws import read_law

from ..errors import InputError
from ..inputs import printable
from ..jobs.checkpoint import TrialCheckpoint
from ..simulate import data, measure
from ..solution import Solution
from ..sweeps.dataset import to_dataset as theory_dataset
from .report import Comparison, Report, compare_sizes

Trial = Callable[[int, np.random.Generator], Mapping[str, Any]]
"""(D, generator) -> numbers by name."""
Log = Callable[[str], None]
SIZES, TRIALS = "250,500,1000", 10


@dataclass(frozen=True)
class Trials:
    """Sizes, trials per size and seed; trial i of a size is the same whatever else is run."""

    sizes: tuple[int, ...]
    trials: int
    seed: int

    def generator(self, D: int, trial: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, D, trial])


@dataclass(frozen=True)
class Plan:
    """A single-location model with its controls, and the sizes and trials."""

    model: Model
    values: dict[str, float]
    trials: Trials

    @property
    def tokens(self) -> int:
        """The length of all sequences, or of the longest."""
        return int(self.values["L"]) if self.lengths is None else self.lengths[-1][0]

    @property
    def lengths(self) -> tuple[tuple[int, float], ...] | None:
        """(length, probability) of a law of the length."""
        text = self.model.options.get("L")
        return None if text is None else tuple((length, float(p)) for length, p in read_law(text))

    def draw(self, D: int, rng: np.random.Generator) -> data.Data:
        """One data set."""
        rule, (alpha, nu, noise) = (
            self.model.options["rule"],
            (self.values[n] for n in ("alpha", "nu", "Delta")),
        )
        return data.draw(rng, rule, D, self.tokens, alpha, nu, noise, self.lengths)

    def risk(
        self,
        rng: np.random.Generator,
        predict: measure.Predictor,
        drawn: data.Data,
        k: np.ndarray,
        v: np.ndarray,
    ) -> float:
        """Mean squared error of a predictor on fresh sequences."""
        nu, noise = self.values["nu"], self.values["Delta"]
        return measure.test_risk(
            rng, predict, drawn, k, v, self.model.options["rule"], nu, noise, lengths=self.lengths
        )

    def memory(self) -> float:
        """Bytes of the largest trial, or an InputError if the machine has not that much."""
        return data.check_memory(self.values["alpha"], self.tokens, max(self.trials.sizes))

    def how(self) -> dict[str, Any]:
        """What else decides the trials."""
        return {}

    def settings(self) -> dict[str, Any]:
        """What was run, for the report."""
        runs = {
            "D": list(self.trials.sizes),
            "trials": self.trials.trials,
            "seed": self.trials.seed,
        }
        return dict(self.model.options) | printable(self.values) | runs | self.how()


def unconverged(ended: np.ndarray, endings: Sequence[enum.Enum], what: str) -> tuple[str, ...]:
    """A sentence on the runs that did not end with the first of ``endings``; ``ended`` holds their
    positions.
    """
    failed = ended[ended != 0]
    return (
        (f"{failed.size} of {ended.size} {what}: {endings[int(failed[0])].value}",)
        if failed.size
        else ()
    )


def plan(
    sizes: str | Sequence[int] | None = None, trials: int | None = None, seed: int = 0
) -> Trials:
    """From what a user gives; ``sizes`` as "500,1000,2000" or numbers."""
    text = SIZES if sizes is None else sizes
    parts = text.split(",") if isinstance(text, str) else list(text)
    try:
        values = tuple(sorted({whole(part) for part in parts}))
    except ValueError:
        raise InputError(
            f"cannot read --D {shown(text)}: write sizes such as 500,1000,2000"
        ) from None
    trials = TRIALS if trials is None else trials
    if values[0] < 10:
        raise InputError(
            f"D = {values[0]} is too small to say anything about D = infinity: use at least 10"
        )
    if trials < 2:
        raise InputError("a standard error needs at least 2 trials: use --trials 10")
    if seed < 0:
        raise InputError(f"seed = {seed} must not be negative")
    return Trials(values, trials, seed)


def run(
    planned: Trials, trial: Trial, tell: Log = lambda _: None, kept: TrialCheckpoint | None = None
) -> dict[str, np.ndarray]:
    """Every trial that ``kept`` does not have; arrays of shape (sizes, trials, ...)."""
    kept = kept or TrialCheckpoint(planned.sizes, planned.trials)
    for i, D in enumerate(planned.sizes):
        missing = np.flatnonzero(~kept.done[i])
        if len(missing) < planned.trials:
            tell(f"D = {D}: {planned.trials - len(missing)} trials are there already")
        for n, j in enumerate(missing):
            began = time.perf_counter()
            kept.put(i, int(j), trial(D, planned.generator(D, int(j))))
            if n == 0:
                tell(f"D = {D}: {len(missing)} trials of about {time.perf_counter() - began:.1f} s")
    return kept.results


def compared(
    planned: Trials, name: str, values: np.ndarray, theory: float, theory_error: float
) -> Comparison:
    """``values`` of shape (sizes, trials) against the theory at D = infinity."""
    return compare_sizes(name, dict(zip(planned.sizes, values, strict=True)), theory, theory_error)


def to_dataset(
    planned: Trials,
    results: Mapping[str, np.ndarray],
    inner: Mapping[str, Any],
    labels: Mapping[str, dict[str, Any]],
    report: Report,
    theory: Solution,
) -> xr.Dataset:
    """All trials as (size, trial, *inner) variables, the comparisons, and every branch of the
    theory as ``theory_<name>``.
    """
    dims = ("size", "trial", *inner)
    variables = {
        name: (dims[: values.ndim], values, labels.get(name, {}))
        for name, values in results.items()
    }
    coords = {
        "size": ("size", list(planned.sizes), {"latex": "D", "long_name": "dimension"}),
        "trial": np.arange(planned.trials),
        **inner,
    }
    branches, compared_rows = theory_dataset(theory), report.to_dataset()
    branches = branches.rename({name: f"theory_{name}" for name in branches.data_vars})
    attrs = branches.attrs | compared_rows.attrs
    return xr.Dataset(variables, coords).merge(branches).merge(compared_rows).assign_attrs(attrs)
