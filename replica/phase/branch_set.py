"""Every branch along a control: the parts that were followed, cut where the control turns and where
stability changes, each with its ends and with how it was found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from solvers import leading_eigenvalue
from solvers.bifurcation.branch_point import BranchPoint, locate, refined
from solvers.bifurcation.branches import (
    BY_BRANCH_POINT,
    Branches,
    Domain,
    Part,
    Seed,
    follow_branches,
    lies_on,
)
from solvers.continuation import Curve, Knot

from ..errors import SolveError
from ..lowering.lower import SAFETY
from ..theories.one_parameter import OneParameter
from .branches import Limit, Standing, Stretch
from .standing import (
    DEEPEST,
    StandingPoint,
    border_seed,
    borders,
    is_unbounded,
    standing_knots,
    standing_points,
)
from .transition import Transition, fold_at, with_folds

FOLD = 1e-6
"""A tangent's component along the control below which a knot is a fold."""
SAME_FOLD = 1e-9
"""Of a fold's place along t, when it is looked up."""
NEAR = 2e-3
"""A curve that was followed this near to a branch point ends there."""
MARGIN = 1e-6
"""An eigenvalue of dF/dx this near to 1 does not say whether a branch is stable."""
START = "start"
"""How a branch was found that a start of the model leads to."""
FOUND_BY = (START, BY_BRANCH_POINT)
"""Files store positions in it."""


class End(NamedTuple):
    """What is at an end of a branch, and where."""

    kind: str
    limit: Limit | None = None
    point: int | None = None
    """Number of the branch point, if it is one."""


@dataclass(frozen=True, eq=False)
class Section:
    """A branch between two ends: along it the control is monotone and stability does not change.

    Attributes
    ----------
    branch : Stretch or Standing
    span : (float, float)
        Of t = line.level(control).
    ends : (End, End)
        At the lower and at the upper end of the span.
    stable : bool
        Whether no eigenvalue of dF/dx is above 1.
    found_by : str
    unbounded : bool
        Whether its free energy is infinite (perfect recovery without noise).
    """

    branch: Stretch | Standing
    span: tuple[float, float]
    ends: tuple[End, End]
    stable: bool
    found_by: str
    unbounded: bool = False


class Located(NamedTuple):
    """A branch point: its place along the control, and the overlaps there."""

    limit: Limit
    x: np.ndarray
    u: np.ndarray


@dataclass
class BranchSet:
    """All that was found along a control.

    Attributes
    ----------
    sections : list of Section
    folds : list of Limit
    points : list of Located
    further : list of Part
        What was followed beyond the curves of the transition, folds among the knots.
    """

    sections: list[Section] = field(default_factory=list)
    folds: list[Limit] = field(default_factory=list)
    points: list[Located] = field(default_factory=list)
    further: list[Part] = field(default_factory=list)

    @property
    def stable(self) -> list[Section]:
        """The stable branches."""
        return [s for s in self.sections if s.stable]


def domain_of(line: OneParameter, found: Transition, window: tuple[float, float]) -> Domain:
    """Where the curves of ``line`` are followed."""
    trivial = found.uninformed.x if isinstance(found.uninformed, Standing) else None
    low, high = borders(line, trivial, sum(window) / 2)
    return Domain(line.field, window, low, high, line.room)


def every_branch(
    line: OneParameter, found: Transition, low: float, high: float, seeds: Sequence[Seed] = ()
) -> BranchSet:
    """Every branch that hangs together with those of a transition, or with a seed.

    Parameters
    ----------
    line : OneParameter
    found : Transition
        The curves that the starts of the model lead to.
    low, high : float
        Ends of the range, the one with less information first.
    seeds : sequence of Seed
        Further points.

    Returns
    -------
    BranchSet
        Their sections, folds and branch points.
    """
    window = line.level(low), line.level(high)
    domain = domain_of(line, found, window)
    graph, result = Branches(), BranchSet(folds=list(found.folds))
    more = list(seeds)
    for standing in _standing_ones(found):
        points = standing_points(line, standing.x, window)
        more += _enter_standing(line, standing, points, domain, graph, result, found.disappears)
    for piece in found.pieces:
        for knots in _with_points(domain, graph, piece):
            graph.parts.append(Part(knots, START, ("range", "range")))
    known = len(graph.parts)
    follow_branches(domain, graph, more)
    for point in graph.points[len(result.points) :]:
        result.points.append(_located(line, point))
    for part in graph.parts[:known]:
        if not _is_standing(part):
            result.sections += _sections(line, part, result)
    for i, part in enumerate(graph.parts[known:], known):
        whole = _until_known(_folded(line, part, result), graph.parts[:i])
        result.further.append(whole)
        result.sections += _sections(line, whole, result)
    return result


