"""Fixed points of a flow on the sphere, dx/dt = (1 - x^2) force(x): both ends, and the zeros of the
force between them.

The rate of a fixed point is d(drift)/dx there: a deviation grows as e^{rate t}, so the point
attracts if it is negative. Everything here runs in double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, ClassVar, cast

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp

from equations import Model, ModelError, SphereFlow
from solvers import Status, ode

from ..errors import InputError
from ..lowering.lower import FLOOR
from ..lowering.node_sizes import NodeSizes
from ..runtime.programs import Program
from .base import Branch, Settings, Starts, Theory
from .equations import CompiledEquations

INTERIOR = "interior"
RATE = "rate"
"""The growth rate of a deviation, reported among the observables."""
DERIVED = "derived drift"
"""Of a model that names no drift: (1 - x^2) dPhi/dx, upwards or downwards."""
Drift = Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array, jax.Array]]
"""(controls, x of any shape) -> drift, its derivative, and the force drift/(1 - x^2)."""


class FlowOnSphere(Theory):
    """Fixed points of a flow of one overlap."""

    record: SphereFlow
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
        name = followed_drift(self.model, values)[0]
        c, at = jnp.asarray(self.control_vector(values)), compiled_drift(self.model, name)
        try:
            inside = ode.zeros(lambda x: np.asarray(at(c, jnp.asarray(x))[2]), -1.0, 1.0)
        except ValueError as problem:
            raise InputError(
                f"{self.model.name} cannot be solved in floating point at these controls"
                f" ({problem}): bring them closer to 1"
            ) from None
        low, high = (self._pole(end) for end in (-1.0, 1.0))
        between = [(f"{INTERIOR} {i + 1}" if i else INTERIOR, x) for i, x in enumerate(inside)]
        places = [(low, -1.0), *between, (high, 1.0)]
        return [self._branch(values, at, c, settings.tol, start, x) for start, x in places]

    def evaluate(
        self, at: Mapping[str, float], values: Mapping[str, float], nodes: NodeSizes | None
    ) -> dict[str, Any]:
        model, name = self.model, followed_drift(self.model, values)[0]
        x, c = float(at[model.overlaps[0].name]), jnp.asarray(self.control_vector(values))
        drift = float(compiled_drift(model, name)(c, jnp.asarray(x))[0])
        return {
            "model": model.name,
            "options": dict(model.options),
            "controls": dict(values),
            "overlaps": {k: float(v) for k, v in at.items()},
            "objective": self._energy(c, x),
            "observables": self._observables(values, x),
            "residual": abs(drift),
        }

    def check(self) -> None:
        drifts = self.record.drifts
        for drift, objective in drifts:
            for name in (drift, objective):
                if name not in self.model.observables:
                    raise ModelError(
                        f"model {self.model.name}: SphereFlow names {name}, which is no observable"
                    )
        if len(self.model.overlaps) != 1:
            raise ModelError(f"model {self.model.name}: a flow on a sphere has one overlap")
        for name in [drift for drift, _ in drifts] or [DERIVED]:
            drift_of(self.model, name)

    def describe(self, branch: Branch) -> dict[str, Any]:
        rate = branch.observables[RATE]
        error = {k: v for k, v in branch.error.items() if k != "free_energy"}
        return {
            **branch.overlaps,
            "stable": rate < 0,
            "rate": rate,
            "objective": branch.free_energy,
            "observables": {k: v for k, v in branch.observables.items() if k != RATE},
            "status": branch.status.value,
            "residual": branch.residual,
            "error": error | {"objective": branch.error["free_energy"]},
        }

    def _instead(self) -> str:
        return "use solve, which lists the fixed points of a flow on a sphere at one point"

    def _pole(self, end: float) -> str:
        """The name of the start at one end."""
        (x,) = self.model.overlaps
        names = [name for name, start in self.model.starts.items() if start[x.name] == end]
        return names[0] if names else f"{x.name} = {end:+g}"

    def _branch(
        self,
        values: Mapping[str, float],
        at: Drift,
        c: jax.Array,
        tol: float,
        start: str,
        x: float,
    ) -> Branch:
        (overlap,) = (q.name for q in self.model.overlaps)
        drift, rate, _ = (float(v) for v in at(c, jnp.asarray(x)))
        found = self._observables(values, x) | {RATE: rate}
        objective = followed_drift(self.model, values)[1]
        energy = found[objective] if objective else self._energy(c, x)
        place = np.inf
        if abs(x) == 1:
            place = 0.0
        elif rate:
            place = (abs(drift) + FLOOR) / abs(rate)
        status = Status.SUCCESSFUL if abs(drift) <= tol else Status.MAX_STEPS
        if not np.isfinite([x, drift, *found.values()]).all():
            status = Status.NON_FINITE
        error = {name: FLOOR * (1 + abs(v)) for name, v in found.items()}
        return Branch(
            start=start,
            overlaps={overlap: x},
            conjugates={},
            free_energy=energy,
            observables=found,
            status=status,
            residual=abs(drift),
            error=error | {overlap: place, "free_energy": FLOOR * (1 + abs(energy))},
            steps=1,
            spectral_radius=float(np.exp(min(rate, 700.0))),
        )

    def _observables(self, values: Mapping[str, float], x: float) -> dict[str, float]:
        """What is defined at the overlap ``x``."""
        c = jnp.asarray(self.control_vector(values))
        numbers = _observed(self.model)(c, jnp.asarray([x]))
        everything = dict(zip(self.model.observables, map(float, numbers), strict=True))
        return {name: everything[name] for name in defined(self.model, values)}

    def _energy(self, c: jax.Array, x: float) -> float:
        return float(_channel(self.model)(c, jnp.asarray([x])))


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
    missing, known = undefined(model, values), model.expressions.items()
    return [name for name, expr in known if not missing & {str(s) for s in expr.free_symbols}]


def followed_drift(model: Model, values: Mapping[str, float]) -> tuple[str, str | None]:
    """Names of the drift that the flow follows and of the objective it belongs to: the first pair
    that is defined; None for the free energy itself.
    """
    here = defined(model, values)
    for drift, objective in cast(SphereFlow, model.theory).drifts:
        if drift in here and objective in here:
            return drift, objective
    return DERIVED, None


def _drift(model: Model, name: str) -> sp.Expr:
    """The drift as an expression that can be evaluated."""
    rewrite = model.theory.rewrite
    if name != DERIVED:
        return rewrite(model.expressions[name])
    (x,) = (q.symbol for q in model.overlaps)
    upwards = 1 if model.best == "largest" else -1
    return upwards * (1 - x**2) * rewrite(model.channel).diff(x)


@cache
def drift_of(model: Model, name: str) -> Drift:
    """The drift ``name`` as a function of controls and overlap."""
    (x,), equations = (q.symbol for q in model.overlaps), CompiledEquations(model, NodeSizes())
    drift = _drift(model, name)
    # The factor 1 - x^2 cancels symbolically.
    parts = {"drift": drift, "slope": drift.diff(x), "force": drift / (1 - x**2)}
    lowered = equations.lower(parts, [x])

    def at(c: jax.Array, point: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        binding = equations.binding(c)

        def one(p: jax.Array) -> tuple[jax.Array, ...]:
            return tuple(lowered.bind(p[None], *binding)(None).values())

        return jnp.vectorize(one, signature="()->(),(),()")(point)

    return at


@cache
def compiled_drift(model: Model, name: str) -> Any:
    """``drift_of``, compiled."""
    return Program(drift_of(model, name))


@cache
def _observed(model: Model) -> Any:
    return Program(CompiledEquations(model, NodeSizes()).observables)


@cache
def _channel(model: Model) -> Any:
    equations = CompiledEquations(model, NodeSizes())
    group = equations.group(["channel"])
    return Program(lambda c, x: group.at(x, equations.binding(c))["channel"][0])
