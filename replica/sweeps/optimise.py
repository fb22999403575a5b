"""The best regularisation: an observable minimised over controls, at one point or along a grid.

``search`` says how an optimum is found. Along a grid each point is searched by itself, and stored
as it comes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from equations import Model

from ..errors import InputError
from ..files.writer import Name
from ..jobs.options import JobOptions
from ..jobs.run import Batch, SinglePoint, run_job
from ..lowering.node_sizes import NodeSizes
from ..models import built, control_of, resolve
from ..models.values import number
from ..solve import check, completed
from ..theories import Settings, theory_of
from .dataset import blank, failures, to_dataset, waiting
from .search import Optimum, find_optimum
from .sweep import GridJob, axes_of


def optimise(
    model: str | Model,
    over: Sequence[str] = ("lam_k", "lam_v"),
    *,
    observable: str | None = None,
    along: Mapping[str, Any] | None = None,
    start: Mapping[str, float] | None = None,
    settings: Settings | None = None,
    file: Name | None = None,
    resume: bool = False,
    force: bool = False,
    dask: Any = None,
    jobs: int | None = None,
    progress: bool | None = None,
    **controls: Any,
) -> Optimum | xr.Dataset:
    """Minimise ``observable`` over positive controls.

    Parameters
    ----------
    model : str or Model
        One that averages over samples (``slr-erm``) or by quadrature (``glm-erm``).
    over : sequence of str
        Controls to choose, each positive.
    observable : str, optional
        What is minimised; the risk by default.
    along : dict of control -> values, optional
        Do it at every point of a grid.
    start : dict, optional
        Where the search starts; by default at 1, or in the middle of a range that ends below 2.
    settings, **controls
        As in ``solve``.
    file, resume, force, dask, jobs, progress
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
        options = JobOptions(file, resume, force, dask, progress, jobs=jobs)
        return optima(model, over, observable, along, start or {}, settings, controls, options)
    if file is not None:
        raise InputError(
            "a file is written for a grid of optima: give along, or save the solution of the one"
            " optimum"
        )
    observable = _minimised(built(model, controls)[0], observable)
    model, begin, fixed, settings = _prepared(
        model, over, observable, {}, start or {}, settings, controls
    )
    return find_optimum(model, begin, observable, settings, fixed)


def optima(
    model: str | Model,
    over: Sequence[str],
    observable: str | None,
    along: Mapping[str, Any],
    start: Mapping[str, float],
    settings: Settings,
    controls: Mapping[str, Any],
    options: JobOptions,
) -> xr.Dataset:
    """What ``optimise`` does with ``along``."""
    named = built(model, controls)[0]
    observable = _minimised(named, observable)
    axes = axes_of(named, along, controls)
    ready, begin, fixed, settings = _prepared(
        model, over, observable, axes, start, settings, controls
    )
    empty = _blank(ready, axes, fixed, settings, begin, observable)
    points = [
        SinglePoint({**fixed, **dict(zip(axes, map(float, values), strict=True))})
        for values in itertools.product(*axes.values())
    ]
    solve = partial(solve_point, begin=begin, observable=observable, settings=settings)
    name = model if isinstance(model, str) else None
    batch = partial(_batch, solve=solve, model=ready, name=name, points=points)
    return run_job(GridJob(f"{ready.name} optimum", empty, batch), options)


def _batch(
    table: xr.Dataset,
    *,
    solve: Callable[..., tuple[xr.Dataset, int]],
    model: Model,
    name: str | None,
    points: list[SinglePoint],
) -> Batch:
    """The points of the grid, of which those are pending that ``table`` does not have."""
    status = table["status"].values.reshape(-1)  # a view: what is written to it is in the table

    def put(i: int, solved: tuple[xr.Dataset, int]) -> int:
        row, code = solved
        for variable in row.data_vars:
            table[variable].values.reshape(-1)[i] = row[variable].values[0]
        status[i] = code
        return failures(status[i : i + 1])

    return Batch(
        solve=solve,
        model=model,
        name=name,
        pieces=points,
        pending=np.flatnonzero(waiting(status)).tolist(),
        put=put,
        failed=failures(status),
        cores=theory_of(model).cores_of_a_point,
    )


def solve_point(
    model: Model,
    point: SinglePoint,
    done: Callable[[int], None],
    *,
    begin: dict[str, float],
    observable: str,
    settings: Settings,
) -> tuple[xr.Dataset, int]:
    """The optimum at one point: a dataset with the one branch "best", and the code of
    its status.
    """
    found = find_optimum(model, begin, observable, settings, point.controls)
    done(1)
    variables: dict[str, Any] = {"evaluations": ("branch", [found.evaluations])}
    for name, value in found.at.items():
        variables[name] = ("branch", [value])
        variables[f"error_{name}"] = ("branch", [found.error_at[name]])
    row = to_dataset(found.solution).isel(branch=[found.solution.best or 0])
    return row.assign(variables), found.status.code


def _minimised(model: Model, observable: str | None) -> str:
    """The observable that is to be smallest: the one given, or the risk."""
    name = observable or model.with_role("risk")
    if name is None:
        # That there is nothing to choose at all is said first.
        theory_of(model).check_gradient(next(iter(model.observables), ""))
        names = ", ".join(model.observables)
        raise InputError(f"{model.name} names no observable as its risk: give one of {names}")
    return name


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
    asked = ((name, control_of(model, name)) for name in over)
    begin = {name: number(q, start.get(name, min(1.0, q.high / 2))) for name, q in asked}
    return model, begin, fixed, completed(settings, model)


def _blank(
    model: Model,
    axes: dict[str, np.ndarray],
    fixed: dict[str, float],
    settings: Settings,
    begin: dict[str, float],
    observable: str,
) -> xr.Dataset:
    """The dataset of which nothing is computed yet."""
    table = blank(model, axes, fixed, settings, NodeSizes(), optimised=begin, minimised=observable)
    # The best branch of each point, whichever start it comes from.
    table = table.isel(branch=[0]).assign_coords(branch=["best"])
    dims, shape = table["status"].dims, table["status"].shape
    nan = np.full(shape, np.nan)
    evaluations = {"long_name": "fixed points solved during the search"}
    chosen: dict[str, Any] = {"evaluations": (dims, np.zeros(shape, dtype=np.int64), evaluations)}
    for name in begin:
        quantity = control_of(model, name)
        label = {"latex": quantity.label, "long_name": f"best {quantity.meaning}", "units": "1"}
        error = {"long_name": f"error estimate of {name}", "units": "1"}
        # Copies: each of them is written to.
        chosen[name] = (dims, nan.copy(), label)
        chosen[f"error_{name}"] = (dims, nan.copy(), error)
    return table.assign(chosen).copy(deep=True)


def _check(model: Model, over: Sequence[str], observable: str) -> None:
    theory_of(model).check_gradient(observable)
    for name in over:
        quantity = control_of(model, name)
        positive = quantity.low == 0 and quantity.open_low
        if not positive or quantity.integer:
            raise InputError(
                f"{name} cannot be optimised: its logarithm is searched, so it must be a positive"
                " number"
            )
