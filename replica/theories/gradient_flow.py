"""Where descent on an objective of the overlaps ends: the fixed points of the flow of a Gram
matrix, from given starts.

The vectors flow in the space that they and the teacher span (``solvers.gram``), with the derived
forces H of ``equations.gram``. Everything here runs inside ``precision.double_precision``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equations import Model
from solvers import Status, gram_descent

from ..errors import InputError
from ..lowering.lower import FLOOR, SAFETY, Lowered, NodeSizes, value_and_error
from .saddle_point import Settings

SIZES = NodeSizes(gaussian=41, line=121, localised=61, mellin=161)
"""Node sets to begin with: the forces are evaluated thousands of times, and are smooth."""
LEVELS = 2
"""How often they are refined before an end is called unresolved."""
LATEST, EDGE = 200.0, 1e2
"""The time up to which a flow is followed, and the length |w|/sqrt(D) beyond which it is said to
diverge.
"""
SLOW = 1e-4
"""Newton's method is tried where the flow is slower than this when its time is up."""
NEWTON_STEPS = 20
OPTIONS = {"xla_backend_optimization_level": 0}
"""Code that is compiled for one point and runs a few thousand times."""
MANIFOLD = 1e-6
"""Cross terms below it vanish."""
VALUES = "objective", "risk"


def first_sizes(model: Model) -> NodeSizes:
    """The node sets to begin with."""
    return SIZES.at_least({name: float(need) for name, need in model.nodes.items()})


@cache
def derived(model: Model) -> dict[str, Any]:
    """The forces and the values, derived and rewritten for evaluation."""
    assert model.gram is not None
    objective, risk = model.exact(model.channel), model.exact(model.observables["risk"])
    return {f"H_{a}{b}": e for (a, b), e in model.gram.forces(objective).items()} | {
        "objective": objective,
        "risk": risk,
    }


@cache
def lowered(model: Model, sizes: NodeSizes) -> Lowered:
    return Lowered(
        derived(model),
        [q.symbol for q in model.overlaps],
        [q.symbol for q in model.controls],
        model.name,
        sizes,
    )


def places(model: Model) -> list[tuple[int, int]]:
    """Where each overlap stands in the Gram matrix."""
    assert model.gram is not None
    size = range(model.gram.matrix.rows)
    return [
        next((a, b) for a in size for b in size if model.gram.matrix[a, b] == q.symbol)
        for q in model.overlaps
    ]


def overlaps_in(model: Model, matrix: Any) -> Any:
    """The overlaps among the entries of a Gram matrix, shape (..., n, n)."""
    return jnp.stack([matrix[..., a, b] for a, b in places(model)], axis=-1)


@dataclass(frozen=True)
class Field:
    """The forces of a model at given controls, and its values, as functions of the Gram matrix."""

    model: Model
    values: Callable[[jax.Array], dict[str, jax.Array]]

    def forces(self, matrix: jax.Array) -> jax.Array:
        """H, shape (trained, n)."""
        assert self.model.gram is not None
        found, n = self.values(overlaps_in(self.model, matrix)), self.model.gram.matrix.rows
        return jnp.stack(
            [found[f"H_{a}{b}"] for a in range(self.model.gram.trained) for b in range(n)]
        ).reshape(-1, n)


def _binding(model: Model, c: jax.Array) -> dict[Any, jax.Array]:
    return {q.symbol: c[i] for i, q in enumerate(model.controls)}


def _anywhere(model: Model) -> jax.Array:
    return jnp.asarray(list(next(iter(model.starts.values())).values()), dtype=float)


def field(model: Model, sizes: NodeSizes, c: jax.Array) -> Field:
    """What does not depend on the overlaps is evaluated here, outside any loop."""
    return Field(model, lowered(model, sizes).bind(_anywhere(model), _binding(model, c)))


class _Flow:
    """The velocity of a model at one rule, compiled for one point at a time."""

    def __init__(self, model: Model, sizes: NodeSizes) -> None:
        self.model, self.lowered = model, lowered(model, sizes)
        self.keys: list[Any] = []
        self.prepare = jax.jit(self._prepare, compiler_options=OPTIONS)
        self.velocity = jax.jit(self._velocity, compiler_options=OPTIONS)

    def _prepare(self, c: jax.Array) -> list[jax.Array]:
        shared = self.lowered.prepared(_anywhere(self.model), _binding(self.model, c))
        self.keys = list(shared)  # while this is traced
        return [jnp.asarray(v) for v in shared.values()]

    def _velocity(
        self, c: jax.Array, shared: list[jax.Array], fixed: jax.Array, x: jax.Array
    ) -> jax.Array:
        known = dict(zip(self.keys, shared, strict=True))
        at = Field(
            self.model, lambda overlaps: self.lowered.at(overlaps, _binding(self.model, c), known)
        )
        return gram_descent.velocity(at.forces, fixed, x)

    def settle(self, c: jax.Array, fixed: jax.Array, starts: np.ndarray) -> list[gram_descent.End]:
        """The ends of the flow from each start."""
        shared = self.prepare(c)
        return [
            gram_descent.settle(
                lambda x: np.asarray(self.velocity(c, shared, fixed, x)), start, LATEST, EDGE
            )
            for start in starts
        ]


