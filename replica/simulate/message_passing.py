r"""Approximate message passing for Bayes-optimal single-location regression (spiked data).

    omega_a = X w_a/sqrt(D) - V_a g_a,   g_a = d log Z_out/d omega_a,   A_k = sum c_k/D,  A_v = sum g_v^2/D
    w_a <- (X^T g_a/sqrt(D) + A_a w_a)/P_a,   V_a <- 1/P_a,   P_k = 1 + alpha nu + A_k,  P_v = 1 + A_v

g and c = -dg/d omega are derived from the channel of the model (``equations.output``). E[c] = E[g^2] (Nishimori) for both; the mean of c
is used for the key, where the two coincide, and that of g^2 for the value, where c has outliers at low noise that keep a finite system from
settling. alpha nu comes from the factor exp(-nu |k|^2/(2D)) of each sample.

Damping averages g and A over steps, and the same average enters w and the reaction term V_a g_a: so what a sample hears of itself still
cancels. (Averaging w instead leaves a part of it, and single samples of steep g then oscillate for ever.) Source: theory.md section 6.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from threadpoolctl import threadpool_limits

from equations import Model
from equations.output import output, symbols

from ..lower import function
from . import measure
from .data import Data

TOLERANCE = 1e-5
MAX_STEPS = 500
DAMPING = 0.3


class Settled(enum.Enum):
    """How message passing ended."""

    CONVERGED = "converged"
    MAX_STEPS = "not converged: the largest number of steps was reached"
    NON_FINITE = "not converged: the messages are not finite"


@dataclass(frozen=True)
class Messages:
    """Estimates, their overlaps at every step (path[name][t], t = 0 the start), the last undamped change, and how it ended."""

    k: np.ndarray
    v: np.ndarray
    path: dict[str, np.ndarray]
    change: float
    status: Settled

    @property
    def steps(self) -> int:
        return len(self.path["m_k"]) - 1


Channel = Callable[..., tuple[jax.Array, jax.Array, jax.Array]]
"""(omega_k, omega_v of shape (L, N), y, V_k, V_v) -> g_k, g_v of that shape, and sum c_k."""


def channel(model: Model, values: Mapping[str, float]) -> Channel:
    """The output functions of ``model``, compiled."""
    derived, names = output(model), symbols(model)
    exponent, g_k, g_v, c_k = (function(names, e) for e in (derived.exponent, derived.forces["k"], derived.forces["v"], derived.curvatures["k"]))
    controls = [values[q.name] for q in model.controls]

    @jax.jit
    def evaluate(omega_k: jax.Array, omega_v: jax.Array, y: jax.Array, V_k: Any, V_v: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
        overlaps = (1 - V_k, 1 - V_v)
        others = _others(exponent(omega_k, omega_v, y, 0.0, *overlaps, *controls))
        at = (omega_k, omega_v, y, others, *overlaps, *controls)
        return g_k(*at), g_v(*at), jnp.sum(c_k(*at))

    return evaluate


def _others(a: jax.Array) -> jax.Array:
    """log sum_{l' != l} exp(a_l') over the first axis, nothing cancelling: the largest term is left out explicitly where it is l."""
    top = jax.nn.one_hot(a.argmax(axis=0), a.shape[0], axis=0, dtype=bool)
    total = jax.nn.logsumexp(a, axis=0)
    without_top = jax.nn.logsumexp(jnp.where(top, -jnp.inf, a), axis=0)
    share = jnp.where(top, 0.0, jnp.exp(a - total))  # at most 1/2
    return jnp.where(top, without_top, total + jnp.log1p(-share))


def run(
    data: Data, evaluate: Channel, alpha: float, nu: float, start: str = "uninformed", damping: float = DAMPING, steps: int = MAX_STEPS,
    tol: float = TOLERANCE,
) -> Messages:  # fmt: skip
    """Iterate from "uninformed" (zero) or "informed" (the teacher) messages; ``tol`` is on the root mean square change of w over 1 - damping."""
    with threadpool_limits(1, "blas"):
        return _run(data, evaluate, alpha, nu, start == "informed", damping, steps, tol)


def _run(data: Data, evaluate: Channel, alpha: float, nu: float, informed: bool, damping: float, steps: int, tol: float) -> Messages:
    w = np.stack([data.k_star, data.v_star]) * (1.0 if informed else 0.0)
    V = np.array([0.0, 0.0] if informed else [1.0, 1.0])
    prior = np.array([1 + alpha * nu, 1.0])
    g, A = np.zeros((2, data.L, data.N)), np.zeros(2)
    path, change, status = [measure.overlaps(data, *w)], np.inf, Settled.MAX_STEPS
    for step in range(steps):
        keep = damping if step else 0.0
        omega = np.stack(data.fields(*w)) - V[:, None, None] * g
        g_k, g_v, curvature = evaluate(*omega, data.y, *V)
        A = (1 - keep) * np.array([float(curvature), float(jnp.sum(g_v**2))]) / data.D + keep * A
        g = (1 - keep) * np.stack([np.asarray(g_k), np.asarray(g_v)]) + keep * g
        V = 1 / (prior + A)
        moved = (np.stack(data.back(*g)) + A[:, None] * w) * V[:, None]
        change = float(np.sqrt(np.mean((moved - w) ** 2))) / (1 - keep)
        w = moved
        path.append(measure.overlaps(data, *w))
        if not np.isfinite(change):
            status = Settled.NON_FINITE
            break
        if change <= tol:
            status = Settled.CONVERGED
            break
    return Messages(*w, {name: np.array([p[name] for p in path]) for name in path[0]}, change, status)
