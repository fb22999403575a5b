"""Thresholds: where the informed branch appears, where it becomes the better one, where the
uninformed one ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from equations import Model

from ..errors import InputError
from ..inputs import nearest, printable
from ..lowering.lower import NodeSizes
from ..models import built as chosen
from ..models import control_of, name_of, resolve
from ..models.values import number
from ..runtime.notice import computing
from ..theories import theory_of
from ..theories.one_parameter import OneParameter
from ..theories.saddle_point import MAX_LEVEL
from .branch_set import BranchSet, every_branch
from .described import described
from .landmarks import landmarks
from .transition import Transition, find_transition

WITHIN = (1e-3, 1e3)
"""Range searched along a control that must be positive, unless the caller gives one."""
ACCURACY = 1e-6
NAMES = ("alpha_inf", "alpha_IT", "alpha_alg")
WEAK = "alpha_weak"


@dataclass(frozen=True)
class Thresholds:
    """Values of the control at which the branches of a model change; None where there is none in
    ``within``.

    Attributes
    ----------
    model, control : str
    controls : dict
        The controls that are fixed.
    within : (float, float)
        Range searched.
    alpha_inf : float or None
        The informed branch appears (its spinodal, or where it gains stability); None also if it
        exists throughout, as perfect recovery does.
    alpha_IT : float or None
        The free energies are equal: the information-theoretic threshold.
    alpha_alg : float or None
        The last jump of the algorithm, which follows the uninformed branch (spinodal, or
        instability of a trivial branch): the algorithmic threshold. Where it never jumps, the
        continuous transition.
    error : dict of name -> float or None
        Error estimate of each (of ``alpha_weak`` where there is one).
    transition : {"none", "first-order", "continuous"}
    level : int
        Refinements of the node sets that were needed.
    alpha_weak : float or None
        A trivial branch loses stability: weak recovery begins.
    folds, branch_points : tuple of dict
        Every one that was found: its value and error, of a branch point also the overlaps.
    branches : tuple of dict
        Every branch between its ends: where and how it begins and ends, whether it is stable, and
        what it was found by: "start" (a start of the model leads to it) or "branch point" (another
        branch crosses it). A branch that is connected to none of these is not found.
    crossings : tuple of dict
        Where two stable branches have the same free energy.

    Notes
    -----
    All follow from the set of stable branches. With several S shapes (within a factor 4 of each
    other along a positive control) ``alpha_inf`` is the least of the values at which a branch
    appears that is not reached continuously, ``alpha_alg`` the last at which the algorithm jumps,
    and ``alpha_IT`` is the last at which another branch becomes the best of all. The names stay
    these whatever the control is called.
    """

    model: str
    control: str
    controls: dict[str, float]
    within: tuple[float, float]
    alpha_inf: float | None
    alpha_IT: float | None
    alpha_alg: float | None
    error: dict[str, float | None]
    transition: str
    level: int = 0
    alpha_weak: float | None = None
    folds: tuple[dict[str, Any], ...] = ()
    branch_points: tuple[dict[str, Any], ...] = ()
    branches: tuple[dict[str, Any], ...] = ()
    crossings: tuple[dict[str, Any], ...] = ()

    @property
    def continuous(self) -> bool:
        """Whether the transition is continuous."""
        return self.transition == "continuous"

    def to_dict(self) -> dict[str, Any]:
        """The JSON object that ``replica phase --json`` prints."""
        return {
            **{name: getattr(self, name) for name in (*NAMES, WEAK)},
            "error": self.error,
            "transition": self.transition,
            "continuous": self.continuous,
            "folds": list(self.folds),
            "branch_points": list(self.branch_points),
            "branches": list(self.branches),
            "crossings": list(self.crossings),
            "model": self.model,
            "control": self.control,
            "controls": printable(self.controls),
            "within": list(self.within),
            "level": self.level,
        }


def thresholds(
    model: str | Model,
    control: str = "alpha",
    *,
    within: tuple[float, float] | None = None,
    accuracy: float = ACCURACY,
    nodes: NodeSizes | None = None,
    **controls: Any,
) -> Thresholds:
    """Every threshold of a model along one control.

    Parameters
    ----------
    model : str or Model
        With conjugates and the starts "uninformed" and "informed".
    control : str
        Usually the sample ratio; any continuous control works.
    within : (low, high), optional
        Range searched; 1e-3..1e3 for a positive control.
    accuracy : float
        The node sets are refined until each error estimate is below it, at most twice; ``error``
        says what was reached. A model that averages over samples is not refined beyond ten times
        its own accuracy.
    nodes : Rule, optional
        Node sets to begin with; by default those of ``solve``, or smaller ones at loose accuracy.
    **controls
        The other controls and the model's options.

    Returns
    -------
    Thresholds
        ``alpha_inf``, ``alpha_IT``, ``alpha_alg`` (None where there is none in the range) with
        their errors.

    Raises
    ------
    InputError
        Unknown or missing settings, or a model without two branches to compare.
    SolveError
        The curve of fixed points could not be followed.
    """
    with computing(name_of(model)):
        return search(model, control, within, accuracy, nodes, controls).thresholds


class Search(NamedTuple):
    """Thresholds, with the curve they were read off and its ends (the one with less information
    first).
    """

    thresholds: Thresholds
    line: OneParameter
    found: Transition
    ends: tuple[float, float]
    branches: BranchSet


def search(
    model: str | Model,
    control: str,
    within: tuple[float, float] | None,
    accuracy: float,
    nodes: NodeSizes | None,
    controls: dict[str, Any],
) -> Search:
    """What ``thresholds`` does."""
    built, fixed = checked(model, control, controls)
    low, high = span(built, control, within)
    theory = theory_of(built)
    theory.check_curve()
    if not accuracy > 0:
        raise InputError("accuracy must be positive")
    accuracy = theory.threshold_accuracy(accuracy)
    sizes = nodes or theory.first_sizes(accuracy, *({**fixed, control: end} for end in (low, high)))
    for level in range(MAX_LEVEL + 1):
        line = theory.along(control, fixed, sizes)
        ends = (low, high) if line.sign > 0 else (high, low)
        found = find_transition(line, *ends)
        branches = every_branch(line, found, *ends)
        result = _summary(line, found, branches, ends, level)
        if all(e is None or e <= accuracy for e in result.error.values()):
            break
        sizes = sizes.refined()
    return Search(result, line, found, ends, branches)


def checked(
    model: str | Model, control: str, controls: dict[str, Any], partial: tuple[str, ...] = ()
) -> tuple[Model, dict[str, float]]:
    """The model and its fixed controls, refusing what has no thresholds along ``control``."""
    built, _ = resolve(
        model, controls, partial=[q.name for q in chosen(model, controls)[0].controls]
    )
    quantity = control_of(built, control)
    if control in controls:
        raise InputError(f"{control} is both searched and fixed: give it once")
    if quantity.integer:
        raise InputError(
            f"thresholds need a control that varies continuously, {control} is an integer:"
            f" {nearest('alpha', [q.name for q in built.controls])}"
        )
    theory_of(built).check_phase()
    _, fixed = resolve(model, controls, partial=(control, *partial))
    return built, {n: v for n, v in fixed.items() if n != control}


def span(model: Model, control: str, within: tuple[float, float] | None) -> tuple[float, float]:
    """The range to search, inside the range of the control."""
    quantity = control_of(model, control)
    if within is None and quantity.low < 0:
        raise InputError(f"{control} has no natural range: say within which to search")
    low, high = within or WITHIN
    if within is None:
        low, high = max(low, quantity.low), min(high, quantity.high)
    low, high = number(quantity, low), number(quantity, high)
    if not low < high or (quantity.low >= 0 and low <= 0):
        raise InputError(
            f"cannot search {control} within {low:g}..{high:g}: the ends must be positive and"
            " increasing"
        )
    return low, high


def _summary(
    line: OneParameter,
    found: Transition,
    branches: BranchSet,
    ends: tuple[float, float],
    level: int,
) -> Thresholds:
    marks = landmarks(line, found, branches, *ends)
    limits = dict(zip((*NAMES, WEAK), (marks.inf, marks.it, marks.alg, marks.weak), strict=True))
    values = {n: None if limit is None else limit.value for n, limit in limits.items()}
    none = all(v is None for v in values.values())
    error = {n: None if limit is None else limit.error for n, limit in limits.items()}
    if marks.weak is None:  # only a trivial branch has it
        del error[WEAK]
    assert all(v is None or math.isfinite(v) for v in values.values())
    within = min(ends), max(ends)
    return Thresholds(
        line.model.name,
        line.control,
        line.fixed,
        within,
        **values,
        error=error,
        transition="none" if none else "continuous" if marks.continuous else "first-order",
        level=level,
        **described(line, branches, marks.crossings, within),
    )
