"""The verdict on a solved point: when the success of an iteration is the success of a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from equations import Model
from solvers import Status

from ..errors import InputError
from .saddle_point import Point, Settings, State


def classify(model: Model, point: Point, settings: Settings) -> Point:
    """Turn the success of an iteration into the success of a result: finite, resolved, stable,
    above Bayes.
    """
    status = Status.of(point.status)
    if status is Status.MAX_STEPS and point.residual <= 1e3 * np.finfo(float).eps * max(
        1.0, float(np.max(np.abs(point.x), initial=0))
    ):
        status = Status.BELOW_PRECISION
    if status in (Status.SUCCESSFUL, Status.INFINITE_SCALE):
        verdict = _verdict(model, point, settings)
        status = status if verdict is Status.SUCCESSFUL else verdict
    return point._replace(status=np.asarray(status.code))


def _verdict(model: Model, point: Point, settings: Settings) -> Status:
    numbers = np.concatenate(
        [np.ravel(point.x), np.ravel(point.observables), np.ravel(point.free_energy)]
    )
    if not np.all(np.isfinite(numbers)):
        return Status.NON_FINITE
    if not np.all(np.isfinite(np.ravel(point.error_x))) or not np.isfinite(point.radius):
        return Status.BOUNDARY
    # The place of a flat optimum may be ill-determined where its value is not: errors there speak
    # for themselves.
    loose = model.conjugates and point.unresolved > settings.accuracy
    allowed = 10 * (settings.accuracy + np.max(point.error_x, initial=0.0) * bool(model.conjugates))
    if loose or np.any(point.error_observables > allowed):
        return Status.UNRESOLVED
    if model.conjugates and point.radius > 1:
        return Status.NOT_STABLE
    if model.bound and "risk" in model.observables:
        values = dict(
            zip(
                model.observables,
                zip(point.observables, point.error_observables, strict=True),
                strict=True,
            )
        )
        (risk, risk_error), (bound, bound_error) = values["risk"], values[model.bound]
        if risk < bound - 2 * (risk_error + bound_error) - 1e-9:
            return Status.BELOW_BAYES
    return Status.SUCCESSFUL


def refuse_non_finite(
    model: Model,
    starts: Mapping[str, np.ndarray],
    found: list[tuple[str, Point, int]],
    state: Callable[[np.ndarray], State],
) -> None:
    """Name what is not finite at the start, or where the iteration ended, of a model whose formulas
    may be wrong (a user's own).
    """
    for name, point, _ in found:
        if Status.of(int(point.status)) is not Status.NON_FINITE:
            continue
        for where, x in (
            (f"at the {name} start", starts[name]),
            (f"where the {name} start leads", np.asarray(point.x)),
        ):
            at = state(x)
            values = dict(zip((q.name for q in model.conjugates), at.hats, strict=True))
            values |= {
                f"the equation of {q.name}": v
                for q, v in zip(model.overlaps, at.update, strict=True)
            }
            values |= {"the free energy": at.free_energy} | dict(
                zip(model.observables, at.observables, strict=True)
            )
            wrong = next((n for n, v in values.items() if not np.isfinite(v)), None)
            if wrong is not None and np.all(np.isfinite(x)):
                place = ", ".join(
                    f"{q.name} = {v:g}" for q, v in zip(model.overlaps, x, strict=True)
                )
                file = model.name if model.source is None else model.source.file
                raise InputError(
                    f"{file}: {wrong} is {float(values[wrong])} {where} ({place}): check its"
                    " formula there, or change the start"
                )