@cache
def _flow(model: Model, sizes: NodeSizes) -> _Flow:
    return _Flow(model, sizes)


@cache
def _probe(model: Model, sizes: NodeSizes) -> Any:
    """Velocity, its slope, and the values of the model at each point."""

    def run(c: jax.Array, fixed: jax.Array, points: jax.Array) -> Any:
        at = field(model, sizes, c)

        def one(x: jax.Array) -> Any:
            w = jnp.concatenate([x, fixed])
            found = at.values(overlaps_in(model, w @ w.T))
            return gram_descent.slope(at.forces, fixed, x), jnp.stack(
                [found[name] for name in VALUES]
            )

        return jax.lax.map(one, points)

    return jax.jit(run, compiler_options=OPTIONS)


def controls_of(model: Model, values: Mapping[str, float]) -> jax.Array:
    return jnp.asarray([values[q.name] for q in model.controls], dtype=float)


def embedded(
    model: Model,
    values: Mapping[str, float],
    overlaps: Mapping[str, float],
    name: str = "these overlaps",
) -> np.ndarray:
    """Vectors with these overlaps, trained ones first, shape (n, n)."""
    assert model.gram is not None
    numbers = {q.symbol: float(values[q.name]) for q in model.controls} | {
        q.symbol: float(overlaps[q.name]) for q in model.overlaps
    }
    found = gram_descent.vectors(np.array(model.gram.matrix.subs(numbers), dtype=float))
    if found is None:
        raise InputError(
            f"no vectors have {name}: a Gram matrix has no negative eigenvalue, so lower the cross"
            " terms or raise the lengths"
        )
    return found


@dataclass(frozen=True)
class Ends:
    """Where flows ended, one entry per start.

    Attributes
    ----------
    overlaps, error : array (starts, overlaps)
    values, value_error : array (starts, len(VALUES))
    speed : largest entry of the velocity
    rates : array (starts, n), falling: growth rates of small deviations of the trained vectors
    status : list of Status
    time, steps : of the flow
    level : refinements of the node sets
    """

    overlaps: np.ndarray
    error: np.ndarray
    values: np.ndarray
    value_error: np.ndarray
    speed: np.ndarray
    rates: np.ndarray
    status: list[Status]
    time: np.ndarray
    steps: np.ndarray
    level: int


def ends(
    model: Model,
    values: Mapping[str, float],
    vectors: np.ndarray,
    fixed: np.ndarray,
    tol: float,
    accuracy: float,
    sizes: NodeSizes | None = None,
) -> Ends:
    """Follow the flow from trained ``vectors``, shape (starts, trained, n), and polish its ends."""
    sizes = sizes or first_sizes(model)
    c, still = controls_of(model, values), jnp.asarray(fixed)
    found_ends = _flow(model, sizes).settle(c, still, vectors)
    x = np.array([end.x for end in found_ends])
    for level in range(LEVELS + 1):
        x, (speed, slopes), found = _polished(model, sizes, c, still, x)
        (finer_speed, _), finer = jax.tree.map(
            np.asarray, _probe(model, sizes.finer())(c, still, jnp.asarray(x))
        )
        here = _overlaps(model, x, fixed)
        shift = np.stack(
            [
                gram_descent.newton(v, s).reshape(x.shape[1:])
                for v, s in zip(finer_speed, slopes, strict=True)
            ]
        )
        error = SAFETY * np.abs(_overlaps(model, x + shift, fixed) - here) + FLOOR * (
            1 + np.abs(here)
        )
        value_error = SAFETY * np.abs(finer - found) + FLOOR * (1 + np.abs(found))
        size = np.max(np.abs(speed), axis=1)
        loose = (size <= tol) & ~(np.max(error, axis=1) <= accuracy)
        if level == LEVELS or not loose.any():
            break
        sizes = sizes.refined()
    times = (
        np.array([end.time for end in found_ends]),
        np.array([end.evaluations for end in found_ends]),
    )
    longest = np.max(np.linalg.norm(x, axis=2), axis=1)
    status = [
        _status(s, tol, *row)
        for s, *row in zip(size, longest, loose, np.isfinite(found).all(axis=1), strict=True)
    ]
    return Ends(here, error, found, value_error, size, _rates(slopes), status, *times, level)


