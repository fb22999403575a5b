r"""Solve a model with a Moreau envelope: branch by branch, on samples, with a standard error on everything.

One start is followed on few samples, then refined on more of them until the errors meet ``settings.accuracy``. On each
level: search the minima from several starts, solve the fixed point with warm-started minima, search again; repeat while
samples change their valley. Over the independent sets s of samples, with h_s the conjugates of one set at the solution,

    delta x_s = (1 - J)^{-1} R'(h) (h_s - h),   delta O_s = O_s(x) - O(x) + O'(x) delta x_s,   error = 2 std_s / sqrt(sets)

which is what re-solving on each set would give to first order. Source: theory.md sections 5 and 9.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equations import Model
from solvers import Status
from solvers.sampling import Samples, single_location
from solvers.warm import Ended, warm_fixed_point

from .problem import Point, Settings
from .proximal_map import ProximalMap, proximal_map

SETS = 8
FIRST_LEVEL, LAST_LEVEL = 10, 14
"""log2 of the samples per set on which a branch is chosen, and at most."""
ROUNDS = 4
"""Searches on one level before samples that still change their valley are left alone."""
DAMPING = 0.3
"""Least damping: undamped, the conjugates of a non-convex loss overshoot."""
SIGNIFICANT = 5.0
"""Standard errors by which the two forms of V_hat must differ to be called different."""


class Compiled(NamedTuple):
    """The jitted parts of a map on one shape of samples."""

    search: Callable[..., Any]
    image: Callable[..., Any]
    slope: Callable[..., Any]
    report: Callable[..., Any]


@cache
def compiled(model: Model, tokens: int) -> Compiled:
    """Compile once per model and number of tokens (and, by JAX, per number of samples)."""
    parts = proximal_map(model, tokens)

    def update(x: jax.Array, c: jax.Array, data: Samples, found: jax.Array) -> jax.Array:
        return parts.update(parts.conjugates(x, c, data, found), c)

    def image(x: jax.Array, c: jax.Array, data: Samples, known: jax.Array) -> tuple[jax.Array, jax.Array]:
        found, _ = parts.warm(x, c, data, known)
        return update(x, c, data, found), found

    return Compiled(jax.jit(parts.search), jax.jit(image), jax.jit(jax.jacfwd(update)), jax.jit(lambda *a: _report(parts, *a)))


class Report(NamedTuple):
    """Per set: conjugates, free energy, observables; and what propagates their errors."""

    hats: jax.Array
    free_energy: jax.Array
    observables: jax.Array
    response: jax.Array
    sensitivity: jax.Array


def _report(parts: ProximalMap, x: jax.Array, c: jax.Array, data: Samples, found: jax.Array, changed: jax.Array, failed: jax.Array) -> Report:
    """``data`` and the minimisers, sets first; one set after the other."""
    hats = jax.lax.map(lambda a: parts.conjugates(x, c, *a), (data, found))
    mean = jnp.mean(hats, axis=0)

    def one(a: tuple[Any, ...]) -> tuple[jax.Array, jax.Array, jax.Array]:
        part, minimum, *flags = a
        response = parts.response(x, c, part, minimum, tuple(flags))

        def observables(x: jax.Array) -> jax.Array:
            return parts.observables(x, c, part, minimum, response)

        return parts.value(x, mean, c, part, minimum), observables(x), jax.jacfwd(observables)(x)

    value, observed, sensitivity = jax.lax.map(one, (data, found, changed, failed))
    return Report(hats, value, observed, jax.jacfwd(parts.update)(mean, c), jnp.mean(sensitivity, axis=0))


@lru_cache(maxsize=8)
def _samples(tokens: int, rule: str, nu: float, level: int) -> Samples:
    # Summing the location out multiplies the samples by L.
    fewer = int(np.log2(tokens)) if rule == "max" and np.isfinite(nu) else 0
    return single_location(tokens, rule, nu, level - fewer, SETS, seed=0)


def _flat(data: Samples) -> Samples:
    sets, n = data.common.shape
    tokens = data.tokens.transpose(1, 0, 2, 3).reshape(4, sets * n, -1)
    return Samples(*(jnp.asarray(a) for a in (data.common.ravel(), tokens, data.weights.ravel() / sets)))


def settle(model: Model, x0: np.ndarray, c: np.ndarray, settings: Settings) -> tuple[Point, int]:
    """One branch, judged, and the number of times its samples were multiplied."""
    names = [q.name for q in model.controls]
    tokens, nu = int(c[names.index("L")]), float(c[names.index("nu")])
    level, x, steps = FIRST_LEVEL, x0, 0
    while True:
        data = _samples(tokens, model.options["rule"], nu, level)
        point = _solve_level(model, tokens, x, c, data, settings)
        steps += int(point.steps)
        excess = _excess(model, point, settings.accuracy)
        if Status.of(int(point.status)) is not Status.SUCCESSFUL or excess <= 1 or level == LAST_LEVEL:
            break
        # The error falls at least as the square root of the number of samples.
        level = min(LAST_LEVEL, level + max(1, int(np.ceil(2 * np.log2(excess)))))
        x = point.x
    return _judged(model, point._replace(steps=np.asarray(steps)), settings), level - FIRST_LEVEL


def _solve_level(model: Model, tokens: int, x0: np.ndarray, c: np.ndarray, data: Samples, settings: Settings) -> Point:
    run, flat, c_ = compiled(model, tokens), _flat(data), jnp.asarray(c)
    inside = _domain(model)

    def image(x: np.ndarray, known: jax.Array) -> tuple[np.ndarray, jax.Array]:
        fx, found = run.image(jnp.asarray(x), c_, flat, known)
        return np.asarray(fx), found

    def slope(x: np.ndarray, found: jax.Array) -> np.ndarray:
        return np.asarray(run.slope(jnp.asarray(x), c_, flat, found))

    found, steps = proximal_map(model, tokens).unknown(flat), 0
    found, changed, failed = run.search(jnp.asarray(x0), c_, flat, found)
    for _ in range(ROUNDS):
        end = warm_fixed_point(
            image, slope, x0, found, tol=settings.tol, max_steps=settings.max_steps, damping=max(settings.damping, DAMPING), inside=inside
        )
        steps, x0 = steps + end.steps, end.x
        if end.status is not Status.SUCCESSFUL:
            break
        found, changed, failed = run.search(jnp.asarray(x0), c_, flat, end.state)
        if not bool(jnp.any(changed)):
            break
    return _point(run, end._replace(steps=steps), slope(end.x, end.state), c_, data, (end.state, changed, failed))


def _domain(model: Model) -> Callable[[np.ndarray], bool]:
    names = [q.name for q in model.overlaps]
    at = {n: names.index(n) for n in names}

    def inside(x: np.ndarray) -> bool:
        # q = m^2 is attained where a field does not matter; rounding may then fall below it.
        return all(x[at[f"V_{a}"]] > 0 and x[at[f"q_{a}"]] - x[at[f"m_{a}"]] ** 2 >= -1e-12 * (1 + x[at[f"q_{a}"]]) for a in "kv")

    return inside


def _point(run: Compiled, end: Ended, slope: np.ndarray, c: jax.Array, data: Samples, minima: tuple[jax.Array, ...]) -> Point:
    sets, n = data.common.shape
    arranged = [jnp.moveaxis(m.reshape(*m.shape[:-1], sets, n), -2, 0) for m in minima]
    report = jax.tree.map(np.asarray, run.report(jnp.asarray(end.x), c, Samples(*map(jnp.asarray, data)), *arranged))
    shift = (report.hats - report.hats.mean(axis=0)) @ report.response.T
    finite = bool(np.all(np.isfinite(slope)))
    moved = np.linalg.solve(np.eye(len(end.x)) - slope, shift.T).T if finite else np.full_like(shift, np.nan)
    observed = report.observables.mean(axis=0)
    radius = float(np.max(np.abs(np.linalg.eigvals(slope)))) if finite else np.nan
    return Point(
        end.x, report.hats.mean(axis=0), report.free_energy.mean(), observed, np.asarray(end.residual), np.asarray(end.steps),
        np.asarray(end.status.code), np.asarray(radius), _error(moved), _error(report.hats), _error(report.free_energy),
        _error(report.observables + moved @ report.sensitivity.T),
    )  # fmt: skip


def _error(per_set: np.ndarray) -> np.ndarray:
    """Twice the standard error of the mean over the sets."""
    return 2 * per_set.std(axis=0, ddof=1) / np.sqrt(len(per_set))


def _excess(model: Model, point: Point, accuracy: float) -> float:
    """Largest error of an overlap (relative to it above 1) and of the risks, in units of ``accuracy``."""
    names = list(model.observables)
    risks = [names.index(n) for n in ("risk", "training_loss")]
    errors = np.concatenate([point.error_x / np.maximum(1, np.abs(point.x)), point.error_observables[risks]])
    return float(np.max(errors)) / accuracy


def _judged(model: Model, point: Point, settings: Settings) -> Point:
    status = Status.of(int(point.status))
    if status is Status.SUCCESSFUL:
        status = _verdict(model, point, settings)
    return point._replace(status=np.asarray(status.code))


def _verdict(model: Model, point: Point, settings: Settings) -> Status:
    seen = dict(zip(model.observables, point.observables, strict=True))
    error = dict(zip(model.observables, point.error_observables, strict=True))
    hats = dict(zip((q.name for q in model.conjugates), zip(point.hats, point.error_hats, strict=True), strict=True))
    if not np.all(np.isfinite([*point.x, *point.hats, point.free_energy, seen["risk"], seen["training_loss"], seen["replicon"]])):
        return Status.NON_FINITE
    if seen["prox_failures"] > 0:
        return Status.PROX_FAILED
    if seen["replicon"] > 1:
        return Status.RS_UNSTABLE
    if not _excess(model, point, settings.accuracy) <= 1:
        return Status.UNRESOLVED
    for a in "kv":
        stein, stein_error = hats[f"V_{a}_hat"]
        gap = abs(stein - seen[f"V_{a}_hat_response"])
        if gap > SIGNIFICANT / 2 * np.hypot(stein_error, error[f"V_{a}_hat_response"]) + 1e-9:
            return Status.FORMS_DIFFER
    return Status.SUCCESSFUL
