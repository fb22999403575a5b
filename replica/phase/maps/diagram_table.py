"""A phase diagram as a dataset, and back: its lines, the regions between them, and the curves that
they were read off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from equations import Model, Quantity

from ...models import control_of
from ..thresholds import NAMES, Thresholds
from .risk_map import Profile, mapped, stacked, unstacked

TRANSITIONS = ("none", "first-order", "continuous", "failed", "not computed yet")
FAILED, NOT_COMPUTED = 3, 4
POINTS = 201
"""Values of the control in the map."""
REGIONS = (
    "impossible: the uninformed branch is the better one",
    "hard: the informed branch is better and not reached from the uninformed start",
    "easy: the uninformed start reaches the better branch",
    "no transition: there is one branch",
    (
        "unknown: the column failed or is not computed yet, or the free energies do not cross in"
        " the range searched"
    ),
)
MEANING = {
    "alpha_inf": "the informed branch appears",
    "alpha_IT": "equal free energies (information-theoretic threshold)",
    "alpha_alg": "the uninformed branch disappears (algorithmic threshold)",
}


class Found(NamedTuple):
    """The result of a column."""

    thresholds: Thresholds
    curve: Profile | None


DiagramColumn = Found | str | None
"""What was found, why nothing was, or None: not computed yet."""


@dataclass(frozen=True)
class Plane:
    """What a diagram is over: the control that is followed ``within`` a range, and the columns,
    which are values of a second one.
    """

    model: Model
    control: str
    second: str
    columns: list[float]
    within: tuple[float, float]

    @property
    def quantity(self) -> Quantity:
        """The control that is followed."""
        return control_of(self.model, self.control)

    @property
    def sign(self) -> float:
        """-1 if larger values of the control mean less information."""
        return -1.0 if self.quantity.information < 0 else 1.0

    def level(self, values: Any) -> Any:
        """Values of the control as numbers that grow with information."""
        return self.sign * (np.log(values) if self.quantity.low >= 0 else values)


def table(
    plane: Plane,
    columns: Sequence[DiagramColumn],
    closings: list[dict[str, float]],
    origin: dict[str, Any],
) -> xr.Dataset:
    """The dataset that is stored; ``origin`` is noted in it."""
    limits = [c.thresholds if isinstance(c, Found) else None for c in columns]
    curves = [c.curve if isinstance(c, Found) else None for c in columns]
    lines = xr.Dataset(_lines(plane, limits) | _kinds(plane, columns, limits))
    grid = _control_grid(lines, plane.within)
    region = regions(lines, grid, plane.sign)
    both, what = (plane.second, plane.control), {"flag_meanings": list(REGIONS)}
    lines["region"] = (both, region, what | {"long_name": "phase"})
    pairs = []
    for found, curve in zip(limits, curves, strict=True):
        pairs.append(None if found is None or curve is None else (found, curve))
    lines = lines.assign(stacked(curves, *both))
    lines = lines.assign(mapped(plane.model, pairs, grid, *both, plane.level))
    labels = {q.name: q.label for q in plane.model.controls}
    coords = {}
    for name, values in ((plane.second, plane.columns), (plane.control, grid)):
        coords[name] = (name, np.array(values, float), {"latex": labels[name], "units": "1"})
    attrs = {
        "control": plane.control,
        "over": plane.second,
        "within": list(plane.within),
        "tricritical": closings,
        "failures": _failures(plane, columns),
    }
    return lines.assign_coords(coords).assign_attrs(origin, kind="phase diagram", **attrs)


def _lines(plane: Plane, limits: Sequence[Thresholds | None]) -> dict[str, Any]:
    """The thresholds over the columns, NaN where there is none, and their errors."""
    variables: dict[str, Any] = {}
    for name in NAMES:
        line, error = np.full((2, len(limits)), np.nan)
        for i, found in enumerate(limits):
            if found is not None:
                line[i], error[i] = _or_nan(getattr(found, name)), _or_nan(found.error[name])
        subscript = name.partition("_")[2]
        latex = rf"{plane.quantity.label}_\mathrm{{{subscript}}}"
        variables[name] = (
            plane.second,
            line,
            {"latex": latex, "long_name": MEANING[name], "units": "1"},
        )
        variables[f"error_{name}"] = (
            plane.second,
            error,
            {"long_name": f"error estimate of {name}", "units": "1"},
        )
    return variables


def _or_nan(value: float | None) -> float:
    return np.nan if value is None else value


def _kinds(
    plane: Plane, columns: Sequence[DiagramColumn], limits: Sequence[Thresholds | None]
) -> dict[str, Any]:
    """The kind of each column's transition, and how fine its node sets were."""
    kind = np.array([_kind(c) for c in columns], dtype=np.int8)
    level = np.array([-1 if found is None else found.level for found in limits], dtype=np.int16)
    meanings = {"flag_meanings": list(TRANSITIONS), "long_name": "kind of the transition"}
    return {
        "transition": (plane.second, kind, meanings),
        "level": (plane.second, level, {"long_name": "refinements of the node sets"}),
    }