def _polished(
    model: Model, sizes: NodeSizes, c: jax.Array, fixed: jax.Array, x0: np.ndarray
) -> tuple[np.ndarray, Any, np.ndarray]:
    """Newton's method where the flow rests; a point that it would carry far away or does not
    improve stays where it was.
    """
    x = x0
    probe = lambda at: jax.tree.map(np.asarray, _probe(model, sizes)(c, fixed, jnp.asarray(at)))  # noqa: E731
    (speed, slopes), found = probe(x)
    for _ in range(NEWTON_STEPS):
        size = np.max(np.abs(speed), axis=1)
        moves = (
            (size < SLOW)
            & np.isfinite(size)
            & np.isfinite(slopes).all(axis=(1, 2))
            & (size > 1e-14)
        )
        new = np.array(
            [
                p + gram_descent.newton(v, s).reshape(p.shape) if m else p
                for p, v, s, m in zip(x, speed, slopes, moves, strict=True)
            ]
        )
        near = np.linalg.norm(new - x0, axis=(1, 2)) <= gram_descent.NEAR * (
            1 + np.linalg.norm(x0, axis=(1, 2))
        )
        (new_speed, new_slopes), new_found = probe(np.where(near[:, None, None], new, x))
        better = moves & near & (np.max(np.abs(new_speed), axis=1) < size)
        if not better.any():
            break
        x, speed = (
            np.where(better[:, None, None], new, x),
            np.where(better[:, None], new_speed, speed),
        )
        slopes, found = (
            np.where(better[:, None, None], new_slopes, slopes),
            np.where(better[:, None], new_found, found),
        )
    return x, (speed, slopes), found


def _overlaps(model: Model, x: np.ndarray, fixed: np.ndarray) -> np.ndarray:
    w = np.concatenate([x, np.broadcast_to(fixed, (len(x), *fixed.shape))], axis=1)
    return np.asarray(overlaps_in(model, w @ w.transpose(0, 2, 1)))


def _rates(slopes: np.ndarray) -> np.ndarray:
    """Eigenvalues, falling; NaN where a slope is not finite."""
    return np.array(
        [
            np.linalg.eigvalsh(s)[::-1] if np.isfinite(s).all() else np.full(len(s), np.nan)
            for s in slopes
        ]
    )


def _status(speed: float, tol: float, longest: float, loose: bool, finite: bool) -> Status:
    if not (finite and np.isfinite(speed)):
        return Status.NON_FINITE
    if longest >= EDGE:
        return Status.AT_EDGE
    if not speed <= tol:
        return Status.MAX_STEPS
    return Status.UNRESOLVED if loose else Status.SUCCESSFUL


def bayes_risk(model: Model, values: Mapping[str, float]) -> tuple[float, float] | None:
    """The bound on the risk and its error; None where the teacher is not the one it holds for."""
    usual = {"gamma2": 1.0, "rho_k": 1.0, "rho_v": 1.0, "rho_kv": 0.0}
    if model.bound is None or any(values.get(name, usual[name]) != usual[name] for name in usual):
        return None
    value, error = _bound(model)(controls_of(model, values))
    return float(value), float(error)


@cache
def _bound(model: Model) -> Any:
    expression = model.exact(model.observables[str(model.bound)])
    symbols = [q.symbol for q in model.controls if q.symbol in expression.free_symbols]
    where = [i for i, q in enumerate(model.controls) if q.symbol in symbols]
    return jax.jit(
        lambda c: value_and_error(symbols, expression, [c[i] for i in where]),
        compiler_options=OPTIONS,
    )


def classify(
    status: Status, risk: float, error: float, bound: tuple[float, float] | None
) -> Status:
    """A risk below the Bayes bound is an error, whatever else."""
    below = bound is not None and risk < bound[0] - 2 * (error + bound[1]) - 1e-9
    return Status.BELOW_BAYES if below and np.isfinite(risk) else status


