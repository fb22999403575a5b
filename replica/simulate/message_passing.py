r"""Approximate message passing for Bayes-optimal single-location regression.

    omega_a = X w_a/sqrt(D) - V_a g_a,     g_a = d log Z_out/d omega_a,
    A_k = sum c_k/D,  A_v = sum g_v^2/D
    w_a <- (X^T g_a/sqrt(D) + A_a w_a)/P_a,     V_a <- 1/P_a,
    P_k = 1 + alpha nu + A_k,  P_v = 1 + A_v

g and c = -dg/d omega are derived from the channel of the model (``posterior``). E[c] = E[g^2]
(Nishimori) for both; the mean of c is used for the key, where the two coincide, and that of g^2 for
the value, where c has outliers at low noise that keep a finite system from settling. alpha nu comes
from the factor exp(-nu |k|^2/(2D)) of each sample of spiked data; the max rule has no such term.

Damping averages g and A over steps, and the same average enters w and the reaction term V_a g_a: so
what a sample hears of itself still cancels. (Averaging w instead leaves a part of it, and single
samples of steep g then oscillate for ever.) Source: theory.md section 6.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from threadpoolctl import threadpool_limits

from . import measure
from .data import Data
from .defaults import DAMPING, MAX_STEPS
from .posterior import Posterior

TOLERANCE = 1e-5


class Settled(enum.Enum):
    """How message passing ended."""

    CONVERGED = "converged"
    MAX_STEPS = (
        "not converged: the largest number of steps was reached, use more damping or more steps"
    )
    NON_FINITE = "not converged: the messages are not finite"


@dataclass(frozen=True)
class Messages:
    """Estimates and posterior variances, overlaps at every step (path[name][t], t = 0 the start),
    the last undamped change, how it ended.
    """

    k: np.ndarray
    v: np.ndarray
    V: np.ndarray
    path: dict[str, np.ndarray]
    change: float
    status: Settled

    @property
    def steps(self) -> int:
        return len(self.path["m_k"]) - 1


def run(
    data: Data,
    known: Posterior,
    start: str = "uninformed",
    damping: float = DAMPING,
    steps: int = MAX_STEPS,
    tol: float = TOLERANCE,
) -> Messages:
    """Iterate from "uninformed" (zero) or "informed" (the teacher) messages; ``tol`` is on the root
    mean square change of w over 1 - damping.
    """
    with threadpool_limits(1, "blas"):
        return _run(data, known, start == "informed", damping, steps, tol)


def _run(
    data: Data, known: Posterior, informed: bool, damping: float, steps: int, tol: float
) -> Messages:
    w = np.stack([data.k_star, data.v_star]) * (1.0 if informed else 0.0)
    V = np.array([0.0, 0.0] if informed else [1.0, 1.0])
    prior = np.array([1 + known.confinement, 1.0])
    g, A = np.zeros((2, data.L, data.N)), np.zeros(2)
    path, change, status = [measure.overlaps(data, *w)], np.inf, Settled.MAX_STEPS
    for step in range(steps):
        keep = damping if step else 0.0
        omega = np.stack(data.fields(*w)) - V[:, None, None] * g
        g_k, g_v, curvature = known.channel(*omega, data.y, data.present, *V)
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
    return Messages(
        *w, V, {name: np.array([p[name] for p in path]) for name in path[0]}, change, status
    )
