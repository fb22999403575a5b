"""Stable branches along a control, as functions of its value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from solvers.continuation import Knot, interpolate

from ..errors import SolveError
from ..lowering.lower import FLOOR
from ..theories.one_parameter import OneParameter

TOL = 1e-10
"""Of a point on a curve."""
WIDTH = 1e-4
"""Of the difference that gives the rate at which an eigenvalue moves."""


class Branch(Protocol):
    """A stable branch: x at a value of the control."""

    def at(self, c: float) -> np.ndarray: ...


@dataclass(frozen=True)
class Standing:
    """A fixed point that does not depend on the control: a trivial branch, or perfect recovery."""

    x: np.ndarray

    def at(self, c: float) -> np.ndarray:
        return self.x


@dataclass(frozen=True)
class Stretch:
    """A stretch of the traced curve along which the control is monotone."""

    line: OneParameter
    knots: tuple[Knot, ...]

    def at(self, c: float) -> np.ndarray:
        knot = interpolate(self.line.field, self.knots, self.line.level(c), TOL)
        if knot is None:
            raise SolveError(
                f"{self.line.model.name}: the branch was lost at {self.line.control} = {c:g}"
            )
        return self.line.overlaps(knot.u)


@dataclass(frozen=True)
class Best:
    """Of several stretches the one with the best free entropy, where they are: the branches below
    the informed one, if folds leave more than one.
    """

    line: OneParameter
    stretches: tuple[Stretch, ...]

    def at(self, c: float) -> np.ndarray:
        t = self.line.level(c)
        near = 1e-12 * max(
            1.0, abs(t)
        )  # as in interpolate: the ends are there, whatever their last digit
        ends = [
            (min(k.u[-1] for k in s.knots) - near, max(k.u[-1] for k in s.knots) + near)
            for s in self.stretches
        ]
        there = [
            s.at(c) for s, (low, high) in zip(self.stretches, ends, strict=True) if low <= t <= high
        ]
        if not there:
            raise SolveError(
                f"{self.line.model.name}: no branch below the informed one at {self.line.control} ="
                f" {c:g}"
            )
        return max(there, key=lambda x: float(self.line.at(x, c).free_energy))


@dataclass(frozen=True)
class Limit:
    """A value of the control where a branch ends, and its error."""

    value: float
    error: float


def stability_limit(
    line: OneParameter, t: float, eigenvalue: Callable[[OneParameter, float], float]
) -> Limit:
    """Where an eigenvalue of a standing branch passes through 1, at the level ``t``: its error is
    that of the eigenvalue over the rate at which this moves.
    """
    value = line.value(t)
    rate = (eigenvalue(line, t + WIDTH) - eigenvalue(line, t - WIDTH)) / (2 * WIDTH)
    defect = line.uncertainty(lambda at: eigenvalue(at, t)) + FLOOR
    return Limit(value, (defect / abs(rate) + 1e-12) * (value if line.logarithmic else 1.0))
