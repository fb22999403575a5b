"""Where descent on an objective of the overlaps ends: the fixed points of the flow of a Gram
matrix, from given starts. Everything here runs in double precision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from equations import GradientFlow, Model
from solvers import Status, gram_descent

from ..lowering.lower import error_from, value_and_error
from ..lowering.node_sizes import NodeSizes
from ..runtime.programs import Program
from .base import Branch, Settings, Starts, Theory, merged, substitution
from .classify import Measured, violated
from .gram_field import (
    EDGE,
    OPTIONS,
    embedded,
    first_sizes,
    gram_flow,
    overlaps_in,
    probed,
    value_names,
)

LEVELS = 2
"""How often node sets are refined before an end is called unresolved."""
SLOW = 1e-4
"""Newton's method is tried where the flow is slower than this when its time is up."""
NEWTON_STEPS = 20
MANIFOLD = 1e-6
"""Overlaps below it vanish."""
RATE = "rate"
"""The growth rate of a deviation, reported among the observables."""


class DescentOfVectors(Theory):
    """Ends of the flow of vectors on an objective of their Gram matrix."""

    record: GradientFlow
    entries: ClassVar[str] = "fixed_points"
    objective: ClassVar[tuple[str, str, str]] = ("J", "dJ/d", "")
    energy_is_shown: ClassVar[bool] = False

    def solve(
        self,
        starts: Starts,
        values: Mapping[str, float],
        settings: Settings,
        nodes: NodeSizes | None,
    ) -> list[Branch]:
        if settings.route != "exact":
            self._refuse("has no sampled route: use route='exact'")
        model, trained = self.model, self.record.gram.trained
        names, whole = [q.name for q in model.overlaps], []
        for name, start in starts.items():
            at = dict(zip(names, map(float, self.start_vector(start, values)), strict=True))
            whole.append(embedded(model, values, at, f"the overlaps of the start {name!r}"))
        vectors, fixed = np.array(whole)[:, :trained], whole[0][trained:]
        accuracy = model.accuracy if settings.accuracy is None else settings.accuracy
        found = ends(model, values, vectors, fixed, settings.tol, accuracy, nodes)
        still = constants(model, values)
        return merged([self._branch(found, i, name, still) for i, name in enumerate(starts)])

    def evaluate(
        self, at: Mapping[str, float], values: Mapping[str, float], nodes: NodeSizes | None
    ) -> dict[str, Any]:
        model, names = self.model, [q.name for q in self.model.overlaps]
        w, trained = embedded(model, values, at), self.record.gram.trained
        sizes = nodes or first_sizes(model)
        c, fixed = jnp.asarray(self.control_vector(values)), jnp.asarray(w[trained:])
        (speed, _), found = probed(model, sizes, c, fixed, w[None, :trained])
        rate = np.zeros_like(w)
        rate[:trained] = speed[0].reshape(trained, -1) @ w.T
        change = np.asarray(overlaps_in(model, rate + rate.T))
        observables = dict(zip(value_names(model), map(float, found[0, 1:]), strict=True))
        name, crossed = model.with_role("off_manifold"), self._crossed(at)
        if name is not None and crossed is not None:
            observables[name] = abs(at[crossed])
        observables |= {name: value for name, (value, _) in constants(model, values).items()}
        return {
            "model": model.name,
            "options": dict(model.options),
            "controls": dict(values),
            "overlaps": {k: float(at[k]) for k in names},
            "objective": float(found[0, 0]),
            "observables": observables,
            "drift": dict(zip(names, map(float, change), strict=True)),
            "residual": float(np.max(np.abs(speed))),
        }

    def check(self) -> None:
        gram_flow(self.model, first_sizes(self.model))

    def describe(self, branch: Branch) -> dict[str, Any]:
        error = {k: v for k, v in branch.error.items() if k not in (RATE, "free_energy")}
        entry = {
            "start": branch.start,
            "overlaps": branch.overlaps,
            "stable": branch.observables[RATE] <= gram_descent.NEUTRAL,
            "rates": list(branch.rates),
            "objective": branch.free_energy,
            "observables": {k: v for k, v in branch.observables.items() if k != RATE},
            "status": branch.message,
            "residual": branch.residual,
            "error": error | {"objective": branch.error["free_energy"]},
            "steps": branch.steps,
            "level": branch.level,
        }
        name = self.model.with_role("off_manifold")
        if name is not None:
            entry["on_manifold"] = branch.observables[name] <= MANIFOLD
        return entry

    def _instead(self) -> str:
        return "use solve, which follows a gradient flow from each start to its end"

    def _crossed(self, overlaps: Mapping[str, float]) -> str | None:
        """The largest of the overlaps that vanish on the manifold."""
        return max(self.record.manifold, key=lambda k: abs(overlaps[k]), default=None)

    def _branch(self, found: Ends, i: int, start: str, still: Measured) -> Branch:
        """One end with names."""
        names, known = [q.name for q in self.model.overlaps], value_names(self.model)
        overlaps = dict(zip(names, map(float, found.overlaps[i]), strict=True))
        error = dict(zip(names, map(float, found.error[i]), strict=True))
        values, errors = (list(map(float, row[i])) for row in (found.values, found.value_error))
        seen = dict(zip(known, zip(values[1:], errors[1:], strict=True), strict=True))
        name, crossed = self.model.with_role("off_manifold"), self._crossed(overlaps)
        if name is not None and crossed is not None:
            seen[name] = abs(overlaps[crossed]), error[crossed]
        seen |= still
        rate = float(found.rates[i, 0])
        observables = {name: value for name, (value, _) in seen.items()} | {RATE: rate}
        error |= {name: e for name, (_, e) in seen.items()}
        return Branch(
            start=start,
            overlaps=overlaps,
            conjugates={},
            free_energy=values[0],
            observables=observables,
            status=judged(self.model, found.status[i], seen),
            residual=float(found.speed[i]),
            error=error | {RATE: gram_descent.NEUTRAL, "free_energy": errors[0]},
            steps=int(found.steps[i]),
            spectral_radius=float(np.exp(min(rate, 700.0))),
            level=found.level,
            rates=tuple(map(float, found.rates[i])),
        )