# branches that do not move -----------------------------------------------------------------------


def _standing_ones(found: Transition) -> list[Standing]:
    return [b for b in (found.uninformed, found.informed) if isinstance(b, Standing)]


def _is_standing(part: Part) -> bool:
    return bool(np.all(part.knots[0].u[:-1] == part.knots[-1].u[:-1]))


def _enter_standing(
    line: OneParameter,
    standing: Standing,
    points: list[StandingPoint],
    domain: Domain,
    graph: Branches,
    result: BranchSet,
    known: Limit | None,
) -> list[Seed]:
    """Note a branch that does not move, its sections and its branch points; the seeds of what
    begins there.
    """
    seeds = []
    numbers = range(len(result.points), len(result.points) + len(points))
    for point in points:
        result.points.append(Located(_same(line, point.limit, known), standing.x, point.u))
        if point.crossing is not None:
            graph.points.append(point.crossing)
        else:  # at the end of a logarithmic overlap, which no curve meets
            graph.points.append(BranchPoint(point.u, *[np.zeros(0)] * 3, simple=False))
            seeds += border_seed(line, domain, point)
    knots = standing_knots(line, standing.x, domain.window)
    if np.all(np.isfinite(knots[0].u)):
        graph.parts.append(Part(tuple(knots), START, ("range", "range")))
    cuts = [(result.points[n].limit, p.t, n) for p, n in zip(points, numbers, strict=True)]
    begin, t0 = End("range"), domain.window[0]
    for limit, t, number in [*cuts, (None, domain.window[1], None)]:
        end = End("range") if limit is None else End("branch point", limit, number)
        middle = line.value((t0 + t) / 2)
        stable = _is_stable(line, standing.x, middle)
        unbounded = is_unbounded(line, standing.x, middle)
        result.sections.append(
            Section(standing, (t0, t), (begin, end), stable, START, stable and unbounded)
        )
        begin, t0 = end, t
    return seeds


def _same(line: OneParameter, limit: Limit, known: Limit | None) -> Limit:
    """``known`` if it is the same place."""
    if known is None or abs(line.level(known.value) - line.level(limit.value)) > SAME_FOLD:
        return limit
    return known


def _is_stable(line: OneParameter, x: np.ndarray, c: float) -> bool:
    """Whether no eigenvalue is above 1; what cannot be told is taken for stable, as a point of
    perfect recovery whose response is not finite.
    """
    leading = leading_eigenvalue(line.at(x, c).slope)
    return not leading > 1 + MARGIN


# branches that move ------------------------------------------------------------------------------


def _with_points(domain: Domain, graph: Branches, piece: Sequence[Knot]) -> list[tuple[Knot, ...]]:
    """A curve with the branch points on it among its knots, cut where it jumps to another branch;
    new branch points are noted.
    """
    pieces: list[list[Knot]] = [list(piece[:1])]
    for before, after in pairwise(piece):
        if domain.orientation(before) * domain.orientation(after) < 0:
            point = locate(domain.field, before, after)
            if point is None:
                pieces.append([])
            else:
                known = graph.known(point.u)
                if known is None:
                    graph.points.append(point)
                end = point if known is None else known
                pieces[-1].append(Knot(end.u, point.along))
        pieces[-1].append(after)
    return [tuple(knots) for knots in pieces if len(knots) > 1]


def _located(line: OneParameter, point: BranchPoint) -> Located:
    """A branch point with the error of its place: how far the second node sets move it."""
    t = float(point.u[-1])
    value = line.value(t)
    rate = value if line.logarithmic else 1.0
    fine = refined(line.shifted().field, point.u)
    # The error has no bound where those have no branch point: the crossing is imperfect.
    error = np.inf if fine is None else SAFETY * abs(float(fine[-1]) - t) + 1e-11
    return Located(Limit(value, error * rate), line.overlaps(point.u), point.u)


def _folded(line: OneParameter, part: Part, result: BranchSet) -> Part:
    """A part with its folds among the knots; it ends where one cannot be resolved."""
    ends = [kind == "branch point" for kind in part.ended]
    inner = part.knots[ends[0] : len(part.knots) - ends[1]]
    if len(inner) < 2:
        return part
    curve, folds = Curve(tuple(inner), "stopped"), []
    turns = curve.turns()
    try:
        for i in turns:
            folds.append(fold_at(line, curve, i))
    except SolveError:
        curve = Curve(curve.knots[: turns[len(folds)] + 1], "stuck")
        ends[1] = False
        part = Part(part.knots, part.found_by, (part.ended[0], "stuck"))
    for _, limit in folds:  # images of one another turn at one place
        if all(_same(line, limit, known) is limit for known in result.folds):
            result.folds.append(limit)
    whole = with_folds(curve, [knot for knot, _ in folds])
    first, last = part.knots[: ends[0]], part.knots[len(part.knots) - ends[1] :]
    return Part((*first, *whole, *last), part.found_by, part.ended)


