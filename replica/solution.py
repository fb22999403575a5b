"""What a solve returns: branches, their order by free energy, and how they are printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from equations import Model

from .errors import InputError
from .inputs import json_safe, nearest, printable
from .theories import Branch, Settings, Theory, theory_of

__all__ = ["Branch", "Settings", "Solution", "best_branch"]


@dataclass(frozen=True)
class Solution:
    """Every branch of a model at one point.

    Attributes
    ----------
    model : Model
    controls : dict of name -> float
    branches : tuple of Branch
        One for each fixed point that was reached.
    best : int or None
        Index of the equilibrium branch, by free energy; None if no branch succeeded.
    settings : Settings
        How it was solved.
    """

    model: Model
    controls: dict[str, float]
    branches: tuple[Branch, ...]
    best: int | None
    settings: Settings = field(default_factory=Settings)

    @property
    def theory(self) -> Theory:
        """How it was solved."""
        return theory_of(self.model)

    @property
    def equilibrium(self) -> Branch | None:
        """The branch of best free energy; None if no branch succeeded."""
        return None if self.best is None else self.branches[self.best]

    def branch(self, start: str) -> Branch:
        """The branch reached from ``start``."""
        for branch in self.branches:
            if start in branch.start.split("+"):
                return branch
        raise InputError(
            f"{self.model.name} has no start {start!r}: {nearest(start, self.model.starts)}"
        )

    @property
    def risks(self) -> dict[str, float]:
        """Algorithmic (uninformed branch) and information-theoretic (best branch) risk, where the
        model has them (a Bayes-optimal one).
        """
        risk, best = self.model.with_role("risk"), self.equilibrium
        if best is None or risk is None or not self.theory.has_algorithmic_branch:
            return {}
        return {
            "algorithmic": self.branch("uninformed").observables[risk],
            "information_theoretic": best.observables[risk],
        }

    def to_dict(self) -> dict[str, Any]:
        """The JSON object that ``replica solve --json`` prints (NaN as null)."""
        theory = self.theory
        result: dict[str, Any] = {
            "model": self.model.name,
            "options": dict(self.model.options),
            "controls": printable(self.controls),
            theory.entries: [theory.describe(b) for b in self.branches],
        }
        if theory.energy_is_shown:
            result["best"] = self.best
        if self.risks:
            result["risk"] = self.risks
        return json_safe(result)


def best_branch(model: Model, branches: Sequence[Branch]) -> int | None:
    """Index of the successful branch with the best free energy."""
    good = [i for i, b in enumerate(branches) if b.ok]
    pick = max if model.best == "largest" else min
    return pick(good, key=lambda i: branches[i].free_energy) if good else None
