r"""The best regularisation: minimise an observable over the logarithm of some controls.

    g(t) = O(x*(t), t),     t = log lam,
    dg/dt = dO/dt + dO/dx (1 - J)^{-1} dF/dt   at the fixed point x* = F(x*, t)

On one fixed set of samples g is smooth, and L-BFGS-B (SciPy) finds its minimum on the branch of
lowest free energy. The result is solved again from every start, on as many samples as the accuracy
needs. That the search used fewer moves the optimum by about H^{-1} g', g' the gradient on the many
samples and H the curvature, which is reported; the value changes in second order only. Source:
theory.md section 5.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from scipy.optimize import minimize

from equations import Model
from solvers import Status

from ..errors import InputError
from ..files.store import Name
from ..inputs import nearest, number
from ..jobs.run import JobOptions, gathered, opened, progress_bar
from ..lowering.node_sizes import NodeSizes
from ..models import built, resolve
from ..precision import double_precision
from ..solution import Branch, Solution
from ..solve import check, completed, solve
from ..theories import Settings, theory_of
from .dataset import blank, failures, to_dataset
from .sweep import axes_of

RANGE = 1e-5, 1e5
"""Where the controls are searched."""
FLAT = 1e-4
"""Largest derivative in log lam that counts as zero."""
EVALUATIONS = 60


@dataclass(frozen=True)
class Optimum:
    """Where an observable is smallest.

    Attributes
    ----------
    at : dict of control -> value
        The best values of the controls searched over.
    value, error : float
        The observable there, and its error estimate (twice the standard error over the samples).
    error_at : dict of control -> float
        How far the optimum on the samples of ``solution`` may lie from ``at``, to first order (NaN
        where the curvature is not positive).
    gradient : dict of control -> float
        d observable / d log control at the end of the search, on its samples.
    status : Status
        SUCCESSFUL, AT_EDGE (the minimum lies beyond the range searched), MAX_STEPS, or what stopped
        a fixed point.
    evaluations : int
        Fixed points solved during the search.
    solution : Solution
        Every branch at the optimum; the value is that of its best branch.
    """

    at: dict[str, float]
    value: float
    error: float
    error_at: dict[str, float]
    gradient: dict[str, float]
    status: Status
    evaluations: int
    solution: Solution

    @property
    def branch(self) -> Branch | None:
        """The branch the value belongs to."""
        return None if self.solution.best is None else self.solution.branches[self.solution.best]


def optimise(
    model: str | Model,
    over: Sequence[str] = ("lam_k", "lam_v"),
    *,
    observable: str = "risk",
    along: Mapping[str, Any] | None = None,
    start: Mapping[str, float] | None = None,
    settings: Settings | None = None,
    file: Name | None = None,
    resume: bool = False,
    force: bool = False,
    dask: Any = None,
    progress: bool | None = None,
    **controls: Any,
) -> Optimum | xr.Dataset:
    """Minimise ``observable`` over positive controls.

    Parameters
    ----------
    model : str or Model
        One that averages over samples (``slr-erm``).
    over : sequence of str
        Controls to choose, each positive.
    observable : str
        What is minimised.
    along : dict of control -> values, optional
        Do it at every point of a grid.
    start : dict, optional
        Where the search starts; 1 by default.
    settings, **controls
        As in ``solve``.
    file, resume, force, dask, progress
        With ``along``, as in ``sweep``.

    Returns
    -------
    Optimum, or with ``along`` a dataset like that of ``sweep``: its one branch is "best", ``over``
    are variables of it, and ``status`` is that of the optimum.

    Raises
    ------
    InputError
        A name is unknown, or a control is not positive.
    """
    settings = settings or Settings()
    if along:
        return run(
            model,
            over,
            observable,
            along,
            start or {},
            settings,
            controls,
            JobOptions(file, resume, force, dask, progress),
        )
    if file is not None:
        raise InputError(
            "a file is written for a grid of optima: give along, or save the solution of the one"
            " optimum"
        )
    model, begin, fixed, settings = _prepared(
        model, over, observable, {}, start or {}, settings, controls
    )
    return find(model, begin, observable, settings, fixed)


def _prepared(
    model: str | Model,
    over: Sequence[str],
    observable: str,
    along: Mapping[str, Any],
    start: Mapping[str, float],
    settings: Settings,
    controls: Any,
) -> tuple[Model, dict[str, float], dict[str, float], Settings]:
    """Everything checked: the model, where the search starts, the fixed controls, complete
    settings.
    """
    check(settings)
    clash = sorted(set(over) & {*along, *controls})
    if clash:
        raise InputError(f"{clash[0]} is optimised and given too: leave one out")
    _check(built(model, controls)[0], over, observable)
    model, fixed = resolve(model, controls, partial=[*over, *along])
    return (
        model,
        {n: number(_quantity(model, n), start.get(n, 1.0)) for n in over},
        fixed,
        completed(settings, model),
    )


@dataclass(frozen=True)
class Place:
    """A point of a grid."""

    controls: dict[str, float]
    points: int = 1


def solve_place(
    model: Model,
    place: Place,
    done: Callable[[int], None],
    *,
    begin: dict[str, float],
    observable: str,
    settings: Settings,
) -> tuple[xr.Dataset, int]:
    """The optimum at one place: a dataset with the one branch "best", and the code of
    its status.
    """
    o = find(model, begin, observable, settings, place.controls)
    done(1)
    row = to_dataset(o.solution).isel(branch=[o.solution.best or 0])
    chosen = {n: ("branch", [v]) for n, v in o.at.items()} | {
        f"error_{n}": ("branch", [v]) for n, v in o.error_at.items()
    }
    return row.assign(chosen | {"evaluations": ("branch", [o.evaluations])}), o.status.code


def run(
    model: str | Model,
    over: Sequence[str],
    observable: str,
    along: Mapping[str, Any],
    start: Mapping[str, float],
    settings: Settings,
    controls: Mapping[str, Any],
    work: JobOptions,
) -> xr.Dataset:
    """What ``optimise`` does with ``along``."""
    name = model if isinstance(model, str) else None
    axes = axes_of(built(model, controls)[0], along, controls)
    ready, begin, fixed, settings = _prepared(
        model, over, observable, axes, start, settings, controls
    )
    grid = list(itertools.product(*axes.values()))
    places = [Place({**fixed, **dict(zip(axes, map(float, point), strict=True))}) for point in grid]
    with opened(
        work, _blank(ready, axes, fixed, settings, begin, observable), [*axes, "branch"]
    ) as target:
        dataset = target.dataset
        status = dataset["status"].values.reshape(-1)  # a view

        def put(i: int, solved: tuple[xr.Dataset, int]) -> int:
            row, code = solved
            for variable in row.data_vars:
                dataset[variable].values.reshape(-1)[i] = row[variable].values[0]
            status[i] = code
            dataset.attrs["complete"] = not (status == Status.NOT_COMPUTED.code).any()
            target.write(dataset)
            return failures(status[i : i + 1])

        pending = {
            i: place for i, place in enumerate(places) if status[i] == Status.NOT_COMPUTED.code
        }
        job = partial(solve_place, begin=begin, observable=observable, settings=settings)
        with progress_bar(
            work, f"{ready.name} optimum", len(places), len(places) - len(pending)
        ) as bar:
            bar.failed(failures(status))
            gathered(target.client, job, ready, name, pending, bar, put, threads=1)
    return dataset


def _blank(
    model: Model,
    axes: dict[str, np.ndarray],
    fixed: dict[str, float],
    settings: Settings,
    begin: dict[str, float],
    observable: str,
) -> xr.Dataset:
    """The dataset of which nothing is computed yet."""
    empty = (
        blank(model, axes, fixed, settings, NodeSizes(), optimised=begin, minimised=observable)
        .isel(branch=[0])
        .assign_coords(branch=["best"])
    )
    dims, nan = empty["status"].dims, np.full(empty["status"].shape, np.nan)
    chosen: dict[str, Any] = {
        "evaluations": (
            dims,
            np.zeros(nan.shape, dtype=np.int64),
            {"long_name": "fixed points solved during the search"},
        )
    }
    for name in begin:
        quantity = _quantity(model, name)
        chosen[name] = (
            dims,
            nan.copy(),
            {"latex": quantity.label, "long_name": f"best {quantity.meaning}", "units": "1"},
        )
        chosen[f"error_{name}"] = (
            dims,
            nan.copy(),
            {"long_name": f"error estimate of {name}", "units": "1"},
        )
    return empty.assign(chosen).copy(deep=True)


def _check(model: Model, over: Sequence[str], observable: str) -> None:
    theory_of(model).check_gradient(observable)
    for name in over:
        if (
            not _quantity(model, name).low == 0
            or not _quantity(model, name).open_low
            or _quantity(model, name).integer
        ):
            raise InputError(
                f"{name} cannot be optimised: its logarithm is searched, so it must be a positive"
                " number"
            )


def _quantity(model: Model, name: str) -> Any:
    known = {q.name: q for q in model.controls}
    if name not in known:
        raise InputError(f"{model.name} has no control {name!r}: {nearest(name, known)}")
    return known[name]


class _Stopped(Exception):
    """A fixed point failed during the search."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.value)
        self.status = status