def _kind(column: DiagramColumn) -> int:
    if column is None:
        return NOT_COMPUTED
    return FAILED if isinstance(column, str) else TRANSITIONS.index(column.thresholds.transition)


def _control_grid(lines: xr.Dataset, within: tuple[float, float]) -> np.ndarray:
    """Values of the control around all lines, for the map."""
    ends = np.concatenate([lines[name].values for name in NAMES])
    ends = ends[np.isfinite(ends)] if np.isfinite(ends).any() else np.array(within)
    if ends.min() > 0:
        return np.geomspace(ends.min() / 1.5, ends.max() * 1.5, POINTS)
    return np.linspace(*within, POINTS)


def regions(lines: xr.Dataset, values: np.ndarray, sign: float = 1.0) -> np.ndarray:
    """Codes of ``REGIONS``, shape (columns, values of the control); ``sign`` is -1 if larger values
    mean less information.
    """
    it, alg, kind = (lines[n].values[:, None] for n in ("alpha_IT", "alpha_alg", "transition"))
    past_it, past_alg = (
        sign * (values - it) >= 0,
        sign * (values - alg) >= 0,
    )  # False where there is no threshold
    code = np.where(past_alg, 2, np.where(past_it, 1, 0))
    # Without a crossing in the range searched, which branch is the better one below alpha_alg is
    # not known here.
    unknown = (kind >= FAILED) | (np.isnan(it) & ~past_alg)
    return np.where(kind == 0, 3, np.where(unknown, 4, code)).astype(np.int8)


def _failures(plane: Plane, columns: Sequence[DiagramColumn]) -> dict[str, str]:
    """Why columns failed."""
    found = {}
    for value, column in zip(plane.columns, columns, strict=True):
        if isinstance(column, str):
            found[_place(plane.second, value)] = column
    return found


def _place(name: str, value: float) -> str:
    """``name=value``, shortened where that changes no value (two columns must not
    share one name).
    """
    short = f"{value:g}"
    return f"{name}={short if float(short) == value else repr(value)}"


# back --------------------------------------------------------------------------------------------


def columns_of(dataset: xr.Dataset, plane: Plane) -> list[DiagramColumn]:
    """The columns that a file has, as they were computed; None for those to come."""
    return [_column(dataset, i, plane) for i in range(dataset.sizes[plane.second])]


def _column(dataset: xr.Dataset, i: int, plane: Plane) -> DiagramColumn:
    at = dataset.isel({plane.second: i})
    kind, value = int(at["transition"]), float(at[plane.second])
    if kind == NOT_COMPUTED:
        return None
    if kind == FAILED:
        return dataset.attrs["failures"][_place(plane.second, value)]

    def number(name: str) -> float | None:
        return None if np.isnan(at[name]) else float(at[name])

    found = Thresholds(
        model=dataset.attrs["model"],
        control=plane.control,
        controls={**dataset.attrs["controls"], plane.second: value},
        within=plane.within,
        **{name: number(name) for name in NAMES},
        error={name: number(f"error_{name}") for name in NAMES},
        transition=TRANSITIONS[kind],
        level=int(at["level"]),
    )
    return Found(found, unstacked(dataset, i, plane.second))
