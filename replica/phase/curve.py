"""The curve of fixed points along one control as a table: stable and unstable parts, folds,
thresholds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from equations import Model
from solvers import Status, leading_eigenvalue, radius_of
from solvers.bifurcation.branches import Part, lies_on
from solvers.continuation import Knot, correct, trace

from ..lowering.lower import FLOOR, SAFETY, NodeSizes, error_from
from ..models import name_of
from ..runtime.notice import computing
from ..sweeps.dataset import metadata
from ..theories.one_parameter import OneParameter
from .branch_set import FOLD, FOUND_BY, START
from .branches import TOL, Standing
from .roles import BETWEEN, FURTHER, INFORMED, MARGINAL, ROLES, UNINFORMED
from .standing import STANDING
from .thresholds import ACCURACY, NAMES, WEAK, Search, search

MET = 1e-3
"""The part that leaves a fold of the informed branch ends this near to a trivial branch."""
MOSTLY = 0.75
"""A part is known if more than this share of its knots lie on a piece."""
BENDS = (0.02, 0.06)
"""A point is added between two whose tangents differ by more than this (radians), and once more."""


class Piece(NamedTuple):
    """Connected knots and their roles, and how they were found."""

    knots: list[Knot]
    roles: list[int]
    found_by: str = START


class Traced(NamedTuple):
    """Points u = (x, t) of the curve, the role of each, the number of the connected piece it lies
    on, and how that was found (codes of ``FOUND_BY``).
    """

    u: np.ndarray
    role: np.ndarray
    piece: np.ndarray
    found_by: np.ndarray


def curve(
    model: str | Model,
    control: str = "alpha",
    *,
    within: tuple[float, float] | None = None,
    accuracy: float = ACCURACY,
    nodes: NodeSizes | None = None,
    **controls: Any,
) -> xr.Dataset:
    """Every fixed point along one control that continuation comes by, through all folds, and the
    thresholds.

    Parameters
    ----------
    model, control, within, accuracy, nodes, **controls
        As in ``thresholds``.

    Returns
    -------
    xarray.Dataset
        Over ``point``, in the order in which the curve is followed: the control, overlaps, free
        energy and observables with their errors, ``spectral_radius``, ``stable``, ``residual``,
        ``status``, ``role`` (uninformed or informed branch), ``piece`` (pieces of the curve are
        not connected), and ``found_by`` (a start or a branch point). Attributes:
        ``folds`` and ``branch_points`` (all of them, in the order in which they were found) and
        ``thresholds``. The errors of the control and of overlaps are how far a finer rule moves the
        curve, perpendicular to it: they are finite at a fold, where an overlap at given control has
        no finite error.
    """
    with computing(name_of(model)):
        found = search(model, control, within, accuracy, nodes, controls)
        return _tabulated(found, traced(found, filled=True), accuracy)


# the points --------------------------------------------------------------------------------------


def traced(found: Search, filled: bool = False) -> Traced:
    """The points of a search; ``filled``: with more in between where the curve bends."""
    pieces = list(_pieces(found))
    pieces += [_further(found.line, p) for p in found.branches.further if not _is_among(p, pieces)]
    for bend in BENDS if filled else ():
        pieces = [_filled(found.line, p, bend) for p in pieces]
    u = np.concatenate([[k.u for k in p.knots] for p in pieces])
    role = np.concatenate([p.roles for p in pieces]).astype(np.int8)
    sizes = [len(p.knots) for p in pieces]
    number = np.repeat(np.arange(len(pieces), dtype=np.int16), sizes)
    how = np.array([FOUND_BY.index(p.found_by) for p in pieces], dtype=np.int8)
    return Traced(u, role, number, np.repeat(how, sizes))


def _is_among(part: Part, pieces: Sequence[Piece]) -> bool:
    """Whether a part is one of the pieces already (which may end a little earlier)."""
    on = [[lies_on(k, piece.knots) for k in part.knots] for piece in pieces]
    return bool(np.max(np.mean(on, axis=1)) > MOSTLY)


def _further(line: OneParameter, part: Part) -> Piece:
    """A part that the starts of the model do not lead to."""
    knots = [k for k in part.knots if np.all(np.isfinite(k.u))]
    stable = [
        leading_eigenvalue(line.at(line.overlaps(k.u), line.value(k.u[-1])).slope) < 1
        for k in knots
    ]
    return Piece(knots, [FURTHER if s else BETWEEN for s in stable], part.found_by)


def _pieces(found: Search) -> Iterator[Piece]:
    pair, pieces = found.found, list(found.found.pieces)
    if isinstance(pair.uninformed, Standing):
        yield _standing(found, pair.uninformed, UNINFORMED)
    else:
        yield _from_uninformed(pieces.pop(0))
    for knots in pieces:  # from above, ending at its fold if it has one
        after = _after_fold(found, knots[-1]) if abs(knots[-1].tangent[-1]) < FOLD else []
        yield Piece([*knots, *after], [INFORMED] * len(knots) + [BETWEEN] * len(after))
    if isinstance(pair.informed, Standing):
        yield _standing(found, pair.informed, INFORMED)


def _standing(found: Search, branch: Standing, role: int) -> Piece:
    line = found.line
    limits = [getattr(found.thresholds, n) for n in NAMES]
    levels = np.union1d(
        np.linspace(*map(line.level, found.ends), STANDING),
        [line.level(c) for c in limits if c is not None],
    )
    upwards = np.eye(len(branch.x) + 1)[-1]
    return Piece([Knot(line.place(branch.x, t), upwards) for t in levels], [role] * len(levels))


def _from_uninformed(knots: Sequence[Knot]) -> Piece:
    folds = [i for i, k in enumerate(knots) if abs(k.tangent[-1]) < FOLD]
    roles = [UNINFORMED if not folds or i <= folds[0] else BETWEEN for i in range(len(knots))]
    for begin, end in zip(folds[1::2], folds[2::2], strict=False):
        roles[begin : end + 1] = [FURTHER] * (end + 1 - begin)
    if folds and len(folds) % 2 == 0:
        roles[folds[-1] :] = [INFORMED] * (len(knots) - folds[-1])
    return Piece(list(knots), roles)


def _after_fold(found: Search, fold: Knot) -> list[Knot]:
    """The unstable part that leaves a fold of the informed branch, up to the trivial branch or the
    end of the range.
    """
    line, low, high = found.line, *map(found.line.level, found.ends)
    trivial = found.found.uninformed.x if isinstance(found.found.uninformed, Standing) else None

    def stop(seen: list[Knot]) -> bool:
        near = trivial is not None and bool(
            np.max(np.abs(line.overlaps(seen[-1].u) - trivial)) < MET
        )
        return near or not low <= seen[-1].u[-1] <= high

    return list(trace(line.field, fold, stop, line.room).knots[1:])


def _filled(line: OneParameter, piece: Piece, bend: float) -> Piece:
    """The same with a point of the curve between each two whose tangents differ by more than
    ``bend`` (radians).
    """
    knots, roles = piece.knots, piece.roles
    points, meant = knots[:1], roles[:1]
    for i in range(1, len(knots)):
        a, b = knots[i - 1], knots[i]
        # The middle of the cubic with these ends and tangents.
        guess = (a.u + b.u) / 2 + np.linalg.norm(b.u - a.u) / 8 * (a.tangent - b.tangent)
        far = np.arccos(np.clip(a.tangent @ b.tangent, -1, 1)) > bend
        middle = correct(line.field, guess, (a.tangent + b.tangent) / 2, TOL) if far else None
        if middle is not None:
            points.append(middle)
            meant.append(roles[i] if roles[i] == roles[i - 1] else BETWEEN)
        points.append(b)
        meant.append(roles[i])
    return piece._replace(knots=points, roles=meant)


# the table ---------------------------------------------------------------------------------------


def _tabulated(found: Search, points: Traced, accuracy: float) -> xr.Dataset:
    line, u = found.line, points.u
    c = np.array([line.value(t) for t in u[:, -1]])
    errors, columns = _columns(line, u, c)
    variables, finite = {}, np.ones(len(c), dtype=bool)
    for name, (value, error, attrs) in columns.items():
        variables[name] = ("point", value, {k: v for k, v in attrs.items() if v})
        about = {"long_name": f"error estimate of {name}", "units": attrs["units"]}
        variables[f"error_{name}"] = ("point", error, about)
        finite &= np.isfinite(value) & np.isfinite(error)
    variables |= _judged(line, points, c, finite, errors > accuracy)
    coords, about = {"point": np.arange(len(c))}, metadata(line.model, line.fixed, line.sizes)
    return xr.Dataset(variables, coords, about | _attributes(found, accuracy))


def _judged(
    line: OneParameter, points: Traced, c: np.ndarray, finite: np.ndarray, loose: np.ndarray
) -> dict[str, Any]:
    """How far each point is from a fixed point and from losing stability, and its status."""
    x = line.overlaps(points.u)
    here = [line.at(p, v) for p, v in zip(x, c, strict=True)]
    radius = np.array([radius_of(s.slope) for s in here])
    residual = np.array([np.max(np.abs(s.update - p)) for s, p in zip(here, x, strict=True)])
    stable = radius < 1 + MARGINAL * (points.role != BETWEEN)
    conditions = [~finite, np.isnan(radius), loose, ~stable]
    meant = [Status.NON_FINITE, Status.BOUNDARY, Status.UNRESOLVED, Status.NOT_STABLE]
    status = np.select(conditions, [s.code for s in meant], Status.SUCCESSFUL.code)
    stays = "whether plain iteration stays (at a fold: whether it does beside it)"
    ended = {"long_name": "how the solve ended", "flag_meanings": [s.value for s in Status]}
    branch = {"long_name": "branch", "flag_meanings": list(ROLES)}
    how = {"long_name": "how the piece was found", "flag_meanings": list(FOUND_BY)}
    return {
        "spectral_radius": ("point", radius, {"long_name": "spectral radius of dF/dx"}),
        "stable": ("point", stable, {"long_name": stays}),
        "residual": ("point", residual, {"long_name": "undamped residual max|F(x) - x|"}),
        "status": ("point", status.astype(np.int16), ended),
        "role": ("point", points.role, branch),
        "piece": ("point", points.piece, {"long_name": "connected piece of the curve"}),
        "found_by": ("point", points.found_by, how),
    }


def _attributes(found: Search, accuracy: float) -> dict[str, Any]:
    """What a file says of the curve as a whole."""
    limits = found.thresholds
    names = NAMES if limits.alpha_weak is None else (*NAMES, WEAK)
    pairs = {n: {"value": getattr(limits, n), "error": limits.error[n]} for n in names}
    return {
        "kind": "curve",
        "control": found.line.control,
        "within": list(limits.within),
        "accuracy": accuracy,
        "level": limits.level,
        "thresholds": pairs,
        "transition": limits.transition,
        "folds": list(limits.folds),
        "branch_points": list(limits.branch_points),
        "complete": True,
    }


def _columns(
    line: OneParameter, u: np.ndarray, c: np.ndarray
) -> tuple[np.ndarray, dict[str, tuple[np.ndarray, np.ndarray, dict[str, Any]]]]:
    """The largest error of each point's overlaps, and name -> values, errors, labels."""
    model, fine = line.model, line.shifted()
    x = line.overlaps(u)
    here, there = ([at.at(p, v) for p, v in zip(x, c, strict=True)] for at in (line, fine))
    moved = np.array([_moved(line.field(p)[1], fine.field(p)[0] - line.field(p)[0]) for p in u])
    error = SAFETY * np.abs(moved) * np.column_stack([line.stretch(x), np.ones(len(u))]) + FLOOR
    result: dict[str, tuple[np.ndarray, np.ndarray, dict[str, Any]]] = {}
    label = next(q.label for q in model.controls if q.name == line.control)
    result[line.control] = (
        c,
        error[:, -1] * (c if line.logarithmic else 1.0),
        {"latex": label, "units": "1"},
    )
    for i, q in enumerate(model.overlaps):
        result[q.name] = (
            x[:, i],
            error[:, i],
            {"latex": q.label, "long_name": q.meaning, "units": "1", "scaling": q.scaling},
        )
    energy, better = (np.array([float(s.free_energy) for s in slices]) for slices in (here, there))
    result["free_energy"] = (
        energy,
        error_from(better, energy),
        {"latex": r"\Phi", "long_name": "free energy per dimension", "units": "1"},
    )
    names = tuple(model.observables)
    values, finer = line.observables(names, u).T, fine.observables(names, u + moved).T
    for name, value, other in zip(names, values, finer, strict=True):
        result[name] = (
            value,
            error_from(other, value),
            {"latex": model.observables[name].latex, "units": model.observables[name].units},
        )
    return error[:, :-1].max(axis=1), result


def _moved(slope: np.ndarray, defect: np.ndarray) -> np.ndarray:
    """How the curve moves, perpendicular to itself, when H changes by ``defect``."""
    if not (np.all(np.isfinite(slope)) and np.all(np.isfinite(defect))):
        return np.full(slope.shape[1], np.nan)
    return -np.linalg.pinv(slope) @ defect