class _Objective:
    """g and its gradient in t, following one branch from one evaluation to the next."""

    def __init__(
        self,
        model: Model,
        names: Sequence[str],
        observable: str,
        settings: Settings,
        values: Mapping[str, float],
        x: np.ndarray,
    ) -> None:
        self.model, self.values = model, dict(values)
        self.branch = theory_of(model).followed(x, settings, observable)
        self.columns = [[q.name for q in model.controls].index(n) for n in names]
        self.names, self.evaluations = list(names), 0

    def controls(self, t: np.ndarray) -> np.ndarray:
        values = {**self.values, **dict(zip(self.names, np.exp(t), strict=True))}
        return np.array([values[q.name] for q in self.model.controls])

    def __call__(self, t: np.ndarray) -> tuple[float, np.ndarray]:
        moved = self.branch.to(self.controls(t), self.basis(t))
        self.evaluations += 1
        if moved.status is not Status.SUCCESSFUL:
            raise _Stopped(moved.status)
        return moved.value, moved.gradient

    def basis(self, t: np.ndarray) -> np.ndarray:
        """d controls / d t, one row per entry of t."""
        c = self.controls(t)
        basis = np.zeros((len(t), len(c)))
        basis[range(len(t)), self.columns] = c[self.columns]
        return basis