def judged(model: Model, status: Status, seen: Measured) -> Status:
    """A risk below the Bayes bound is an error, whatever else."""
    found = violated(model, "resolved", seen)
    return status if found is Status.SUCCESSFUL else found


def constants(model: Model, values: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """The observables that do not depend on the overlaps, where they are defined, with errors."""
    x = {q.symbol for q in model.overlaps}
    at = substitution(model, values)
    c = jnp.asarray([values[q.name] for q in model.controls], dtype=float)
    found = {}
    for name, observable in model.observables.items():
        defined = bool(observable.where.subs(at))
        if defined and not observable.expr.free_symbols & x:
            value, error = _constant(model, name)(c)
            found[name] = float(value), float(error)
    return found


@cache
def _constant(model: Model, name: str) -> Any:
    """controls -> an observable of the controls alone, and its error."""
    expression = model.theory.rewrite(model.expressions[name])
    symbols = [q.symbol for q in model.controls if q.symbol in expression.free_symbols]
    where = [i for i, q in enumerate(model.controls) if q.symbol in symbols]
    return Program(lambda c: value_and_error(symbols, expression, [c[i] for i in where]), OPTIONS)


@dataclass(frozen=True)
class Ends:
    """Where flows ended, one entry per start.

    Attributes
    ----------
    overlaps, error : array (starts, overlaps)
    values, value_error : array (starts, 1 + observables)
        The objective first.
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
    c = jnp.asarray([values[q.name] for q in model.controls], dtype=float)
    still = jnp.asarray(fixed)
    found_ends = gram_flow(model, sizes).ends(c, still, vectors)
    x = np.array([end.x for end in found_ends])
    for level in range(LEVELS + 1):
        x, (speed, slopes), found = _polished(model, sizes, c, still, x)
        (other_speed, _), other = probed(model, sizes.shifted(), c, still, x)
        here = _overlaps(model, x, fixed)
        pairs = zip(other_speed, slopes, strict=True)
        shift = np.stack([gram_descent.newton(v, s).reshape(x.shape[1:]) for v, s in pairs])
        error = error_from(_overlaps(model, x + shift, fixed), here)
        value_error = error_from(other, found)
        size = np.max(np.abs(speed), axis=1)
        loose = (size <= tol) & ~(np.max(error, axis=1) <= accuracy)
        if level == LEVELS or not loose.any():
            break
        sizes = sizes.refined()
    time = np.array([end.time for end in found_ends])
    steps = np.array([end.evaluations for end in found_ends])
    longest, finite = np.max(np.linalg.norm(x, axis=2), axis=1), np.isfinite(found).all(axis=1)
    rows = zip(size, longest, loose, finite, strict=True)
    status = [_status(s, tol, *row) for s, *row in rows]
    return Ends(here, error, found, value_error, size, _rates(slopes), status, time, steps, level)


def _polished(
    model: Model, sizes: NodeSizes, c: jax.Array, fixed: jax.Array, x0: np.ndarray
) -> tuple[np.ndarray, Any, np.ndarray]:
    """Newton's method where the flow rests; a point that it would carry far away or does not
    improve stays where it was.
    """

    x, reach = x0, gram_descent.NEAR * (1 + np.linalg.norm(x0, axis=(1, 2)))
    (speed, slopes), found = probed(model, sizes, c, fixed, x)
    for _ in range(NEWTON_STEPS):
        size = np.max(np.abs(speed), axis=1)
        moves = (size < SLOW) & (size > 1e-14) & np.isfinite(slopes).all(axis=(1, 2))
        new = np.array(x)
        for k in np.flatnonzero(moves):
            new[k] += gram_descent.newton(speed[k], slopes[k]).reshape(x[k].shape)
        near = np.linalg.norm(new - x0, axis=(1, 2)) <= reach
        tried = np.where(near[:, None, None], new, x)
        (new_speed, new_slopes), new_found = probed(model, sizes, c, fixed, tried)
        better = moves & near & (np.max(np.abs(new_speed), axis=1) < size)
        if not better.any():
            break
        x = np.where(better[:, None, None], new, x)
        speed = np.where(better[:, None], new_speed, speed)
        slopes = np.where(better[:, None, None], new_slopes, slopes)
        found = np.where(better[:, None], new_found, found)
    return x, (speed, slopes), found


def _overlaps(model: Model, x: np.ndarray, fixed: np.ndarray) -> np.ndarray:
    w = np.concatenate([x, np.broadcast_to(fixed, (len(x), *fixed.shape))], axis=1)
    return np.asarray(overlaps_in(model, w @ w.transpose(0, 2, 1)))


def _rates(slopes: np.ndarray) -> np.ndarray:
    """Eigenvalues, falling; NaN where a slope is not finite."""
    rates = np.full(slopes.shape[:2], np.nan)
    for i, slope in enumerate(slopes):
        if np.isfinite(slope).all():
            rates[i] = np.linalg.eigvalsh(slope)[::-1]
    return rates


def _status(speed: float, tol: float, longest: float, loose: bool, finite: bool) -> Status:
    if not (finite and np.isfinite(speed)):
        return Status.NON_FINITE
    if longest >= EDGE:
        return Status.AT_EDGE
    if not speed <= tol:
        return Status.MAX_STEPS
    return Status.UNRESOLVED if loose else Status.SUCCESSFUL
