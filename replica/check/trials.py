"""Independent trials at several sizes D, for the checks of theory against simulation."""

from __future__ import annotations

import enum
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import xarray as xr
from threadpoolctl import threadpool_limits

from equations import Model
from equations.numerals import shown, whole

from ..errors import InputError
from ..inputs import printable
from ..jobs.checkpoint import TrialCheckpoint, keeping
from ..jobs.run import JobOptions
from ..solution import Branch, Solution
from ..sweeps.dataset import to_dataset
from .base import Asked, Experiment, Log, silent, with_dataset
from .options import SIZES, TRIALS
from .report import Comparison, Report, compare_sizes, standard_error_of

Result = TypeVar("Result")
Trial = Callable[[int, np.random.Generator], Mapping[str, Any]]
"""(D, generator) -> numbers by name."""


@dataclass(frozen=True)
class Trials:
    """Sizes, trials per size and seed; trial i of a size is the same whatever else is run."""

    sizes: tuple[int, ...]
    trials: int
    seed: int

    def generator(self, D: int, trial: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, D, trial])


def read_trials(sizes: str | Sequence[int] = SIZES, trials: int = TRIALS, seed: int = 0) -> Trials:
    """From what a user gives; ``sizes`` as "500,1000,2000" or numbers."""
    parts = sizes.split(",") if isinstance(sizes, str) else list(sizes)
    try:
        values = tuple(sorted({whole(part) for part in parts}))
    except ValueError:
        raise InputError(
            f"cannot read --D {shown(sizes)}: write sizes such as 500,1000,2000"
        ) from None
    if values[0] < 10:
        raise InputError(
            f"D = {values[0]} is too small to say anything about D = infinity: use at least 10"
        )
    if trials < 2:
        raise InputError("a standard error needs at least 2 trials: use --trials 10")
    if seed < 0:
        raise InputError(f"seed = {seed} must not be negative")
    return Trials(values, trials, seed)


@dataclass(frozen=True)
class TrialPlan:
    """A model with its controls, and the sizes and trials."""

    model: Model
    values: dict[str, float]
    trials: Trials

    def how(self) -> dict[str, Any]:
        """What else decides the trials."""
        return {}

    def settings(self) -> dict[str, Any]:
        """What is run, for the report."""
        runs = {
            "D": list(self.trials.sizes),
            "trials": self.trials.trials,
            "seed": self.trials.seed,
        }
        return dict(self.model.options) | printable(self.values) | runs | self.how()

    def identity(self) -> dict[str, Any]:
        """What a file must agree in to be continued."""
        what = {"kind": "check", "model": self.model.name, "settings": self.settings()}
        source = self.model.source
        return what if source is None else what | {"source_sha256": source.sha256}


class TrialExperiment(Experiment):
    """An experiment by independent trials at several D, which are stored as they finish."""

    @abstractmethod
    def prepare(self, asked: Asked, options: Any) -> TrialPlan:
        """The plan of what is asked."""

    @abstractmethod
    def perform(
        self, prepared: Any, tell: Log = silent, kept: TrialCheckpoint | None = None
    ) -> Report:
        """Theory, the trials that ``kept`` does not have, and their comparison."""

    def carry_out(self, asked: Asked, options: Any, work: JobOptions, tell: Log) -> Report:
        prepared = self.prepare(asked, options)
        trials = prepared.trials
        with keeping(work, trials.sizes, trials.trials, prepared.identity()) as kept:
            report, dataset = with_dataset(self.perform(prepared, tell, kept))
            kept.finish(dataset.assign_attrs(work.attrs))
        return report


def run_trials(
    trials: Trials,
    trial: Trial,
    tell: Log = silent,
    kept: TrialCheckpoint | None = None,
    at_once: int = 1,
) -> dict[str, np.ndarray]:
    """Every trial that ``kept`` does not have, so many at a time; arrays of shape (sizes, trials,
    ...).
    """
    kept = kept or TrialCheckpoint(trials.sizes, trials.trials)
    # BLAS keeps one thread throughout: two trials that set and reset it would undo each other.
    with threadpool_limits(1, "blas"):
        for i, D in enumerate(trials.sizes):
            missing = np.flatnonzero(~kept.done[i]).tolist()
            if len(missing) < trials.trials:
                tell(f"D = {D}: {trials.trials - len(missing)} trials are there already")
            began = time.perf_counter()
            work = partial(_one, trials, trial, D)
            for n, (j, found) in enumerate(in_order(work, missing, at_once)):
                kept.put(i, j, found)
                if n == 0:
                    seconds = time.perf_counter() - began
                    tell(f"D = {D}: {len(missing)} trials of about {seconds:.1f} s")
    return kept.results


def _one(trials: Trials, trial: Trial, D: int, number: int) -> Mapping[str, Any]:
    return trial(D, trials.generator(D, number))


def in_order(
    work: Callable[[int], Result], numbers: Sequence[int], at_once: int
) -> Iterator[tuple[int, Result]]:
    """(number, result) of every piece of work, in their order whatever is finished first; the first
    one by itself, as it compiles.
    """
    alone = len(numbers) if at_once == 1 else 1
    for number in numbers[:alone]:
        yield number, work(number)
    pool = ThreadPoolExecutor(at_once)
    try:
        futures = [(number, pool.submit(work, number)) for number in numbers[alone:]]
        for number, future in futures:
            yield number, future.result()
    finally:
        # What has begun cannot be stopped, and who is interrupted does not wait for it.
        pool.shutdown(wait=False, cancel_futures=True)


def compare_trials(
    plan: TrialPlan, name: str, values: np.ndarray, branch: Branch, of: str | None = None
) -> Comparison:
    """``values`` of shape (sizes, trials) against the theory at D = infinity; ``of`` is what they
    tend to, where its name is another.
    """
    of = of or name
    samples = dict(zip(plan.trials.sizes, values, strict=True))
    theory = {**branch.overlaps, **branch.observables}[of]
    return compare_sizes(name, samples, theory, standard_error_of(plan.model, branch, of))


def unconverged(ended: np.ndarray, endings: Sequence[enum.Enum], what: str) -> tuple[str, ...]:
    """A sentence on the runs that did not end with the first of ``endings``; ``ended`` holds their
    positions.
    """
    failed = ended[ended != 0]
    if failed.size == 0:
        return ()
    return (f"{failed.size} of {ended.size} {what}: {endings[int(failed[0])].value}",)


def trials_dataset(
    trials: Trials,
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
        "size": ("size", list(trials.sizes), {"latex": "D", "long_name": "dimension"}),
        "trial": np.arange(trials.trials),
        **inner,
    }
    branches, compared_rows = to_dataset(theory), report.to_dataset()
    branches = branches.rename({name: f"theory_{name}" for name in branches.data_vars})
    attrs = branches.attrs | compared_rows.attrs
    return xr.Dataset(variables, coords).merge(branches).merge(compared_rows).assign_attrs(attrs)
