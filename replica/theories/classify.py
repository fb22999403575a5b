"""When the success of an iteration is the success of a result: what stands with the model as
criteria, and what is asked of every point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np

from equations import Criterion, Model
from solvers import Status

from ..errors import InputError
from .base import Point, Refined
from .equations import State

MARGIN = 1e-9
"""What rounding may add to a comparison."""
Measured = Mapping[str, tuple[float, float]]
"""Values and errors by name."""


def measured(model: Model, point: Point) -> dict[str, tuple[float, float]]:
    """Observables and conjugates of a point with their errors."""
    hats = (q.name for q in model.conjugates)
    pairs = zip(point.observables, point.error_observables, strict=True)
    found = dict(zip(model.observables, pairs, strict=True))
    return found | dict(zip(hats, zip(point.hats, point.error_hats, strict=True), strict=True))


def violated(model: Model, when: Literal["first", "finite", "resolved"], at: Measured) -> Status:
    """The status of the first criterion that does not hold, SUCCESSFUL if all do."""
    for criterion in model.all_criteria:
        if criterion.when == when and criterion.of in at and _wrong(criterion, at):
            return Status[criterion.status]
    return Status.SUCCESSFUL


def _wrong(criterion: Criterion, at: Measured) -> bool:
    value, error = at[criterion.of]
    limit, limit_error = (criterion.limit, 0.0)
    if isinstance(criterion.limit, str):
        if criterion.limit not in at:
            return False
        limit, limit_error = at[criterion.limit]
    if criterion.relation == "above":
        return bool(value > limit)
    if criterion.relation == "below":
        return bool(value < limit - 2 * (error + limit_error) - MARGIN)
    return bool(abs(value - limit) > 5 / 2 * np.hypot(error, limit_error) + MARGIN)


def classify(point: Point, verdict: Callable[[], Status]) -> Point:
    """Turn the success of an iteration into the success of a result."""
    status = Status.of(int(point.status))
    size = max(1.0, float(np.max(np.abs(point.x), initial=0)))
    if status is Status.MAX_STEPS and point.residual <= 1e3 * np.finfo(float).eps * size:
        status = Status.BELOW_PRECISION
    if status in (Status.SUCCESSFUL, Status.INFINITE_SCALE):
        found = verdict()
        status = status if found is Status.SUCCESSFUL else found
    return point._replace(status=np.asarray(status.code))


def refuse_non_finite(
    model: Model,
    starts: Mapping[str, np.ndarray],
    found: list[Refined],
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
            wrong = _not_finite(model, state(x))
            if wrong and np.all(np.isfinite(x)):
                place = ", ".join(
                    f"{q.name} = {v:g}" for q, v in zip(model.overlaps, x, strict=True)
                )
                file = model.name if model.source is None else model.source.file
                raise InputError(
                    f"{file}: {wrong} {where} ({place}): check its formula there, or change the"
                    " start"
                )


def _not_finite(model: Model, at: State) -> str:
    """What is not finite, and its value; "" if everything is."""
    values = dict(zip((q.name for q in model.conjugates), at.hats, strict=True))
    for q, value in zip(model.overlaps, at.update, strict=True):
        values[f"the equation of {q.name}"] = value
    values |= {"the free energy": at.free_energy}
    values |= dict(zip(model.observables, at.observables, strict=True))
    wrong = next((name for name, value in values.items() if not np.isfinite(value)), None)
    return "" if wrong is None else f"{wrong} is {float(values[wrong])}"