def _until_known(part: Part, known: Sequence[Part]) -> Part:
    """A part that has run into a known one without what it has in common with it but a point."""
    if part.ended[1] != "joined":
        return part
    end = len(part.knots) - 1
    while end > 1 and any(lies_on(part.knots[end - 1], k.knots) for k in known):
        end -= 1
    return Part(part.knots[: end + 1], part.found_by, part.ended)


def _sections(line: OneParameter, part: Part, result: BranchSet) -> Iterator[Section]:
    """A part cut at its folds and branch points, and where stability changes in between."""
    knots = part.knots
    inner = range(1, len(knots) - 1)
    cuts = [0, *(i for i in inner if _is_cut(*knots[i - 1 : i + 2], result)), len(knots) - 1]
    for i, j in pairwise(cuts):
        inside = knots[i : j + 1]
        first = _end(line, inside[0], part.ended[0] if i == 0 else "fold", result)
        last = _end(line, inside[-1], part.ended[1] if j == len(knots) - 1 else "fold", result)
        if inside[0].u[-1] > inside[-1].u[-1]:
            inside = tuple(Knot(k.u, -k.tangent) for k in reversed(inside))
            first, last = last, first
        if inside[0].u[-1] < inside[-1].u[-1]:
            yield from _by_stability(line, inside, (first, last), part.found_by)


def _is_cut(before: Knot, knot: Knot, after: Knot, result: BranchSet) -> bool:
    """Whether a fold or a branch point is at a knot."""
    turns = before.tangent[-1] * after.tangent[-1] <= 0 and abs(knot.tangent[-1]) < FOLD
    return turns or any(np.array_equal(knot.u, p.u) for p in result.points)


def _end(line: OneParameter, knot: Knot, kind: str, result: BranchSet) -> End:
    """What is at a knot where a section ends."""
    for number, point in enumerate(result.points):
        if _is_near(knot.u, point.u):
            return End("branch point", point.limit, number)
    folds = [f for f in result.folds if abs(line.level(f.value) - knot.u[-1]) <= SAME_FOLD]
    return End("fold", folds[0]) if folds and abs(knot.tangent[-1]) < FOLD else End(kind)


def _is_near(u: np.ndarray, point: np.ndarray) -> bool:
    """Whether a curve at ``u`` has arrived at a branch point; one at the end of a logarithmic
    overlap's range is met in the limit.
    """
    deep = ~np.isfinite(point)
    gap = np.where(deep, 0.0, u - np.where(deep, 0.0, point))
    arrived = u[deep] <= np.log(DEEPEST) + NEAR
    return bool(np.all(arrived) and np.max(np.abs(gap)) < NEAR)


def _by_stability(
    line: OneParameter, knots: Sequence[Knot], ends: tuple[End, End], found_by: str
) -> Iterator[Section]:
    """Sections of a monotone stretch, along which stability does not change."""
    stretch = Stretch(line, tuple(knots))
    span = float(knots[0].u[-1]), float(knots[-1].u[-1])

    def excess(x: np.ndarray, c: float) -> float:
        return leading_eigenvalue(line.at(x, c).slope) - 1

    def excess_at(t: float) -> float:
        c = line.value(t)
        return excess(stretch.at(c), c)

    levels = np.array([k.u[-1] for k in knots[1:-1]])
    sides = np.array([excess(line.overlaps(k.u), line.value(k.u[-1])) for k in knots[1:-1]])
    clear = np.abs(sides) > MARGIN
    probes, sides = levels[clear], sides[clear]
    if len(probes) == 0:
        probes = np.array([sum(span) / 2])
        sides = np.array([excess_at(probes[0])])
    begin, t0 = ends[0], span[0]
    for (a, side), (b, other) in pairwise(zip(probes, sides, strict=True)):
        if side * other < 0:
            t: float = brentq(excess_at, a, b, xtol=1e-10)  # type: ignore[assignment]
            end = End("instability", Limit(line.value(t), 1e-6 * abs(b - a)))
            yield Section(stretch, (t0, t), (begin, end), bool(side < 0), found_by)
            begin, t0 = end, t
    stable = bool(sides[-1] < 0)
    yield Section(stretch, (t0, span[1]), (begin, ends[1]), stable, found_by)
