"""What the set of stable branches says: where the algorithm goes as the control grows, which branch
is the best, and the thresholds that follow.

From the uninformed point the algorithm follows its branch; where that ends or loses stability it
goes on along a stable branch born there (continuous), or jumps to another. Free energies are
compared between all pairs of stable branches.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from ..errors import SolveError
from ..theories.one_parameter import OneParameter
from .branch_set import BranchSet, End, Section
from .branches import Limit, Standing
from .transition import Transition, crossing, crossing_error

TIE = 1e-10
"""Branches whose free energies differ by less than this everywhere are images of one another."""
INSIDE = 1e-3
"""Two branches that begin at one point are compared from this share of their range on."""
BETWEEN = 3
"""Values of the control between the ends at which two free energies are compared."""
BESIDE = 1e-3
"""Beyond the end of a branch (along t) where the algorithm is asked where it goes."""
ASIDE = 1e-3
"""Of the way from the uninformed to the informed start, to leave an exact symmetry."""
TOGETHER = 1e-6
"""Points nearer than this are one."""


class Change(NamedTuple):
    """Where the algorithm, or the best branch, goes over to another one."""

    limit: Limit
    continuous: bool


class Crossing(NamedTuple):
    """Where two stable branches have the same free energy; their numbers among the sections."""

    limit: Limit
    pair: tuple[int, int]


class Landmarks(NamedTuple):
    """The thresholds, None where there is none in the range searched."""

    weak: Limit | None
    inf: Limit | None
    it: Limit | None
    alg: Limit | None
    continuous: bool
    crossings: tuple[Limit, ...] = ()


def landmarks(
    line: OneParameter, found: Transition, branches: BranchSet, low: float, high: float
) -> Landmarks:
    """The thresholds that follow from the set of branches.

    Parameters
    ----------
    line : OneParameter
    found : Transition
        The branches that the starts lead to.
    branches : BranchSet
        All of them.
    low, high : float
        Ends of the range, the one with less information first.

    Returns
    -------
    Landmarks
    """
    path, changes = _algorithm(line, found, branches, low, high)
    crossings = list(_crossings(line, found, branches, low, high))
    jumps = [c.limit for c in changes if not c.continuous]
    smooth = [c.limit for c in changes if c.continuous]
    weak = changes[0].limit if changes and isinstance(found.uninformed, Standing) else None
    best = _best_changes(line, branches, crossings, (line.level(low), line.level(high)))
    first_order = [c.limit for c in best if not c.continuous]
    continuous = bool(smooth) and not jumps and not first_order
    return Landmarks(
        weak=weak,
        inf=smooth[0] if continuous else _appears(line, found, branches, path, high),
        it=(first_order or [c.limit for c in best][:1] or [None])[-1],
        alg=(jumps or smooth[:1] or [None])[-1],
        continuous=continuous,
        crossings=tuple(c.limit for c in crossings),
    )


# the algorithm -----------------------------------------------------------------------------------


def _covering(line: OneParameter, sections: list[Section], t: float) -> list[Section]:
    return [s for s in sections if s.span[0] <= t <= s.span[1]]


def _begins_at(section: Section, end: End) -> bool:
    return end.point is not None and section.ends[0].point == end.point


def _algorithm(
    line: OneParameter, found: Transition, branches: BranchSet, low: float, high: float
) -> tuple[list[Section], list[Change]]:
    """The branches that the algorithm follows as the control grows, and where it changes them."""
    start, stop = line.level(low), line.level(high)
    stable = branches.stable
    current = _nearest(line, _covering(line, stable, start), found.uninformed.at(low), low)
    path, changes = [], []
    while current is not None and current not in path:
        path.append(current)
        end, t = current.ends[1], current.span[1]
        if t >= stop - TOGETHER:
            break
        if end.limit is None:  # followed from both its ends, a branch is in two parts
            current = _same_branch(line, stable, current, path)
            continue
        born = [s for s in stable if _begins_at(s, end) and s not in path]
        if born:
            changes.append(Change(end.limit, True))
            current = _more_informed(line, born, found, high)
        else:
            changes.append(Change(end.limit, False))
            current = _jump(line, found, stable, path, min(t + BESIDE, stop))
    return path, changes


def _same_branch(
    line: OneParameter, stable: list[Section], part: Section, path: list[Section]
) -> Section | None:
    """What goes on where a part of a branch ends."""
    t = part.span[1]
    c = line.value(t)
    there = [s for s in _covering(line, stable, t) if s not in path and s.span[1] > t]
    after = _nearest(line, there, part.branch.at(c), c)
    if after is None or np.max(np.abs(after.branch.at(c) - part.branch.at(c))) > TOGETHER:
        return None
    return after


def _nearest(
    line: OneParameter, sections: list[Section], x: np.ndarray, c: float
) -> Section | None:
    distances = [float(np.max(np.abs(s.branch.at(c) - x))) for s in sections]
    return sections[int(np.argmin(distances))] if sections else None


def _more_informed(
    line: OneParameter, born: list[Section], found: Transition, high: float
) -> Section:
    """Of branches that are born together (images of one another) the one towards the informed
    start.
    """
    goal = line.start("informed", high)
    ends = [s.branch.at(line.value(s.span[1])) for s in born]
    return born[int(np.argmin([np.linalg.norm(x - goal) for x in ends]))]


def _jump(
    line: OneParameter, found: Transition, stable: list[Section], path: list[Section], t: float
) -> Section | None:
    """The branch that the algorithm reaches at t, where the one that it followed has ended."""
    there = [s for s in _covering(line, stable, t) if s not in path]
    if len(there) < 2:
        return there[0] if there else None
    c = line.value(t)
    begin, goal = line.start("uninformed", c), line.start("informed", c)
    x = line.iterated(begin + ASIDE * (goal - begin), c)
    return _nearest(
        line, there, path[-1].branch.at(line.value(path[-1].span[1])) if x is None else x, c
    )


def _appears(
    line: OneParameter, found: Transition, branches: BranchSet, path: list[Section], high: float
) -> Limit | None:
    """Where the first branch is born that the algorithm does not come to continuously; None if
    the informed branch is there from the lower end of the range on.
    """
    stable, top = branches.stable, line.level(high)
    calm = _continuous_part(path)
    points = {e.point for s in calm for e in s.ends if e.point is not None}
    # A curve is not followed to the end of the range where both starts lead to it.
    top = min(top, max((s.span[1] for s in stable), default=top))
    c = line.value(top)
    informed = _nearest(line, _covering(line, stable, top), line.start("informed", c), c)
    if informed is None or informed in calm:
        return None
    chain = informed
    while chain.ends[0].point is not None:
        before = [s for s in stable if s.ends[1].point == chain.ends[0].point and s is not chain]
        if not before:
            break
        chain = before[0]
    if chain.ends[0].limit is None:
        return None
    births = [
        s.ends[0].limit
        for s in stable
        if s not in calm and s.ends[0].limit is not None and s.ends[0].point not in points
    ]
    return min(births, key=lambda limit: line.level(limit.value), default=None)


def _continuous_part(path: list[Section]) -> list[Section]:
    """The branches up to the first jump."""
    kept = path[:1]
    for before, after in pairwise(path):
        is_one_branch = before.ends[1].limit is None
        if not (is_one_branch or _begins_at(after, before.ends[1])):
            break
        kept.append(after)
    return kept


# the best branch ---------------------------------------------------------------------------------


def _gap(line: OneParameter, a: Section, b: Section, t: float) -> float:
    """How much better b is than a."""
    c = line.value(t)
    sign = 1.0 if line.model.best == "largest" else -1.0
    energies = [sign * line.free_energy(s.branch.at(c), c) for s in (a, b)]
    return energies[1] - energies[0]


def _crossings(
    line: OneParameter, found: Transition, branches: BranchSet, low: float, high: float
) -> Iterator[Crossing]:
    """Where two stable branches have the same free energy."""
    known = _known_crossing(line, found, low, high)
    for (i, a), (j, b) in combinations(enumerate(branches.sections), 2):
        if not (a.stable and b.stable) or a.unbounded or b.unbounded:
            continue
        begin = max(a.span[0], b.span[0], line.level(low))
        end = min(a.span[1], b.span[1], line.level(high))
        if end - begin <= TOGETHER:
            continue
        shared = INSIDE * (end - begin)
        begin += shared * _meet(a, b, 0, begin)
        end -= shared * _meet(a, b, 1, end)
        levels = np.linspace(begin, end, BETWEEN + 2)
        gaps = np.array([_gap(line, a, b, t) for t in levels])
        if np.all(np.abs(gaps[1:-1]) < TIE):
            continue
        for k in np.flatnonzero(gaps[:-1] * gaps[1:] < 0):
            limit = _equal(line, a, b, levels[k], levels[k + 1])
            if known is not None and abs(limit.value - known.value) <= limit.error + known.error:
                limit = known
            yield Crossing(limit, (i, j))


def _meet(a: Section, b: Section, side: int, t: float) -> bool:
    """Whether two branches are one point at this end of their common range."""
    ends = a.ends[side], b.ends[side]
    both = ends[0].point is not None and ends[0].point == ends[1].point
    return both and abs(a.span[side] - t) < TOGETHER and abs(b.span[side] - t) < TOGETHER


def _known_crossing(line: OneParameter, found: Transition, low: float, high: float) -> Limit | None:
    """Where the branches of the two starts are equally good."""
    try:
        return None if found.continuous else crossing(line, found, low, high)
    except SolveError:  # one of them is unstable somewhere: the stable parts are compared below
        return None


def _equal(line: OneParameter, a: Section, b: Section, low: float, high: float) -> Limit:
    t: float = brentq(lambda t: _gap(line, a, b, t), low, high, xtol=1e-11, rtol=1e-12)  # type: ignore[assignment]
    c = line.value(t)
    return Limit(c, crossing_error(line, c, a.branch.at(c), b.branch.at(c)))


def _best_changes(
    line: OneParameter,
    branches: BranchSet,
    crossings: list[Crossing],
    window: tuple[float, float],
) -> list[Change]:
    """Where the best of the stable branches changes within the range."""
    sections = branches.sections
    levels = {t for s in sections if s.stable for t in s.span}
    levels |= {line.level(c.limit.value) for c in crossings}
    # A branch may have been followed beyond the range, where others were not.
    marks = sorted({*window, *(t for t in levels if window[0] < t < window[1])})
    changes: list[Change] = []
    before: int | None = None
    for a, b in pairwise(marks):
        if b - a <= TOGETHER:
            continue
        best = _best_at(line, sections, (a + b) / 2, before)
        if before is not None and best is not None and best != before:
            changes.append(_change(line, branches, crossings, (before, best), a))
        before = before if best is None else best
    return changes


def _best_at(
    line: OneParameter, sections: list[Section], t: float, before: int | None
) -> int | None:
    """The best stable branch at t; ``before`` where several are equally good."""
    there = [i for i, s in enumerate(sections) if s.stable and s.span[0] <= t <= s.span[1]]
    if not there:
        return None
    endless = [i for i in there if sections[i].unbounded]
    if endless:
        return endless[0]
    c, sign = line.value(t), 1.0 if line.model.best == "largest" else -1.0
    energy = {i: sign * line.free_energy(sections[i].branch.at(c), c) for i in there}
    top = max(energy.values())
    equal = [i for i in there if energy[i] >= top - TIE]
    return before if before in equal else equal[0]


def _change(
    line: OneParameter,
    branches: BranchSet,
    crossings: list[Crossing],
    pair: tuple[int, int],
    t: float,
) -> Change:
    """What the best branch's change at t is."""
    old, new = (branches.sections[i] for i in pair)
    for c in crossings:
        if set(c.pair) == set(pair) and abs(line.level(c.limit.value) - t) < TOGETHER:
            return Change(c.limit, False)
    if _begins_at(new, old.ends[1]) and old.ends[1].limit is not None:
        return Change(old.ends[1].limit, True)
    if new.unbounded and new.ends[0].limit is not None:
        return Change(new.ends[0].limit, False)
    raise SolveError(
        f"{line.model.name}: the best free energy jumps at {line.control} = {line.value(t):g},"
        " where a branch ends"
    )
