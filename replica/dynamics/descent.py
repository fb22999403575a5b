"""Population gradient descent in time: trajectories of the flow, steps of descent, and where random
starts end (model slr-flow).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from equations import Model
from solvers import Status, gram_descent, ode

from ..errors import InputError, SolveError
from ..lowering.node_sizes import NodeSizes
from ..models import resolve
from ..runtime.precision import double_precision
from ..runtime.programs import Program
from ..theories import gradient_flow, gram_field, theory_of

MODEL = "slr-flow"
STEPS = {"free": gram_descent.step, "sphere": gram_descent.step_on_spheres}


@cache
def _trajectory(model: Model) -> Any:
    def run(c: jax.Array, fixed: jax.Array, x0: jax.Array, times: jax.Array) -> ode.Trajectory:
        forces = gram_field.field(model, gram_field.first_sizes(model), c).forces
        return ode.trajectory(lambda p, x: gram_descent.velocity(forces, fixed, x), None, x0, times)

    return Program(run, gram_field.OPTIONS)


@cache
def _descent(model: Model, surface: str) -> Any:
    def run(
        c: jax.Array, fixed: jax.Array, x0: jax.Array, size: jax.Array, wanted: jax.Array
    ) -> jax.Array:
        forces = gram_field.field(model, gram_field.first_sizes(model), c).forces

        def step(x: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
            new = STEPS[surface](forces, fixed, x, size)
            return new, new

        path = jax.lax.scan(step, x0, None, length=wanted.shape[0] - 1)[1]
        return jnp.concatenate([x0[None], path])

    return Program(run, gram_field.OPTIONS)


def _started(
    start: Mapping[str, float], controls: Mapping[str, Any]
) -> tuple[Model, jax.Array, np.ndarray, int]:
    model, values = resolve(MODEL, controls)
    names = {q.name for q in model.overlaps}
    if set(start) != names:
        raise InputError(
            f"a start gives every overlap: {', '.join(sorted(names ^ set(start)))} is missing or"
            " unknown"
        )
    c = jnp.asarray(theory_of(model).control_vector(values))
    vectors = gram_field.embedded(model, values, start)
    return model, c, vectors, gram_field.record_of(model).gram.trained


def _dataset(
    model: Model, path: np.ndarray, fixed: np.ndarray, axis: str, at: np.ndarray, **attrs: Any
) -> xr.Dataset:
    whole = np.concatenate([path, np.broadcast_to(fixed, (len(path), *fixed.shape))], axis=1)
    found = np.asarray(gram_field.overlaps_in(model, whole @ whole.transpose(0, 2, 1)))
    labels = {
        q.name: (axis, found[:, i], {"latex": q.label, "long_name": q.meaning})
        for i, q in enumerate(model.overlaps)
    }
    return xr.Dataset(labels, {axis: at}, {"model": MODEL, "options": dict(model.options), **attrs})


def trajectory(start: Mapping[str, float], times: Any, **controls: Any) -> xr.Dataset:
    """The overlaps along the flow from ``start``, at increasing ``times``; the attribute ``error``
    bounds that of the vectors.

    Parameters
    ----------
    start : dict of overlap -> value
        All seven; they must be those of some vectors.
    times : array
        Increasing, from 0 or later.
    **controls
        Controls and options of slr-flow.
    """
    times = np.atleast_1d(np.asarray(times, dtype=float))
    if not (np.all(np.diff(times) > 0) and times[0] >= 0 and times[-1] > 0):
        raise InputError("times must increase, from 0 or later")
    with double_precision():
        model, c, w, trained = _started(start, controls)
        run = jax.tree.map(
            np.asarray,
            _trajectory(model)(
                c, jnp.asarray(w[trained:]), jnp.asarray(w[:trained]), jnp.asarray(times)
            ),
        )
        if Status.of(int(run.status)) is not Status.SUCCESSFUL:
            raise SolveError(f"the flow of {MODEL}: {Status.of(int(run.status)).value}")
        return _dataset(model, run.x, w[trained:], "time", times, error=float(run.error))


def descent(
    start: Mapping[str, float], steps: int, size: Any, *, surface: str = "free", **controls: Any
) -> xr.Dataset:
    """The overlaps during gradient descent on the population risk, exact at every step size.

    Parameters
    ----------
    start : dict of overlap -> value
    steps : int
    size : float, or one for the key and one for the value
        w <- w - size D grad J; the flow has t = size * steps.
    surface : {"free", "sphere"}
        "sphere" keeps the length of both vectors: a step along their spheres, then back to them
        ([M]).
    **controls
        Controls and options of slr-flow.
    """
    if surface not in STEPS:
        raise InputError(f"there is no surface {surface!r}: choose free or sphere")
    if steps < 1:
        raise InputError("descent needs at least one step")
    with double_precision():
        model, c, w, trained = _started(start, controls)
        sizes = jnp.broadcast_to(jnp.asarray(size, dtype=float), (trained,))
        path = _descent(model, surface)(
            c, jnp.asarray(w[trained:]), jnp.asarray(w[:trained]), sizes, jnp.zeros(steps + 1)
        )
        return _dataset(
            model, np.asarray(path), w[trained:], "step", np.arange(steps + 1), surface=surface
        )


def random_starts(n: int, scale: float = 0.5, seed: int = 0) -> np.ndarray:
    """Trained vectors with independent N(0, scale^2) coordinates in the space of k, v and the
    teacher, shape (n, 2, 4): any cross terms.
    """
    return scale * np.random.default_rng(seed).standard_normal((n, 2, 4))


def evidence(
    starts: int = 100,
    *,
    scale: float = 0.5,
    seed: int = 0,
    tol: float = 1e-9,
    accuracy: float | None = None,
    nodes: NodeSizes | None = None,
    **controls: Any,
) -> xr.Dataset:
    """Where the flow from random starts ends: overlaps, risk, largest cross term, rates and status
    of each.

    Parameters
    ----------
    starts : int
    scale : float
        The lengths of the starting vectors: q_k and q_v are 4 scale^2 on average, the cross terms
        about 2 scale^2.
    seed : int
    tol, accuracy : float
        As in ``Settings``.
    nodes : Rule, optional
        Sizes of the node sets to begin with.
    **controls
        Controls and options of slr-flow, such as ``activation="erf", rule="max", L=2, nu=math.inf,
        Delta=0``.
    """
    with double_precision():
        model, values = resolve(MODEL, controls)
        origin = {q.name: 0.0 for q in model.overlaps}
        trained = gram_field.record_of(model).gram.trained
        fixed = gram_field.embedded(model, values, origin)[trained:]
        x0 = random_starts(starts, scale, seed)
        found = gradient_flow.ends(
            model, values, x0, fixed, tol, model.accuracy if accuracy is None else accuracy, nodes
        )
        bound = gradient_flow.constants(model, values)
    risk, risk_error = found.values[:, 1], found.value_error[:, 1]
    status = [
        gradient_flow.judged(model, s, {"risk": (r, e), **bound})
        for s, r, e in zip(found.status, risk, risk_error, strict=True)
    ]
    names = [q.name for q in model.overlaps]
    crossed = [names.index(k) for k in gram_field.record_of(model).manifold]
    variables: dict[str, Any] = {
        q.name: ("start", found.overlaps[:, i], {"latex": q.label})
        for i, q in enumerate(model.overlaps)
    }
    variables |= {f"error_{name}": ("start", found.error[:, i]) for i, name in enumerate(names)}
    variables |= {
        "risk": ("start", risk, {"latex": "R", "units": "y^2"}),
        "error_risk": ("start", risk_error),
        "cross": (
            "start",
            np.max(np.abs(found.overlaps[:, crossed]), axis=1),
            {"long_name": "largest cross term"},
        ),
        "rate": ("start", found.rates[:, 0], {"long_name": "largest growth rate of a deviation"}),
        "speed": ("start", found.speed),
        "time": ("start", found.time),
        "status": ("start", np.array([s.code for s in status], dtype=np.int16)),
        "initial": (("start", "vector", "direction"), x0),
    }
    about = {
        "kind": "evidence",
        "model": MODEL,
        "options": dict(model.options),
        "controls": dict(values),
        "level": found.level,
    }
    return xr.Dataset(
        variables,
        {"start": np.arange(starts)},
        about | {name: value for name, (value, _) in bound.items()},
    )


def classes(dataset: xr.Dataset, digits: int = 4) -> list[dict[str, Any]]:
    """The different ends among those of ``evidence``, the most frequent first.

    Ends are one if status, risk and the cosines of k and v with k* and v* agree to ``digits``
    digits, or if they are no rest, on the manifold or off it; each entry counts them and gives one
    of them.
    """
    lengths = {"k": np.sqrt(dataset.q_k.values), "v": np.sqrt(dataset.q_v.values)}
    cosines = {
        f"cos({a}, {b}*)": np.divide(
            dataset[name].values,
            lengths[a],
            out=np.zeros(dataset.sizes["start"]),
            where=lengths[a] > 0,
        )
        for name, a, b in (
            ("m_k", "k", "k"),
            ("m_kv", "k", "v"),
            ("m_vk", "v", "k"),
            ("m_v", "v", "v"),
        )
    }
    found: dict[Any, dict[str, Any]] = {}
    for i in range(dataset.sizes["start"]):
        status = Status.of(int(dataset.status[i]))
        shown = {k: float(np.round(v[i], digits)) + 0.0 for k, v in cosines.items()} | {
            "risk": float(np.round(dataset.risk[i], digits))
        }
        on_manifold, stable = (
            bool(dataset.cross[i] <= gradient_flow.MANIFOLD),
            bool(dataset.rate[i] <= gram_descent.NEUTRAL),
        )
        key = (status, on_manifold, *(shown.values() if status is Status.SUCCESSFUL else ()))
        entry = found.setdefault(
            key,
            {
                "count": 0,
                "status": status,
                "on_manifold": on_manifold,
                "stable": stable,
                "start": i,
                **shown,
            },
        )
        entry["count"] += 1
    return sorted(found.values(), key=lambda e: -e["count"])
