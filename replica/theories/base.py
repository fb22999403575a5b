"""What a way of solving a model offers, and what a solved point is.

A theory is made of a model by ``theory_of`` and knows how that kind of model is solved; nobody else
asks what kind it is. What a kind does not offer is one sentence that says what to use instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, NoReturn

import jax
import numpy as np
import sympy as sp

from equations import Model
from solvers import Status, radius_of
from solvers.branch import Polish

from ..errors import InputError
from ..inputs import printable
from ..lowering.node_sizes import NodeSizes
from .equations import State


@dataclass(frozen=True)
class Settings:
    """How to solve.

    Attributes
    ----------
    tol : float
        On the undamped residual max|F(x) - x|.
    accuracy : float or None
        Largest error of an overlap that is still called resolved; None takes the model's own
        default.
    max_steps : int
        Evaluations of the map.
    damping : float
        Weight on the old iterate, in [0, 1).
    polish : {"anderson", "newton", "none"}
        Accelerator used once plain iteration has chosen the branch.
    route : {"exact", "sampled"}
        How averages are evaluated.
    """

    tol: float = 1e-10
    accuracy: float | None = None
    max_steps: int = 100_000
    damping: float = 0.0
    polish: Polish = "anderson"
    route: str = "exact"


class Point(NamedTuple):
    """One solved point as arrays; error arrays match ``x`` and the order of the model's
    observables.

    ``unresolved`` is the part of ``error_x`` that finer node sets would remove (the rest is the
    residual's).
    """

    x: jax.Array
    hats: jax.Array
    free_energy: jax.Array
    observables: jax.Array
    residual: jax.Array
    steps: jax.Array
    status: jax.Array
    radius: jax.Array
    error_x: jax.Array
    error_hats: jax.Array
    error_free_energy: jax.Array
    error_observables: jax.Array
    unresolved: jax.Array


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
        """Whether it is a solution (a warning about the theory is none against it)."""
        return self.status.is_point


Starts = Mapping[str, Mapping[str, Any]]
"""Overlaps by the names of the starts; their values may be expressions in the controls."""
Lines = tuple[np.ndarray, np.ndarray]
"""Starts (lines, points, n) and controls (lines, points, m); warm starts run along the points."""
Done = Callable[[int], None]
"""Hears how many points were finished."""


class Theory(ABC):
    """How one kind of model is solved."""

    error_in_sigmas: ClassVar[float] = 1.0
    """Standard errors that a reported error is: 2 where averages are over samples."""
    diagram: ClassVar[str] = ""
    """How its phase diagrams are made: "lines" of thresholds, a "map" on a grid, or not at all."""
    batched: ClassVar[bool] = False
    """Whether a piece of a sweep is several lines of points."""
    cores_of_a_point: ClassVar[int | None] = None
    """Cores that one piece of a sweep occupies; None: pieces are not solved side by side."""
    entries: ClassVar[str] = "branches"
    """What the JSON object of a solution calls them."""
    objective: ClassVar[tuple[str, str, str]] = ("", "", "")
    """Without conjugates: what is stationary, and what is printed before and after its slopes."""
    threshold_accuracy: Callable[[float], float]
    first_sizes: Callable[..., NodeSizes]
    """Of theories with a curve: what thresholds are refined to, and the node sets to begin with."""
    energy_is_shown: ClassVar[bool] = True
    """Whether the free energy is no observable already."""

    def __init__(self, model: Model) -> None:
        self.model = model
        # Of the one type that this theory is for, as theory_of has chosen it.
        self.record: Any = model.theory

    # what every theory does ----------------------------------------------------------------------

    @abstractmethod
    def solve(
        self,
        starts: Starts,
        values: Mapping[str, float],
        settings: Settings,
        nodes: NodeSizes | None,
    ) -> list[Branch]:
        """Every branch that the starts lead to, one entry per distinct point."""

    @abstractmethod
    def evaluate(
        self, at: Mapping[str, float], values: Mapping[str, float], nodes: NodeSizes | None
    ) -> dict[str, Any]:
        """Everything the model defines at the overlaps ``at``, without iterating."""

    def describe(self, branch: Branch) -> dict[str, Any]:
        """The JSON entry of one branch."""
        other = self.model.with_role("overlap")
        also = {} if other is None else {other: branch.observables[other]}
        return {
            "start": branch.start,
            "overlaps": branch.overlaps | also,
            "conjugates": branch.conjugates,
            self.energy_name: branch.free_energy,
            "observables": branch.observables,
            "status": branch.status.value,
            "residual": branch.residual,
            "error": branch.error,
            "steps": branch.steps,
            "spectral_radius": branch.spectral_radius,
            "level": branch.level,
            **({"note": branch.note} if branch.note else {}),
        }

    def node_sizes(self, *points: Mapping[str, float]) -> NodeSizes:
        """The default node sets, enlarged where the model asks for it at any of these controls."""
        return NodeSizes()

    @abstractmethod
    def check(self) -> None:
        """Derive and lower everything once, so that what cannot be is named before any solving."""

    # what some do --------------------------------------------------------------------------------

    def check_sweep(self) -> None:
        """Refuse a sweep with a sentence, if there is none."""
        self._refuse(f"has no sweep: {self._instead()}")

    def check_phase(self) -> None:
        """Refuse phases with a sentence, if there are none."""
        self._refuse(f"has no phases to find along a control: {self._instead()}")

    def check_curve(self) -> None:
        """Refuse a curve of fixed points with a sentence, if there is none."""
        self._refuse(f"has no curve of fixed points to follow: {self._instead()}")

    def lines(
        self,
        lines: Lines,
        settings: Settings,
        sizes: NodeSizes,
        warm: bool,
        done: Done,
    ) -> tuple[Point, np.ndarray]:
        """The points of lines, classified, and how often their node sets were refined."""
        return self._refuse(f"has no sweep: {self._instead()}")

    def along(self, control: str, fixed: Mapping[str, float], sizes: NodeSizes) -> Any:
        """The model with all controls fixed but one (``OneParameter``)."""
        return self._refuse(f"has no curve of fixed points to follow: {self._instead()}")

    def check_gradient(self, observable: str) -> None:
        """Refuse the best controls with a sentence, if there is nothing to choose."""
        self._refuse(
            "has no best controls to search for: optimise works for models with fixed points, by"
            " quadrature or averaged over samples"
        )

    def followed(self, x: np.ndarray, settings: Settings, observable: str) -> Any:
        """One branch followed as controls move, with derivatives (``FollowedBranch``)."""
        return self.check_gradient(observable)

    def sensitivity(
        self, branch: Branch, values: Mapping[str, float], moved: tuple[str, ...]
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Derivatives (names, moved) by the controls, their errors, and how far dF/dx is from an
        eigenvalue 1.
        """
        return self.refuse_derivatives()

    @property
    def has_algorithmic_branch(self) -> bool:
        """Whether the uninformed start is an algorithm's, with a risk of its own."""
        return False

    def state(self, c: jax.Array, x: jax.Array, sizes: NodeSizes) -> Any:
        """Everything a map F of the overlaps gives at ``x`` (``equations.State``)."""
        return self._refuse(f"is not solved by iterating a map: {self._instead()}")

    def refuse_derivatives(self) -> NoReturn:
        """That there are no derivatives with respect to the controls."""
        raise InputError(
            "derivatives with respect to the controls need averages by quadrature:"
            f" {self.model.name} as solved here has none"
        )

    # common pieces -------------------------------------------------------------------------------

    @property
    def energy_name(self) -> str:
        """What the JSON object calls the free energy."""
        return "free_entropy" if self.model.best == "largest" else "objective"

    def start_vector(self, start: Mapping[str, Any], values: Mapping[str, float]) -> np.ndarray:
        """A start's overlaps as numbers; its entries may be expressions in the controls."""
        at = substitution(self.model, values)

        def of(entry: Any) -> float:
            plain = isinstance(entry, int | float)  # SymPy takes its time, and a sweep has many
            return float(entry if plain else sp.sympify(entry).subs(at))

        return np.array([of(start[q.name]) for q in self.model.overlaps], dtype=float)

    def control_vector(self, values: Mapping[str, float]) -> np.ndarray:
        """Controls in order; NaN for one that is not given."""
        return np.array([values.get(q.name, np.nan) for q in self.model.controls], dtype=float)

    def _evaluation(
        self, values: Mapping[str, float], x: np.ndarray, state: State
    ) -> dict[str, Any]:
        """What ``evaluate`` returns for a map of the overlaps, from its state at ``x``."""
        model, names = self.model, [q.name for q in self.model.overlaps]
        hats = zip(model.conjugates, state.hats, strict=True)
        seen = zip(model.observables, state.observables, strict=True)
        return {
            "model": model.name,
            "options": dict(model.options),
            "controls": printable(values),
            "overlaps": dict(zip(names, map(float, x), strict=True)),
            "conjugates": {q.name: float(v) for q, v in hats},
            "update": dict(zip(names, map(float, state.update), strict=True)),
            self.energy_name: float(state.free_energy),
            "observables": {name: float(v) for name, v in seen},
            "residual": float(np.max(np.abs(state.update - x), initial=0.0)),
            "spectral_radius": radius_of(np.asarray(state.slope)),
        }

    def _instead(self) -> str:
        """What to use instead of what there is not."""
        return "use solve"

    def _refuse(self, why: str) -> NoReturn:
        raise InputError(f"{self.model.name} {why}")


def substitution(model: Model, values: Mapping[str, float]) -> dict[sp.Symbol, float]:
    """The symbols of the controls that are given, and their values."""
    return {q.symbol: values[q.name] for q in model.controls if q.name in values}


def two_standard_errors(per_set: Any) -> Any:
    """Twice the standard error of the mean over the sets (first axis), of NumPy or JAX arrays."""
    return 2 * per_set.std(axis=0, ddof=1) / np.sqrt(len(per_set))


def branch_of(model: Model, start: str, point: Point, level: int) -> Branch:
    """A solved point with names."""

    def named(names: Any, values: np.ndarray) -> dict[str, float]:
        return {n: float(v) for n, v in zip(names, values, strict=True)}

    overlaps, hats = [q.name for q in model.overlaps], [q.name for q in model.conjugates]
    error = named(overlaps, point.error_x) | named(hats, point.error_hats)
    error |= named(model.observables, point.error_observables)
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


def merged(branches: Sequence[Branch]) -> list[Branch]:
    """One entry per distinct point; its start names join those that reached it."""
    kept: list[Branch] = []
    for branch in branches:
        twin = next((i for i, k in enumerate(kept) if same(k, branch)), None)
        if twin is None:
            kept.append(branch)
        else:
            kept[twin] = replace(kept[twin], start=f"{kept[twin].start}+{branch.start}")
    return kept


Refined = tuple[str, Point, int]
"""Name of the start, the classified point, refinements."""


def refined_together(
    starts: Mapping[str, np.ndarray],
    first: Callable[[np.ndarray], Point],
    together: Callable[[Point, Point], bool],
    refine: Callable[[Point], tuple[Point, int]],
) -> list[Refined]:
    """Every start solved on few samples, then refined; starts that meet there are refined once."""
    known: list[tuple[Point, Point, int]] = []
    results = []
    for name, x0 in starts.items():
        found = first(x0)
        twin = next((k for k in known if together(found, k[0])), None)
        if twin is None:
            twin = (found, *refine(found))
            known.append(twin)
        results.append((name, twin[1], twin[2]))
    return results
