"""Trials of single-location regression at finite D: what its two experiments share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equations.slr.laws import read_law

from ..jobs.checkpoint import TrialCheckpoint
from ..jobs.options import cores
from ..simulate import data, measure
from .base import Log
from .trials import TrialPlan


@dataclass(frozen=True)
class LocationPlan(TrialPlan):
    """A single-location model with its controls, and the sizes and trials."""

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
        rule = self.model.options["rule"]
        alpha, nu, noise = (self.values[name] for name in ("alpha", "nu", "Delta"))
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

    def announce(self, tell: Log) -> None:
        """Say what the largest trial takes, or raise an InputError if the machine has not that
        much.
        """
        largest = max(self.trials.sizes)
        size = data.check_memory(self.values["alpha"], self.tokens, largest) / 1e6
        tell(f"a trial at D = {largest} takes {size:.0f} MB beyond the program")

    def at_once(self, kept: TrialCheckpoint | None) -> int:
        """Trials at a time: as many as the user says, or as there are cores and memory for."""
        if kept is not None and kept.jobs is not None:
            return kept.jobs
        needed = data.memory(self.values["alpha"], self.tokens, max(self.trials.sizes))
        return max(1, int(min(cores(), data.free_memory() // needed)))