def fixed_points(
    model: Model, values: Mapping[str, float], starts: Mapping[str, np.ndarray], settings: Settings
) -> list[dict[str, Any]]:
    """The ends of the flow from each start (overlaps in order), as the fields of a
    ``solve.Branch``.
    """
    assert model.gram is not None
    if settings.route != "exact":
        raise InputError(f"{model.name} has no sampled route: use route='exact'")
    names, trained = [q.name for q in model.overlaps], model.gram.trained
    at = {name: dict(zip(names, map(float, start), strict=True)) for name, start in starts.items()}
    whole = np.array(
        [
            embedded(model, values, start, f"the overlaps of the start {name!r}")
            for name, start in at.items()
        ]
    )
    accuracy = model.accuracy if settings.accuracy is None else settings.accuracy
    found, bound = (
        ends(model, values, whole[:, :trained], whole[0, trained:], settings.tol, accuracy),
        bayes_risk(model, values),
    )
    return [_entry(model, values, found, i, name, bound) for i, name in enumerate(starts)]


def _entry(
    model: Model,
    values: Mapping[str, float],
    found: Ends,
    i: int,
    name: str,
    bound: tuple[float, float] | None,
) -> dict[str, Any]:
    names = [q.name for q in model.overlaps]
    overlaps, error = (
        dict(zip(names, map(float, row[i]), strict=True)) for row in (found.overlaps, found.error)
    )
    objective, risk = map(float, found.values[i])
    objective_error, risk_error = map(float, found.value_error[i])
    crossed = max(cross_terms(model), key=lambda k: abs(overlaps[k]))
    observables = {
        "risk": risk,
        "excess_risk": risk - values["Delta"],
        "cross": abs(overlaps[crossed]),
        "rate": float(found.rates[i, 0]),
    }
    errors = {
        "risk": risk_error,
        "excess_risk": risk_error,
        "cross": error[crossed],
        "rate": gram_descent.NEUTRAL,
        "free_energy": objective_error,
    }
    if bound is not None:
        observables[str(model.bound)], errors[str(model.bound)] = bound
    return {
        "start": name,
        "overlaps": overlaps,
        "conjugates": {},
        "free_energy": objective,
        "observables": observables,
        "status": classify(found.status[i], risk, risk_error, bound),
        "residual": float(found.speed[i]),
        "error": error | errors,
        "steps": int(found.steps[i]),
        "spectral_radius": float(np.exp(min(found.rates[i, 0], 700.0))),
        "level": found.level,
        "rates": tuple(map(float, found.rates[i])),
    }


def cross_terms(model: Model) -> Sequence[str]:
    """The overlaps that vanish on the manifold."""
    return [q.name for q in model.overlaps if q.symbol in model.observables["cross"].free_symbols]


def describe(branch: Any) -> dict[str, Any]:
    """The JSON entry of one end of the flow (a ``solve.Branch``)."""
    others = {k: v for k, v in branch.observables.items() if k != "rate"}
    error = {
        ("objective" if k == "free_energy" else k): v
        for k, v in branch.error.items()
        if k != "rate"
    }
    return {
        "start": branch.start,
        "overlaps": branch.overlaps,
        "stable": branch.observables["rate"] <= gram_descent.NEUTRAL,
        "rates": list(branch.rates),
        "on_manifold": branch.observables["cross"] <= MANIFOLD,
        "objective": branch.free_energy,
        "observables": others,
        "status": branch.message,
        "residual": branch.residual,
        "error": error,
        "steps": branch.steps,
        "level": branch.level,
    }


def evaluation(
    model: Model, values: Mapping[str, float], at: Mapping[str, float]
) -> dict[str, Any]:
    """What ``solve.evaluate`` returns; ``residual`` is the largest entry of the velocity."""
    assert model.gram is not None
    w = embedded(model, values, at)
    trained = model.gram.trained
    arguments = controls_of(model, values), jnp.asarray(w[trained:]), jnp.asarray(w[None, :trained])
    (speed, _), found = jax.tree.map(np.asarray, _probe(model, first_sizes(model))(*arguments))
    velocity = speed[0].reshape(trained, -1) @ w.T
    rate = np.zeros_like(w)
    rate[:trained] = velocity
    change = np.asarray(overlaps_in(model, rate + rate.T))
    names = [q.name for q in model.overlaps]
    bound = bayes_risk(model, values)
    risk, cross = float(found[0, 1]), max(abs(at[k]) for k in cross_terms(model))
    observables = {"risk": risk, "excess_risk": risk - values["Delta"], "cross": cross}
    return {
        "model": model.name,
        "options": dict(model.options),
        "controls": dict(values),
        "overlaps": {k: float(at[k]) for k in names},
        "objective": float(found[0, 0]),
        "observables": observables | ({str(model.bound): bound[0]} if bound else {}),
        "drift": dict(zip(names, map(float, change), strict=True)),
        "residual": float(np.max(np.abs(speed))),
    }
