"""Folds, branch points and branches as JSON entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..theories.one_parameter import OneParameter
from .branch_set import BranchSet, Section
from .branches import Limit

UNFINISHED = "followed no further"
"""How a branch ends that both starts of the model lead to from there on."""


def described(
    line: OneParameter,
    branches: BranchSet,
    crossings: Sequence[Limit],
    within: tuple[float, float],
) -> dict[str, tuple[dict[str, Any], ...]]:
    """Folds, branch points, branches and crossings as JSON entries."""
    names = [q.name for q in line.model.overlaps]
    points = []
    for point in branches.points:
        at = dict(zip(names, map(float, point.x), strict=True))
        points.append({**_entry(point.limit), "overlaps": at})
    return {
        "folds": tuple(map(_entry, branches.folds)),
        "branch_points": tuple(points),
        "branches": tuple(_described(line, s, within) for s in branches.sections),
        "crossings": tuple(map(_entry, crossings)),
    }


def _entry(limit: Limit) -> dict[str, Any]:
    return {"value": limit.value, "error": limit.error}


def _described(line: OneParameter, section: Section, within: tuple[float, float]) -> dict[str, Any]:
    """A branch, from the end with the smaller control on."""
    ends = []
    for t, end in zip(section.span, section.ends, strict=True):
        value = line.value(t) if end.limit is None else end.limit.value
        inside = min(max(value, within[0]), within[1])
        early = end.kind == "range" and not np.any(np.isclose(value, within, rtol=1e-9))
        early = early and inside == value
        ends.append((inside, UNFINISHED if early else end.kind))
    (a, begins), (b, stops) = sorted(ends)
    return {
        "from": a,
        "to": b,
        "begins": begins,
        "ends": stops,
        "stable": section.stable,
        "found_by": section.found_by,
    }
