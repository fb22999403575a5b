"""Where the hard phase closes: the cusp at which two folds of the curve of fixed points merge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from scipy.optimize import brentq

from equations import Model
from solvers.continuation import steepest

from ...errors import SolveError
from ...lowering.lower import SAFETY, NodeSizes
from ...theories import theory_of
from ..transition import s_curve
from .diagram_table import Plane

CLOSE = 1e-3
"""Relative error of the place where the hard phase closes that is good enough."""


def closings(
    plane: Plane,
    kinds: Sequence[str | None],
    fixed: dict[str, float],
    accuracy: float,
    sizes: NodeSizes | None,
) -> list[dict[str, float]]:
    """The cusp where both spinodals merge, for each pair of neighbouring columns of which one has a
    fold pair; ``kinds`` are their transitions.
    """
    found = []
    for i, j in pairwise(np.argsort(plane.columns)):
        if {kinds[i], kinds[j]} == {"none", "first-order"}:
            between = (plane.columns[i], plane.columns[j])
            point = cusp(
                plane.model,
                plane.control,
                plane.second,
                between,
                fixed,
                plane.within,
                accuracy,
                sizes,
            )
            if point is not None:
                found.append(point)
    return found


def cusp(
    model: Model,
    control: str,
    name: str,
    between: tuple[float, float],
    fixed: dict[str, float],
    within: tuple[float, float],
    accuracy: float = 1e-6,
    sizes: NodeSizes | None = None,
) -> dict[str, float] | None:
    """The point where the two folds along ``control`` merge, ``name`` between two values; None if
    it is not there.

    Along the curve of fixed points the least tangent component of the control is negative with
    folds, positive without, and smooth in ``name``: its zero is the cusp.
    """
    theory = theory_of(model)
    extremes = [{**fixed, name: end, control: within[1]} for end in between]
    sizes = sizes or theory.first_sizes(accuracy, *extremes)

    def least(value: float, sizes: NodeSizes) -> tuple[float, float]:
        line = theory.along(control, {**fixed, name: value}, sizes)
        ends = within if line.sign > 0 else within[::-1]
        knot = steepest(line.field, s_curve(line, *ends))[1]
        return float(knot.tangent[-1]), line.value(knot.u[-1])

    point = None
    try:
        for _ in range(2):
            found = _zero(least, between, sizes)
            if found is None:
                break
            place, error = found
            point = {name: place, control: least(place, sizes)[1], f"error_{name}": error}
            if error <= max(accuracy, CLOSE * abs(place)):
                break
            # A finer rule, nearby (but never beyond the columns between which the hard phase
            # closes).
            between = (max(between[0], place - 3 * error), min(between[1], place + 3 * error))
            sizes = sizes.refined()
    except SolveError:
        return None
    return point


def _zero(
    least: Callable[[float, NodeSizes], tuple[float, float]],
    between: tuple[float, float],
    sizes: NodeSizes,
) -> tuple[float, float] | None:
    """Zero of ``least`` and its error: the shift under a finer rule, and the tolerance of the
    search.
    """
    if least(between[0], sizes)[0] * least(between[1], sizes)[0] >= 0:
        return None
    width = between[1] - between[0]
    place: float = brentq(lambda v: least(v, sizes)[0], *between, xtol=1e-6 * width, rtol=1e-9)  # type: ignore[assignment]
    rate = (least(place + 1e-3 * width, sizes)[0] - least(place - 1e-3 * width, sizes)[0]) / (
        2e-3 * width
    )
    shift = SAFETY * abs(least(place, sizes.shifted())[0] - least(place, sizes)[0])
    return float(place), shift / abs(rate) + 1e-6 * width
