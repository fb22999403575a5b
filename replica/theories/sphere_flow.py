"""Fixed points of a flow on the sphere, dx/dt = (1 - x^2) force(x): both ends, and the zeros of the
force between them.

The rate of a fixed point is d(drift)/dx there: a deviation grows as e^{rate t}, so the point
attracts if it is negative. Everything here runs inside ``solve.double_precision``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equations import Model
from solvers import Status, ode

from ..errors import InputError
from ..lowering.lower import FLOOR, Lowered, NodeSizes
from .saddle_point import problem

NAMES = ("-xi", "interior", "+xi")


def undefined(model: Model, values: Mapping[str, float]) -> set[str]:
    """The optional controls that are not given."""
    missing = {q.name for q in model.controls if q.optional and q.name not in values}
    given = {q.name for q in model.controls if q.optional} - missing
    if missing and given:
        raise InputError(
            f"the finite-size terms need {' and '.join(sorted(given | missing))}: give --set"
            f" {sorted(missing)[0]}=VALUE too, or neither"
        )
    return missing


def defined(model: Model, values: Mapping[str, float]) -> list[str]:
    """The observables that need no control which is not given."""
    missing = undefined(model, values)
    return [
        name
        for name, expr in model.observables.items()
        if not missing & {str(s) for s in expr.free_symbols}
    ]


def control_vector(model: Model, values: Mapping[str, float]) -> np.ndarray:
    """Controls in order; NaN for one that is not given, which reaches only the observables that
    ``defined`` leaves out.
    """
    return np.array([values.get(q.name, np.nan) for q in model.controls], dtype=float)


def drift_name(model: Model, values: Mapping[str, float]) -> str:
    """The drift that the flow follows: with the finite-size term where it is defined."""
    return "drift" if undefined(model, values) else "drift_finite"


@cache
def field(
    model: Model, name: str
) -> Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array, jax.Array]]:
    """(controls, x of any shape) -> drift, its derivative, and the force drift/(1 - x^2)."""
    (x,) = (q.symbol for q in model.overlaps)
    drift = model.exact(model.observables[name])
    parts = {
        "drift": drift,
        "slope": drift.diff(x),
        "force": drift / (1 - x**2),
    }  # the factor cancels symbolically
    controls = [q.symbol for q in model.controls]
    lowered = Lowered(parts, [x], controls, model.name, NodeSizes())

    def at(c: jax.Array, point: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        binding = {symbol: c[i] for i, symbol in enumerate(controls)}
        values = jnp.vectorize(
            lambda p: tuple(lowered.bind(p[None], binding)(None).values()), signature="()->(),(),()"
        )(point)
        return values

    return at


@cache
def compiled_field(model: Model, name: str) -> Any:
    return jax.jit(field(model, name))


@cache
def compiled_observables(model: Model) -> Any:
    return jax.jit(problem(model, NodeSizes(), "exact").observables)


def observables(model: Model, values: Mapping[str, float], x: float) -> dict[str, float]:
    """What is defined at the overlap ``x``."""
    numbers = compiled_observables(model)(
        jnp.asarray(control_vector(model, values)), jnp.asarray([x])
    )
    everything = dict(zip(model.observables, map(float, numbers), strict=True))
    return {name: everything[name] for name in defined(model, values)}


def fixed_points(model: Model, values: Mapping[str, float], tol: float) -> list[dict[str, Any]]:
    """Every fixed point in increasing x, as the fields of a ``solve.Branch``; ``rate`` is among its
    observables.
    """
    name = drift_name(model, values)
    c, at = jnp.asarray(control_vector(model, values)), compiled_field(model, name)
    try:
        inside = ode.zeros(lambda x: np.asarray(at(c, jnp.asarray(x))[2]), -1.0, 1.0)
    except ValueError as problem:
        raise InputError(
            f"{model.name} cannot be solved in floating point at these controls ({problem}): bring"
            " them closer to 1"
        ) from None
    places = [
        (NAMES[0], -1.0),
        *((NAMES[1] + (f" {i + 1}" if i else ""), x) for i, x in enumerate(inside)),
        (NAMES[2], 1.0),
    ]
    return [_fixed_point(model, values, at, c, tol, start, x) for start, x in places]


def _fixed_point(
    model: Model,
    values: Mapping[str, float],
    at: Any,
    c: jax.Array,
    tol: float,
    start: str,
    x: float,
) -> dict[str, Any]:
    drift, rate, _ = (float(v) for v in at(c, jnp.asarray(x)))
    found = observables(model, values, x) | {"rate": rate}
    error = {k: FLOOR * (1 + abs(v)) for k, v in found.items()}
    place = 0.0 if abs(x) == 1 else (abs(drift) + FLOOR) / abs(rate) if rate else np.inf
    objective = found["objective" if undefined(model, values) else "objective_finite"]
    status = Status.SUCCESSFUL if abs(drift) <= tol else Status.MAX_STEPS
    if not np.isfinite([x, drift, *found.values()]).all():
        status = Status.NON_FINITE
    return {
        "start": start,
        "overlaps": {model.overlaps[0].name: x},
        "conjugates": {},
        "free_energy": objective,
        "observables": found,
        "status": status,
        "residual": abs(drift),
        "error": (
            error | {model.overlaps[0].name: place, "free_energy": FLOOR * (1 + abs(objective))}
        ),
        "steps": 1,
        "spectral_radius": float(np.exp(min(rate, 700.0))),
    }


def describe(branch: Any) -> dict[str, Any]:
    """The JSON entry of one fixed point (a ``solve.Branch``)."""
    others, rate = (
        {k: v for k, v in branch.observables.items() if k != "rate"},
        branch.observables["rate"],
    )
    error = {("objective" if k == "free_energy" else k): v for k, v in branch.error.items()}
    return {
        **branch.overlaps,
        "stable": rate < 0,
        "rate": rate,
        "objective": branch.free_energy,
        "observables": others,
        "status": branch.status.value,
        "residual": branch.residual,
        "error": error,
    }


def evaluation(
    model: Model, values: Mapping[str, float], at: Mapping[str, float]
) -> dict[str, Any]:
    """What ``solve.evaluate`` returns for a flow; ``residual`` is the size of the drift."""
    found = observables(model, values, float(at[model.overlaps[0].name]))
    drift = found[drift_name(model, values)]
    about = {
        "model": model.name,
        "options": dict(model.options),
        "controls": dict(values),
        "overlaps": {k: float(v) for k, v in at.items()},
    }
    return about | {"objective": found["objective"], "observables": found, "residual": abs(drift)}