def find(
    model: Model,
    begin: Mapping[str, float],
    observable: str,
    settings: Settings,
    values: dict[str, float],
) -> Optimum:
    """Search on few samples along one branch; solve from every start at its end, and search again
    if another branch is the best one there.
    """
    names, at, evaluations = list(begin), dict(begin), 0
    with double_precision():
        x = _best_start(model, {**values, **at}, settings)
        for _ in range(2):
            goal = _Objective(model, names, observable, settings, values, x)
            end, gradient, status = _search(goal, np.log([at[n] for n in names]))
            at, evaluations = (
                dict(zip(names, map(float, np.exp(end)), strict=True)),
                evaluations + goal.evaluations,
            )
            solution = solve(model, settings=settings, **values, **at)
            best = None if solution.best is None else solution.branches[solution.best]
            if best is None or not status.is_point or _near(best, goal.branch.x):
                break
            x = _overlaps(best)
        else:  # the best branch at the optimum of each branch is another one
            status = Status.MAX_STEPS
        known = best is not None and status is Status.SUCCESSFUL
        distance = (
            np.abs(_refined_distance(goal, end, best)) if known else np.full(len(names), np.nan)
        )
    if status is Status.SUCCESSFUL:
        status = solution.branches[0].status if best is None else best.status
    value, error = (
        (np.nan, np.nan) if best is None else (best.observables[observable], best.error[observable])
    )
    error_at = {n: at[n] * float(d) for n, d in zip(names, distance, strict=True)}
    return Optimum(
        at,
        value,
        error,
        error_at,
        dict(zip(names, map(float, gradient), strict=True)),
        status,
        evaluations,
        solution,
    )


def _best_start(model: Model, values: dict[str, float], settings: Settings) -> np.ndarray:
    solution = solve(model, settings=replace(settings, accuracy=np.inf), **values)
    if solution.best is None:
        return theory_of(model).start_vector(model.starts["informed"], values)
    return _overlaps(solution.branches[solution.best])


def _overlaps(branch: Branch) -> np.ndarray:
    """In the order of the model's."""
    return np.array(list(branch.overlaps.values()))


def _near(branch: Branch, x: np.ndarray) -> bool:
    """Whether the branch is the one followed on fewer samples."""
    return bool(np.all(np.abs(_overlaps(branch) - x) <= 0.1 * (1 + np.abs(x))))


def _search(goal: _Objective, begin: np.ndarray) -> tuple[np.ndarray, np.ndarray, Status]:
    """L-BFGS-B inside ``RANGE``: the end, the gradient there, and how it ended."""
    low, high = np.log(RANGE)
    seen: list[tuple[float, np.ndarray, np.ndarray]] = []

    def value(t: np.ndarray) -> tuple[float, np.ndarray]:
        f, slope = goal(t)
        seen.append((f, np.array(t), slope))
        return f, slope

    try:
        result = minimize(
            value,
            begin,
            jac=True,
            method="L-BFGS-B",
            bounds=[(low, high)] * len(begin),
            options={"gtol": FLAT, "maxfun": EVALUATIONS},
        )
    except _Stopped as stop:
        best = (
            min(seen, key=lambda s: s[0]) if seen else (np.nan, begin, np.full(len(begin), np.nan))
        )
        return best[1], best[2], stop.status
    edge = (result.x <= low + 1e-9) | (result.x >= high - 1e-9)
    if edge.any():
        return result.x, result.jac, Status.AT_EDGE
    flat = np.max(np.abs(result.jac)) <= FLAT or result.success
    return result.x, result.jac, Status.SUCCESSFUL if flat else Status.MAX_STEPS


def _refined_distance(goal: _Objective, t: np.ndarray, branch: Branch) -> np.ndarray:
    """H^{-1} g: how far, in t, the optimum on the samples of ``branch`` (as many as its accuracy
    needed) may lie from ``t``.

    g is the gradient there, H the curvature on the first samples from differences of gradients. NaN
    where H is not positive.
    """
    step, x = 0.1, _overlaps(branch)
    try:
        curvature = np.array(
            [(goal(t + step * e)[1] - goal(t - step * e)[1]) / (2 * step) for e in np.eye(len(t))]
        )
    except _Stopped:
        return np.full(len(t), np.nan)
    slope = goal.branch.gradient_at(x, goal.controls(t), branch.level, goal.basis(t))
    curvature = (curvature + curvature.T) / 2
    if not np.all(np.isfinite(curvature)) or np.min(np.linalg.eigvalsh(curvature)) <= 0:
        return np.full(len(t), np.nan)
    return np.linalg.solve(curvature, slope)
