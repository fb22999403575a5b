"""What a solve returns: branches, their order by free energy, and how they are printed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from equations import Model
from solvers import Status

from .errors import InputError
from .inputs import nearest, printable
from .theories import gradient_flow, sphere_flow
from .theories.saddle_point import Point, Settings


@dataclass(frozen=True)
class Branch:
    """A fixed point reached from one start (or several, joined by "+").

    Attributes
    ----------
    start : str
    overlaps, conjugates, observables : dict of name -> float
    free_energy : float
        Phi per dimension (the objective, for a model without conjugates).
    status : Status
    residual : float
        Undamped, max|F(x) - x|.
    error : dict of name -> float
        Error estimates of overlaps, conjugates, observables and ``free_energy``.
    steps : int
        Evaluations of the map.
    spectral_radius : float
        Of dF/dx: below 1 the branch is stable. For a flow, of its time-one map: e^rate.
    level : int
        Refinements of the node sets that were needed.
    note : str
        What the sentence of ``status`` leaves open, such as in how many samples a minimisation
        failed.
    rates : tuple of float
        Of the end of a flow of several overlaps: growth rates of small deviations, largest first.
    """

    start: str
    overlaps: dict[str, float]
    conjugates: dict[str, float]
    free_energy: float
    observables: dict[str, float]
    status: Status
    residual: float
    error: dict[str, float]
    steps: int
    spectral_radius: float
    level: int = 0
    note: str = ""
    rates: tuple[float, ...] = ()

    @property
    def message(self) -> str:
        """The sentence of the status, with its note."""
        return f"{self.status.value} ({self.note})" if self.note else self.status.value

    @property
    def ok(self) -> bool:
        return self.status.is_point


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
        if (
            self.best is None
            or self.model.path != "compiled"
            or "uninformed" not in self.model.starts
            or "risk" not in self.model.observables
        ):
            return {}
        return {
            "algorithmic": self.branch("uninformed").observables["risk"],
            "information_theoretic": self.branches[self.best].observables["risk"],
        }

    def to_dict(self) -> dict[str, Any]:
        """The JSON object that ``replica solve --json`` prints (NaN as null)."""
        about = {
            "model": self.model.name,
            "options": dict(self.model.options),
            "controls": printable(self.controls),
        }
        if self.model.path == "flow":
            return json_safe(
                about
                | {
                    "fixed_points": [
                        (gradient_flow if self.model.gram else sphere_flow).describe(b)
                        for b in self.branches
                    ]
                }
            )
        phi = "free_entropy" if self.model.best == "largest" else "objective"
        branches = [
            {
                "start": b.start,
                "overlaps": b.overlaps,
                "conjugates": b.conjugates,
                phi: b.free_energy,
                "observables": b.observables,
                "status": b.status.value,
                "residual": b.residual,
                "error": b.error,
                "steps": b.steps,
                "spectral_radius": b.spectral_radius,
                "level": b.level,
                **({"note": b.note} if b.note else {}),
            }
            for b in self.branches
        ]
        result = about | {"branches": branches, "best": self.best}
        return json_safe(result | ({"risk": self.risks} if self.risks else {}))


def json_safe(value: Any) -> Any:
    """The same with null for NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {k: json_safe(v) for k, v in value.items()}
    if isinstance(value, list):
        return [json_safe(v) for v in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def branch_of(model: Model, start: str, point: Point, level: int) -> Branch:
    """A solved point with names."""

    def named(names: Any, values: np.ndarray) -> dict[str, float]:
        return {n: float(v) for n, v in zip(names, values, strict=True)}

    overlaps, hats = [q.name for q in model.overlaps], [q.name for q in model.conjugates]
    error = (
        named(overlaps, point.error_x)
        | named(hats, point.error_hats)
        | named(model.observables, point.error_observables)
    )
    return Branch(
        start,
        named(overlaps, point.x),
        named(hats, point.hats),
        float(point.free_energy),
        named(model.observables, point.observables),
        Status.of(int(point.status)),
        float(point.residual),
        error | {"free_energy": float(point.error_free_energy)},
        int(point.steps),
        float(point.radius),
        level,
    )


def same(a: Branch, b: Branch) -> bool:
    """Whether two branches are one point within their errors (and 1e-7)."""
    close = all(
        abs(a.overlaps[k] - b.overlaps[k]) <= 1e-7 + a.error[k] + b.error[k] for k in a.overlaps
    )
    return a.ok and b.ok and close


def merged(branches: list[Branch]) -> list[Branch]:
    """One entry per distinct point; its start names join those that reached it."""
    kept: list[Branch] = []
    for branch in branches:
        twin = next((i for i, k in enumerate(kept) if same(k, branch)), None)
        if twin is None:
            kept.append(branch)
        else:
            kept[twin] = replace(kept[twin], start=f"{kept[twin].start}+{branch.start}")
    return kept


def best_branch(model: Model, branches: list[Branch]) -> int | None:
    """Index of the successful branch with the best free energy."""
    good = [i for i, b in enumerate(branches) if b.ok]
    pick = max if model.best == "largest" else min
    return pick(good, key=lambda i: branches[i].free_energy) if good else None
