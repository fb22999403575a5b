"""All branches of a curve of fixed points that hang together, as a graph: branch points joined by
parts that are followed through their folds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from ..continuation import Curve, Field, Knot, Steps, correct, cubic, trace
from .branch_point import BranchPoint, locate, orientation_at, rays

TOL = 1e-10
"""Of a point on a curve."""
SAME_POINT = 1e-4
"""Two branch points nearer than this are one."""
ON_CURVE = 2e-3
"""A point is on a known curve if it is nearer to it than this share of the step between two knots
(whose cubic is more accurate than that).
"""
PARALLEL = 0.98
"""And if the tangents agree as far as this."""
AT_BORDER = 2e-3
"""This near to the border of the domain, and heading for it, a curve is led onto it."""
AHEAD = 0.1
"""Unless the border is further ahead along the tangent."""
FIRST = 5e-3
"""First step along a curve, unless the domain says otherwise: small beside a branch point."""
SLOWER, HIDDEN = 0.5, 4
"""Between two knots a turn and its reverse are looked for where the cubic's rate falls to this
share of its ends'; so many times.
"""
MOST_PARTS = 100
"""More parts than this are not followed."""
Ended = Literal["range", "border", "branch point", "joined", "stuck", "too long"]


@dataclass(frozen=True)
class Domain:
    """Where curves are followed.

    Attributes
    ----------
    field : Field
        Its zeros are the curves.
    window : (float, float)
        Of t.
    low, high : array, shape (n,)
        Of the other coordinates; infinite where there is no end.
    room : callable, optional
        As in ``trace``.
    steps : Steps, optional
        As in ``trace``.
    """

    field: Field
    window: tuple[float, float]
    low: np.ndarray
    high: np.ndarray
    room: Callable[[np.ndarray], np.ndarray] | None = None
    steps: Steps | None = None

    def orientation(self, knot: Knot) -> float:
        """Its sign changes at a branch point."""
        return orientation_at(self.field, knot)

    def is_outside(self, u: np.ndarray) -> bool:
        """Whether t has left the window."""
        return not self.window[0] <= u[-1] <= self.window[1]

    def border_ahead(self, knot: Knot) -> tuple[int, float] | None:
        """(coordinate, border) that the curve is about to meet; None if there is none."""
        x, heading = knot.u[:-1], knot.tangent[:-1]
        ends = np.where(heading > 0, self.high, self.low)
        gap = np.abs(ends - x)
        with np.errstate(divide="ignore", invalid="ignore"):
            ahead = np.where(np.isfinite(ends), gap / np.abs(heading), np.inf)
        i = int(np.argmin(ahead))
        return (i, float(ends[i])) if gap[i] <= AT_BORDER and ahead[i] <= AHEAD else None


class Seed(NamedTuple):
    """A point from which a curve is followed, and how it was found; it is followed both ways unless
    it comes from a branch point.
    """

    knot: Knot
    found_by: str
    origin: Knot | None = None


@dataclass(frozen=True)
class Part:
    """A part of a curve between two branch points or ends.

    Attributes
    ----------
    knots : tuple of Knot
    found_by : str
        Such as "start", "branch point".
    ended : (str, str)
        What is at its first and its last knot.
    """

    knots: tuple[Knot, ...]
    found_by: str
    ended: tuple[Ended, Ended]


@dataclass
class Branches:
    """The parts and branch points found so far."""

    parts: list[Part] = field(default_factory=list)
    points: list[BranchPoint] = field(default_factory=list)

    def known(self, u: np.ndarray) -> BranchPoint | None:
        """The branch point at ``u``, if it was found before."""
        near = [p for p in self.points if np.max(np.abs(p.u - u)) < SAME_POINT]
        return near[0] if near else None

    def contains(self, knot: Knot) -> bool:
        """Whether a point lies on a part found before."""
        return any(lies_on(knot, part.knots) for part in self.parts)


def lies_on(knot: Knot, knots: Sequence[Knot]) -> bool:
    """Whether a point of a curve lies on the one through ``knots``, and runs along it.

    Parameters
    ----------
    knot : Knot
        A point with its tangent.
    knots : sequence of Knot
        Neighbours along a curve.

    Returns
    -------
    bool
        The curve between two knots is the cubic with their tangents.
    """
    if len(knots) < 2:
        return False
    u, tangents = np.array([k.u for k in knots]), np.array([k.tangent for k in knots])
    chord = np.diff(u, axis=0)
    length = np.linalg.norm(chord, axis=1)
    there = length > 0
    square = np.where(there, length**2, 1.0)
    s = ((knot.u - u[:-1]) * chord).sum(axis=1) / square
    inside = np.clip(s, 0.0, 1.0)[:, None]
    between = cubic(Knot(u[:-1], tangents[:-1]), Knot(u[1:], tangents[1:]), inside)
    distance = np.linalg.norm(between - knot.u, axis=1)
    heading = (1 - inside) * tangents[:-1] + inside * tangents[1:]
    parallel = np.abs(heading @ knot.tangent) > PARALLEL * np.linalg.norm(heading, axis=1)
    near = distance <= ON_CURVE * length + SAME_POINT * 1e-3
    return bool(np.any(near & parallel & there))


def follow_branches(
    domain: Domain, found: Branches, seeds: Sequence[Seed], most: int = MOST_PARTS
) -> Branches:
    """Every part that can be reached from the seeds and from the branch points known already.

    Parameters
    ----------
    domain : Domain
        Where to look.
    found : Branches
        What is known; it is added to.
    seeds : sequence of Seed
        Points on curves; one on a part that is known is passed over.
    most : int
        Largest number of parts.

    Returns
    -------
    Branches
        ``found``.
    """
    waiting = deque(seeds)
    for point in found.points:
        waiting.extend(_rays(domain, point))
    while waiting and len(found.parts) < most:
        seed = waiting.popleft()
        if found.contains(seed.knot):
            continue
        ahead, end = _followed(domain, found, seed.knot, waiting)
        if seed.origin is None:
            behind, begin = _followed(domain, found, _reversed(seed.knot), waiting)
            before = [_reversed(k) for k in reversed(behind[1:])]
        else:
            begin, before = "branch point", [seed.origin]
        # The ends may be branch points, beside which the curve is followed in small steps.
        whole = (*before, *ahead[:1], *_with_hidden_turns(domain, ahead)[1:])
        found.parts.append(Part(whole, seed.found_by, (begin, end)))
    return found


BY_BRANCH_POINT = "branch point"
"""How a part that leaves a branch point was found."""


def _rays(domain: Domain, point: BranchPoint) -> list[Seed]:
    """Seeds of the other branch through a branch point, if just two meet there."""
    if not point.simple:
        return []
    pairs = rays(domain.field, point, TOL)
    return [Seed(knot, BY_BRANCH_POINT, origin) for origin, knot in pairs]


def _reversed(knot: Knot) -> Knot:
    return Knot(knot.u, -knot.tangent)


def _followed(
    domain: Domain, found: Branches, start: Knot, waiting: deque[Seed]
) -> tuple[list[Knot], Ended]:
    """The knots from ``start`` along its tangent, and how they end; a new branch point is noted and
    its branches wait to be followed.
    """
    if domain.is_outside(start.u + 1e-9 * start.tangent):
        return [start], "range"
    landed = _landed(domain, start)
    curve = Curve((start,), "stopped") if landed is not None else _traced(domain, found, start)
    knots = list(curve.knots)
    if curve.ended == "too long":
        return knots, "too long"
    if len(knots) > 1 and domain.orientation(start) * domain.orientation(knots[-1]) < 0:
        return _through_branch_point(domain, found, knots, waiting)
    if domain.is_outside(knots[-1].u):
        return _cut(domain, knots), "range"
    landed = _landed(domain, knots[-1])
    if landed is not None:
        at_point = found.known(landed.u) is not None
        return [*knots, landed], "branch point" if at_point else "border"
    if len(knots) > 1 and found.contains(knots[-1]):
        return knots, "joined"
    if lies_on(knots[-1], knots[:OWN]):
        return knots, "joined"
    return knots, "stuck"


OWN = 4
"""A closed curve is recognised by its first few knots."""


def _traced(domain: Domain, found: Branches, start: Knot) -> Curve:
    side = domain.orientation(start)

    def stop(knots: list[Knot]) -> bool:
        last = knots[-1]
        changed = domain.orientation(last) * side < 0
        closed = len(knots) > 2 * OWN and lies_on(last, knots[:OWN])
        if changed or closed or domain.is_outside(last.u) or found.contains(last):
            return True
        return _landed(domain, last) is not None

    return trace(domain.field, start, stop, domain.room, domain.steps or Steps(first=FIRST))


def _through_branch_point(
    domain: Domain, found: Branches, knots: list[Knot], waiting: deque[Seed]
) -> tuple[list[Knot], Ended]:
    """The knots up to a branch point; if it is new, what leaves it waits to be followed."""
    before, after = knots[-2:]
    point = locate(domain.field, before, after)
    if point is None:
        return knots[:-1], "stuck"
    known = found.known(point.u)
    if known is None:
        found.points.append(point)
        waiting.append(Seed(after, BY_BRANCH_POINT, Knot(point.u, point.along)))
        waiting.extend(_rays(domain, point))
    end = point if known is None else known
    return [*knots[:-1], Knot(end.u, point.along)], "branch point"


def _with_hidden_turns(domain: Domain, knots: list[Knot], depth: int = HIDDEN) -> list[Knot]:
    """The knots with more between two where the cubic through them says that the control turns
    there, and back.
    """
    result = knots[:1]
    for a, b in pairwise(knots):
        place = _suspicious(a, b) if depth else None
        if place is not None:
            chord = b.u - a.u
            middle = correct(domain.field, a.u + place * chord, chord, TOL)
            if middle is not None and _is_between(middle.u, a.u, b.u):
                result += _with_hidden_turns(domain, [a, middle, b], depth - 1)[1:]
                continue
        result.append(b)
    return result


def _is_between(u: np.ndarray, a: np.ndarray, b: np.ndarray) -> bool:
    """Whether a point is no further from both than they are from one another."""
    length = np.linalg.norm(b - a)
    return bool(max(np.linalg.norm(u - a), np.linalg.norm(u - b)) < length)


def _suspicious(a: Knot, b: Knot) -> float | None:
    """Where the cubic between two knots is nearly vertical or turns, as a share of the way."""
    length = np.linalg.norm(b.u - a.u)
    first, last = a.tangent[-1], b.tangent[-1]
    if length == 0 or first * last <= 0:
        return None
    s = np.linspace(0.1, 0.9, 9)
    rise = 6 * (b.u[-1] - a.u[-1]) / length * s * (1 - s)
    rate = first * (1 - s) * (1 - 3 * s) + last * s * (3 * s - 2) + rise
    rate = rate * np.sign(first)
    least = int(np.argmin(rate))
    return float(s[least]) if rate[least] < SLOWER * min(abs(first), abs(last)) else None


def _cut(domain: Domain, knots: list[Knot]) -> list[Knot]:
    """The knots with the last one, which lies outside, moved to the end of the window."""
    before, after = knots[-2:] if len(knots) > 1 else (knots[0], knots[0])
    end = domain.window[int(after.u[-1] > domain.window[1])]
    rise = after.u[-1] - before.u[-1]
    if rise == 0:
        return knots
    guess = before.u + (end - before.u[-1]) / rise * (after.u - before.u)
    guess[-1] = end
    upwards = np.eye(len(guess))[-1] * np.sign(rise)
    knot = correct(domain.field, guess, upwards, TOL)
    return knots[:-1] if knot is None else [*knots[:-1], knot]


def _landed(domain: Domain, knot: Knot) -> Knot | None:
    """The point of the curve on the border that it is about to meet."""
    ahead = domain.border_ahead(knot)
    if ahead is None:
        return None
    i, border = ahead
    guess = knot.u + (border - knot.u[i]) / knot.tangent[i] * knot.tangent
    guess[i] = border
    normal = np.eye(len(guess))[i] * np.sign(knot.tangent[i])
    return correct(domain.field, guess, normal, TOL)
