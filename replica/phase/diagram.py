"""Phase diagrams: the thresholds along one control as lines over a second one, and where the hard
phase closes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.optimize import brentq

from equations import Model
from solvers.continuation import steepest

from ..errors import InputError, SolveError
from ..files.store import Name
from ..inputs import number
from ..jobs.run import JobOptions, gathered, opened, progress_bar
from ..lowering.lower import SAFETY, NodeSizes
from ..sweeps.dataset import metadata
from ..theories import theory_of
from . import branch_map
from .risk_map import Profile, mapped, profile, stacked, unstacked
from .thresholds import ACCURACY, NAMES, Thresholds, checked, search, span
from .transition import s_curve

CLOSE = 1e-3
"""Relative error of the place where the hard phase closes that is good enough."""
TRANSITIONS = ("none", "first-order", "continuous", "failed", "not computed yet")
FAILED, NOT_COMPUTED = 3, 4
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


def phase_diagram(
    model: str | Model,
    control: str = "alpha",
    *,
    over: Mapping[str, Any],
    within: tuple[float, float] | None = None,
    accuracy: float | None = None,
    nodes: NodeSizes | None = None,
    tricritical: bool = True,
    grid: Any = None,
    progress: bool | None = None,
    file: Name | None = None,
    resume: bool = False,
    force: bool = False,
    dask: Any = None,
    **controls: Any,
) -> xr.Dataset:
    """Threshold lines along ``control`` over a second control; for a model that averages over
    samples, a map of its branches.

    Parameters
    ----------
    model, control, within, accuracy, nodes : optional but for the model
        As in ``thresholds``. In a map of branches, ``accuracy`` is that of ``Settings``.
    over : dict with one control -> values
        One column each; columns are independent and run on two threads.
    tricritical : bool
        Also find where the hard phase closes, between the columns where it does.
    grid : values, optional
        Of the control, for a map of branches (such as that of slr-erm), which is solved point by
        point; by default 16 of them ``within`` 0.5..8. Other models need none.
    progress, file, resume, force, dask : optional
        As in ``sweep``: a bar; stored whenever a column is finished, continued, replaced; computed
        by dask workers.
    **controls
        The other controls and the model's options.

    Returns
    -------
    xarray.Dataset
        Lines alpha_inf, alpha_IT, alpha_alg (NaN where there is none) and their errors over the
        second control, ``transition`` (codes; "failed" columns say why in the attribute
        ``failures``), ``level``, and over both controls the map ``region``, ``algorithmic_risk``
        and ``best_risk`` with their errors, interpolated on the curves of fixed points, which are
        stored too (``curve_control``, ``curve_risk``, ``curve_role``). Attribute ``tricritical``:
        points where the hard phase closes, with errors.

        A map of branches has, for each pair of values, ``branches`` (how many), ``rs`` (whether
        replica symmetry is stable), ``best_risk``, ``best_replicon``, ``best_status`` and, for
        softmax, ``softmax_gain`` (how much lower the risk is than that of linear attention), with
        errors, and all that the sweeps behind it have.
    """
    return run(
        model,
        control,
        over,
        controls,
        within,
        accuracy,
        nodes,
        tricritical,
        JobOptions(file, resume, force, dask, progress),
        grid,
    )


@dataclass(frozen=True)
class Column:
    """One value of the second control, with the other fixed ones."""

    controls: dict[str, float]
    points: int = 1


class Found(NamedTuple):
    """The result of a column."""

    thresholds: Thresholds
    curve: Profile | None


def solve_column(
    model: Model,
    column: Column,
    done: Callable[[int], None],
    *,
    control: str,
    within: tuple[float, float],
    accuracy: float,
    nodes: NodeSizes | None,
) -> Found | str:
    """The thresholds of a column and the curve they were read off, or why there are none."""
    try:
        found = search(model, control, within, accuracy, nodes, column.controls)
        return Found(found.thresholds, profile(found))
    except SolveError as error:
        return str(error)
    finally:
        done(1)


def run(
    model: str | Model,
    control: str,
    over: Mapping[str, Any],
    controls: Mapping[str, Any],
    within: tuple[float, float] | None,
    accuracy: float | None,
    nodes: NodeSizes | None,
    tricritical: bool,
    work: JobOptions,
    grid: Any = None,
) -> xr.Dataset:
    """What ``phase_diagram`` does."""
    (name, values), (built, fixed) = (
        _second(over),
        checked(model, control, dict(controls), tuple(over)),
    )
    if name == control or name in controls:
        raise InputError(f"{name} is given twice: choose another control for over")
    quantity = next((q for q in built.controls if q.name == name), None)
    if quantity is None:
        raise InputError(f"{built.name} has no control {name!r}")
    places = [number(quantity, v) for v in values]
    theory = theory_of(built)
    if theory.diagram == "map":
        if grid is not None and within is not None:
            raise InputError("within and grid both say where: give one of them")
        return branch_map.run(
            model,
            control,
            branch_map.default_grid(within) if grid is None else grid,
            {name: values},
            controls,
            accuracy,
            work,
        )
    if grid is not None:
        raise InputError(
            f"{built.name} is followed along {control} and needs no grid: leave it out, or say"
            " within which range to search"
        )
    accuracy = ACCURACY if accuracy is None else accuracy
    limits = span(built, control, within)
    results: list[Found | str | None] = [None] * len(places)
    origin = metadata(built, fixed, nodes) | {
        "accuracy": accuracy,
        "search_tricritical": tricritical,
    }
    lines = partial(_dataset, built, control, name, places, within=limits, origin=origin)
    with opened(work, lines(results), [name], ("failures", "tricritical")) as target:
        if target.dataset.attrs["complete"]:
            return target.dataset
        noted = {
            k: target.dataset.attrs[k] for k in target.dataset.attrs if k in ("created", "command")
        }
        results[:] = _stored(target.dataset, control, name, limits)

        def put(i: int, result: Found | str) -> int:
            results[i] = result
            target.write(lines(results).assign_attrs(noted, complete=False))
            return isinstance(result, str)

        pending = {
            i: Column({**fixed, name: v}) for i, v in enumerate(places) if results[i] is None
        }
        job = partial(solve_column, control=control, within=limits, accuracy=accuracy, nodes=nodes)
        with progress_bar(work, built.name, len(places), len(places) - len(pending)) as bar:
            bar.failed(sum(isinstance(r, str) for r in results))
            gathered(
                target.client,
                job,
                built,
                model if isinstance(model, str) else None,
                pending,
                bar,
                put,
            )
        found = (
            _closings(built, control, name, places, results, fixed, limits, accuracy, nodes)
            if tricritical and not quantity.integer
            else []
        )
        dataset = lines(results, closing=found).assign_attrs(noted, complete=True)
        target.write(dataset)
    return dataset


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
    results: list[Found | str | None],
    fixed: dict[str, float],
    within: tuple[float, float],
    accuracy: float,
    sizes: NodeSizes | None,
) -> list[dict[str, float]]:
    """The cusp where both spinodals merge, for each pair of neighbouring columns of which one has a
    fold pair.
    """
    order = np.argsort(columns)
    found = []
    for i, j in pairwise(order):
        kinds = {r.thresholds.transition for r in (results[i], results[j]) if isinstance(r, Found)}
        if kinds == {"none", "first-order"}:
            point = cusp(
                model, control, name, (columns[i], columns[j]), fixed, within, accuracy, sizes
            )
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
    sizes: NodeSizes | None = None,
) -> dict[str, float] | None:
    """The point where the two folds along ``control`` merge, ``name`` between two values; None if
    it is not there.

    Along the curve of fixed points the least tangent component of the control is negative with
    folds, positive without, and smooth in ``name``: its zero is the cusp.
    """
    theory = theory_of(model)
    sizes = sizes or theory.first_sizes(
        accuracy, *({**fixed, name: end, control: within[1]} for end in between)
    )

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
            between, sizes = (
                (max(between[0], place - 3 * error), min(between[1], place + 3 * error)),
                sizes.refined(),
            )
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
    shift = SAFETY * abs(least(place, sizes.finer())[0] - least(place, sizes)[0])
    return float(place), shift / abs(rate) + 1e-6 * width


# the table ---------------------------------------------------------------------------------------


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


def _dataset(
    model: Model,
    control: str,
    name: str,
    columns: list[float],
    results: list[Found | str | None],
    *,
    within: tuple[float, float],
    origin: dict[str, Any],
    closing: list[dict[str, float]] | None = None,
) -> xr.Dataset:
    labels = {q.name: q.label for q in model.controls}
    quantity = next(q for q in model.controls if q.name == control)
    sign = -1.0 if quantity.information < 0 else 1.0
    good = [r.thresholds if isinstance(r, Found) else None for r in results]
    variables: dict[str, Any] = {}
    for n in NAMES:
        line = [np.nan if r is None or getattr(r, n) is None else getattr(r, n) for r in good]
        error = [np.nan if r is None or r.error[n] is None else r.error[n] for r in good]
        subscript = n.partition("_")[2]
        latex = rf"{labels[control]}_\mathrm{{{subscript}}}"
        variables[n] = (
            name,
            np.array(line, dtype=float),
            {"latex": latex, "long_name": MEANING[n], "units": "1"},
        )
        variables[f"error_{n}"] = (
            name,
            np.array(error, dtype=float),
            {"long_name": f"error estimate of {n}", "units": "1"},
        )
    kinds = np.array([_kind(r) for r in results], dtype=np.int8)
    variables["transition"] = (
        name,
        kinds,
        {"flag_meanings": list(TRANSITIONS), "long_name": "kind of the transition"},
    )
    variables["level"] = (
        name,
        np.array([-1 if r is None else r.level for r in good], dtype=np.int16),
        {"long_name": "refinements of the node sets"},
    )
    lines = xr.Dataset(variables)
    ends = np.concatenate([lines[n].values for n in NAMES])
    ends = ends[np.isfinite(ends)] if np.isfinite(ends).any() else np.array(within)
    grid = (
        np.geomspace(ends.min() / 1.5, ends.max() * 1.5, 201)
        if ends.min() > 0
        else np.linspace(*within, 201)
    )
    lines["region"] = (
        (name, control),
        regions(lines, grid, sign),
        {"flag_meanings": list(REGIONS), "long_name": "phase"},
    )
    curves = [r.curve if isinstance(r, Found) else None for r in results]
    lines = lines.assign(stacked(curves, name, control))
    pairs = [None if r is None or c is None else (r, c) for r, c in zip(good, curves, strict=True)]
    lines = lines.assign(
        mapped(
            model,
            pairs,
            grid,
            name,
            control,
            lambda c: sign * (np.log(c) if quantity.low >= 0 else c),
        )
    )
    coords = {
        n: (n, np.array(v, dtype=float), {"latex": labels[n], "units": "1"})
        for n, v in ((name, columns), (control, grid))
    }
    failures = {
        _place(name, v): r for v, r in zip(columns, results, strict=True) if isinstance(r, str)
    }
    attrs = {
        "control": control,
        "over": name,
        "within": list(within),
        "tricritical": closing or [],
        "failures": failures,
    }
    return lines.assign_coords(coords).assign_attrs(origin, kind="phase diagram", **attrs)


def _kind(result: Found | str | None) -> int:
    if result is None:
        return NOT_COMPUTED
    return FAILED if isinstance(result, str) else TRANSITIONS.index(result.thresholds.transition)


def _place(name: str, value: float) -> str:
    """``name=value``, shortened where that changes no value (two columns must not
    share one name).
    """
    short = f"{value:g}"
    return f"{name}={short if float(short) == value else repr(value)}"


def _stored(
    dataset: xr.Dataset, control: str, name: str, within: tuple[float, float]
) -> list[Found | str | None]:
    """The columns that a file has, as they were computed; None for those to come."""

    def column(i: int) -> Found | str | None:
        at = dataset.isel({name: i})
        kind, value = int(at["transition"]), float(at[name])
        if kind == NOT_COMPUTED:
            return None
        if kind == FAILED:
            return dataset.attrs["failures"][_place(name, value)]
        numbers = {
            n: None if np.isnan(at[n]) else float(at[n])
            for n in (*NAMES, *(f"error_{n}" for n in NAMES))
        }
        error = {n: numbers[f"error_{n}"] for n in NAMES}
        controls = {**dataset.attrs["controls"], name: value}
        model, level = dataset.attrs["model"], int(at["level"])
        limits = {n: numbers[n] for n in NAMES}
        found = Thresholds(
            model,
            control,
            controls,
            within,
            **limits,
            error=error,
            transition=TRANSITIONS[kind],
            level=level,
        )
        return Found(found, unstacked(dataset, i, name))

    return [column(i) for i in range(dataset.sizes[name])]
