"""One point: every branch, ranked by its free energy, each with status, residual and error."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from equations import Model
from solvers import check_damping

from .errors import InputError, SolveError
from .inputs import json_safe, nearest
from .lowering.node_sizes import NodeSizes
from .models import resolve
from .runtime.notice import computing
from .runtime.precision import double_precision
from .solution import Solution, best_branch
from .theories import Settings, theory_of


def solve(
    model: str | Model,
    *,
    settings: Settings | None = None,
    starts: dict[str, dict[str, float]] | None = None,
    nodes: NodeSizes | None = None,
    throw: bool = False,
    **controls: Any,
) -> Solution:
    """Solve a model at one point, from every start.

    Parameters
    ----------
    model : str or Model
    settings : Settings, optional
        Tolerance, damping, accuracy, route.
    starts : dict, optional
        Starting overlaps by name; the model's own by default.
    nodes : NodeSizes, optional
        Sizes of the node sets.
    throw : bool
        Raise ``SolveError`` if a branch fails, instead of reporting its status.
    **controls
        Control values and options of the model, such as ``alpha=1.4`` or ``activation="erf"``.

    Returns
    -------
    Solution

    Raises
    ------
    InputError
        A setting is unknown, missing or out of range.
    """
    settings = settings or Settings()
    check(settings)
    built, values = resolve(model, controls)
    settings = completed(settings, built)
    with computing(built.name), double_precision():
        branches = theory_of(built).solve(starts or built.starts, values, settings, nodes)
    solution = Solution(built, values, tuple(branches), best_branch(built, branches), settings)
    failed = [b for b in branches if not b.ok]
    if throw and failed:
        raise SolveError(f"{built.name} from the {failed[0].start} start: {failed[0].message}")
    return solution


def evaluate(
    model: str | Model, at: dict[str, float], *, nodes: NodeSizes | None = None, **controls: Any
) -> dict[str, Any]:
    """Everything a model defines at given overlaps, without iterating.

    Parameters
    ----------
    model : str or Model
        A registered name, or a model of your own.
    at : dict of overlap -> value
        All overlaps of the model, inside their ranges.
    nodes : NodeSizes, optional
        Node sets; those of ``solve`` by default.
    **controls
        Controls and options of the model.

    Returns
    -------
    dict
        ``model``, ``controls``, ``overlaps``, ``conjugates``, ``update`` (F(x)), ``free_entropy``
        or ``objective``, ``observables``, ``residual`` and ``spectral_radius``; for a flow the
        ``drift`` instead of conjugates and update.
    """
    built, values = resolve(model, controls)
    names = [q.name for q in built.overlaps]
    for name in at:
        if name not in names:
            raise InputError(f"{built.name} has no overlap {name!r}: {nearest(name, names)}")
    missing = [n for n in names if n not in at]
    if missing:
        raise InputError(
            f"{built.name} needs {', '.join(missing)}: give it with --at {missing[0]}=VALUE"
        )
    for q in built.overlaps:
        if not q.contains(at[q.name]):
            raise InputError(
                f"{q.name} = {at[q.name]:g} is out of range: it must be {q.range_text()}"
            )
    with computing(built.name), double_precision():
        return json_safe(theory_of(built).evaluate(at, values, nodes))


def completed(settings: Settings, model: Model) -> Settings:
    """``settings`` with the accuracy that ``model`` is solved to unless asked otherwise."""
    return settings if settings.accuracy is not None else replace(settings, accuracy=model.accuracy)


def check(settings: Settings) -> None:
    """Refuse settings that cannot work."""
    try:
        check_damping(settings.damping)
    except ValueError as problem:
        raise InputError(str(problem)) from None
    if settings.route not in ("exact", "sampled"):
        raise InputError(f"unknown route {settings.route!r}: choose exact or sampled")
    positive = settings.tol > 0 and (settings.accuracy is None or settings.accuracy > 0)
    if not positive or settings.max_steps < 1:
        raise InputError("tol and accuracy must be positive and max_steps at least 1")
