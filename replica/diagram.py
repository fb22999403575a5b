"""Phase diagrams: the thresholds along one control as lines over a second one, and where the hard phase closes."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr
from scipy.optimize import brentq

from equations import Model
from solvers.continuation import steepest

from .errors import InputError, SolveError
from .family import Line
from .lower import SAFETY, Rule
from .phase import NAMES, Thresholds, checked, span, starting_rule, thresholds
from .settings import number
from .transition import s_curve

THREADS = 2
CLOSE = 1e-3
"""Relative error of the place where the hard phase closes that is good enough."""
TRANSITIONS = ("none", "first-order", "continuous", "failed")
REGIONS = (
    "impossible: the uninformed branch is the better one",
    "hard: the informed branch is better and not reached from the uninformed start",
    "easy: the uninformed start reaches the better branch",
    "no transition: there is one branch",
    "unknown: the column failed, or the free energies do not cross in the range searched",
)
MEANING = {
    "alpha_inf": "the informed branch appears",
    "alpha_IT": "equal free energies (information-theoretic threshold)",
    "alpha_alg": "the uninformed branch disappears (algorithmic threshold)",
}


def phase_diagram(
    model: str | Model,
    control: str = "alpha",
    *,
    over: Mapping[str, Any],
    within: tuple[float, float] | None = None,
    accuracy: float = 1e-6,
    nodes: Rule | None = None,
    tricritical: bool = True,
    done: Callable[[int], None] | None = None,
    **controls: Any,
) -> xr.Dataset:
    """Threshold lines along ``control`` over a second control.

    Parameters
    ----------
    model, control, within, accuracy, nodes
        As in ``thresholds``.
    over : dict with one control -> values
        One column each; columns are independent and run on two threads.
    tricritical : bool
        Also find where the hard phase closes, between the columns where it does.
    done : callable, optional
        Called with the number of columns finished since the last call.
    **controls
        The other controls and the model's options.

    Returns
    -------
    xarray.Dataset
        Lines alpha_inf, alpha_IT, alpha_alg (NaN where there is none) and their errors over the second control,
        ``transition`` (codes; "failed" columns say why in the attribute ``failures``), ``level``, and the map
        ``region`` over both controls. Attribute ``tricritical``: points where the hard phase closes, with errors.
    """
    (name, values), (built, fixed) = _second(over), checked(model, control, controls, tuple(over))
    if name == control or name in controls:
        raise InputError(f"{name} is given twice: choose another control for over")
    quantity = next((q for q in built.controls if q.name == name), None)
    if quantity is None:
        raise InputError(f"{built.name} has no control {name!r}")
    columns = [number(quantity, v) for v in values]
    low, high = span(built, control, within)

    def column(value: float) -> Thresholds | str:
        try:
            return thresholds(built, control, within=(low, high), accuracy=accuracy, nodes=nodes, **{**fixed, name: value})
        except SolveError as error:
            return str(error)
        finally:
            if done:
                done(1)

    first = column(columns[0])  # compiles; the threads then share the program
    with ThreadPoolExecutor(THREADS) as pool:
        results = [first, *pool.map(column, columns[1:])]
    closing = _closings(built, control, name, columns, results, fixed, (low, high), accuracy, nodes) if tricritical and not quantity.integer else []
    return _dataset(built, control, name, columns, results, fixed, (low, high), accuracy, closing)


def _second(over: Mapping[str, Any]) -> tuple[str, np.ndarray]:
    if len(over) != 1:
        raise InputError(f"a phase diagram needs one second control in over, not {len(over)}")
    ((name, values),) = over.items()
    try:
        values = np.atleast_1d(np.asarray(values, dtype=float))
    except (TypeError, ValueError):
        raise InputError(f"the values of {name} are not numbers") from None
    if values.size == 0 or len(set(values.tolist())) < values.size:
        raise InputError(f"the values of {name} must be given, each once")
    return name, values


# where the hard phase closes ---------------------------------------------------------------------


def _closings(
    model: Model,
    control: str,
    name: str,
    columns: list[float],
    results: list[Thresholds | str],
    fixed: dict[str, float],
    within: tuple[float, float],
    accuracy: float,
    rule: Rule | None,
) -> list[dict[str, float]]:
    """The cusp where both spinodals merge, for each pair of neighbouring columns of which one has a fold pair."""
    order = np.argsort(columns)
    found = []
    for i, j in pairwise(order):
        kinds = {r.transition for r in (results[i], results[j]) if isinstance(r, Thresholds)}
        if kinds == {"none", "first-order"}:
            point = cusp(model, control, name, (columns[i], columns[j]), fixed, within, accuracy, rule)
            found += [point] if point else []
    return found


def cusp(
    model: Model,
    control: str,
    name: str,
    between: tuple[float, float],
    fixed: dict[str, float],
    within: tuple[float, float],
    accuracy: float = 1e-6,
    rule: Rule | None = None,
) -> dict[str, float] | None:
    """The point where the two folds along ``control`` merge, ``name`` between two values; None if it is not there.

    Along the curve of fixed points the least tangent component of the control is negative with folds, positive
    without, and smooth in ``name``: its zero is the cusp.
    """
    rule = rule or starting_rule(model, accuracy, *({**fixed, name: end, control: within[1]} for end in between))

    def least(value: float, rule: Rule) -> tuple[float, float]:
        line = Line(model, rule, control, {**fixed, name: value})
        ends = within if line.sign > 0 else within[::-1]
        knot = steepest(line.field, s_curve(line, *ends))[1]
        return float(knot.tangent[-1]), line.value(knot.u[-1])

    point = None
    try:
        for _ in range(2):
            found = _zero(least, between, rule)
            if found is None:
                break
            place, error = found
            point = {name: place, control: least(place, rule)[1], f"error_{name}": error}
            if error <= max(accuracy, CLOSE * abs(place)):
                break
            # A finer rule, nearby (but never beyond the columns between which the hard phase closes).
            between, rule = (max(between[0], place - 3 * error), min(between[1], place + 3 * error)), rule.refined()
    except SolveError:
        return None
    return point


def _zero(least: Callable[[float, Rule], tuple[float, float]], between: tuple[float, float], rule: Rule) -> tuple[float, float] | None:
    """Zero of ``least`` and its error: the shift under a finer rule, and the tolerance of the search."""
    if least(between[0], rule)[0] * least(between[1], rule)[0] >= 0:
        return None
    width = between[1] - between[0]
    place: float = brentq(lambda v: least(v, rule)[0], *between, xtol=1e-6 * width, rtol=1e-9)  # type: ignore[assignment]
    rate = (least(place + 1e-3 * width, rule)[0] - least(place - 1e-3 * width, rule)[0]) / (2e-3 * width)
    shift = SAFETY * abs(least(place, rule.finer())[0] - least(place, rule)[0])
    return float(place), shift / abs(rate) + 1e-6 * width


# the table ---------------------------------------------------------------------------------------


def regions(lines: xr.Dataset, values: np.ndarray, sign: float = 1.0) -> np.ndarray:
    """Codes of ``REGIONS``, shape (columns, values of the control); ``sign`` is -1 if larger values mean less information."""
    it, alg, kind = (lines[n].values[:, None] for n in ("alpha_IT", "alpha_alg", "transition"))
    past_it, past_alg = sign * (values - it) >= 0, sign * (values - alg) >= 0  # False where there is no threshold
    code = np.where(past_alg, 2, np.where(past_it, 1, 0))
    # Without a crossing in the range searched, which branch is the better one below alpha_alg is not known here.
    unknown = (kind == 3) | (np.isnan(it) & ~past_alg)
    return np.where(kind == 0, 3, np.where(unknown, 4, code)).astype(np.int8)


def _dataset(
    model: Model,
    control: str,
    name: str,
    columns: list[float],
    results: list[Thresholds | str],
    fixed: dict[str, float],
    within: tuple[float, float],
    accuracy: float,
    closing: list[dict[str, float]],
) -> xr.Dataset:
    labels = {q.name: q.label for q in model.controls}
    sign = -1.0 if next(q.information for q in model.controls if q.name == control) < 0 else 1.0
    good = [r if isinstance(r, Thresholds) else None for r in results]
    variables: dict[str, Any] = {}
    for n in NAMES:
        line = [np.nan if r is None or getattr(r, n) is None else getattr(r, n) for r in good]
        error = [np.nan if r is None or r.error[n] is None else r.error[n] for r in good]
        subscript = n.partition("_")[2]
        latex = rf"{labels[control]}_\mathrm{{{subscript}}}"
        variables[n] = (name, np.array(line, dtype=float), {"latex": latex, "long_name": MEANING[n], "units": "1"})
        variables[f"error_{n}"] = (name, np.array(error, dtype=float), {"long_name": f"error estimate of {n}", "units": "1"})
    kinds = np.array([TRANSITIONS.index("failed" if r is None else r.transition) for r in good], dtype=np.int8)
    variables["transition"] = (name, kinds, {"flag_meanings": list(TRANSITIONS), "long_name": "kind of the transition"})
    variables["level"] = (name, np.array([-1 if r is None else r.level for r in good], dtype=np.int16), {"long_name": "refinements of the node sets"})
    lines = xr.Dataset(variables)
    ends = np.concatenate([lines[n].values for n in NAMES])
    ends = ends[np.isfinite(ends)] if np.isfinite(ends).any() else np.array(within)
    grid = np.geomspace(ends.min() / 1.5, ends.max() * 1.5, 201) if ends.min() > 0 else np.linspace(*within, 201)
    lines["region"] = ((name, control), regions(lines, grid, sign), {"flag_meanings": list(REGIONS), "long_name": "phase"})
    coords = {n: (n, np.array(v, dtype=float), {"latex": labels[n], "units": "1"}) for n, v in ((name, columns), (control, grid))}
    failures = {f"{name}={v:g}": r for v, r in zip(columns, results, strict=True) if isinstance(r, str)}
    return lines.assign_coords(coords).assign_attrs(
        kind="phase diagram", model=model.name, title=model.title, options=dict(model.options), controls=fixed, control=control, over=name,
        within=list(within), accuracy=accuracy, tricritical=closing, failures=failures, sources=list(model.sources),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), version=metadata.version("replica-solver"),
    )  # fmt: skip
