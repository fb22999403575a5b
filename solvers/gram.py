r"""Descent of a few vectors on an objective of their Gram matrix, in the space that they and the fixed ones span.

    dw_a/dt = -sum_b H_ab(G) w_b,     G = W W^T,     W: trained vectors first, then the fixed ones

The vectors need no more dimensions than there are of them, and a Gram matrix of vectors is one: descent never leaves the cone.
H is symmetric in its effect: dw/dt is minus a gradient, so that the rates at a fixed point are real.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

Forces = Callable[[jax.Array], jax.Array]
"""G, shape (n, n) -> the rows of H that belong to trained vectors, shape (trained, n)."""
STEP = 1e-4
"""Of the central differences for the slope of the velocity: their error is about 1e-8."""
NEUTRAL = 1e-7
"""A rate below it is zero: the differences know no better."""
TOLERANCE = 1e-8
"""Local error of the flow."""
SPAN = 20.0
"""Time after which it is looked whether the flow still moves."""
REST = 1e-6
"""A flow that moves less than this during ``SPAN`` rests."""
MOST_STEPS = 1500
"""In all; a flow that needs more is stiff, or never rests."""
NEAR = 1e-2
"""Newton's method may move a point by this fraction of its size; beyond, it would have gone to another one."""


class End(NamedTuple):
    """Where a flow ended: trained vectors, how far they moved in the last ``SPAN``, the time, and the steps taken."""

    x: jax.Array
    moved: jax.Array
    time: jax.Array
    steps: jax.Array


def vectors(gram: np.ndarray) -> np.ndarray | None:
    """Vectors (rows) of a Gram matrix, the last ones along the first axes; None if there are none."""
    n = len(gram)
    order = np.arange(n)[::-1]
    wanted, w = gram[np.ix_(order, order)], np.zeros((n, n))
    for i in range(n):
        for j in range(i):
            w[i, j] = (wanted[i, j] - w[i, :j] @ w[j, :j]) / w[j, j] if w[j, j] > 0 else 0.0
        rest = wanted[i, i] - w[i, :i] @ w[i, :i]
        w[i, i] = np.sqrt(rest) if rest > 1e-14 * max(wanted[i, i], 1e-300) else 0.0
    found = w[order]
    return found if np.all(np.abs(found @ found.T - gram) <= 1e-10 * (1 + np.abs(gram))) else None


def velocity(forces: Forces, fixed: jax.Array, x: jax.Array) -> jax.Array:
    """dw_a/dt of the trained vectors ``x``."""
    w = jnp.concatenate([x, fixed])
    return -forces(w @ w.T) @ w


def step(forces: Forces, fixed: jax.Array, x: jax.Array, size: jax.Array) -> jax.Array:
    """One step of gradient descent, of a size for each vector."""
    return x + size[:, None] * velocity(forces, fixed, x)


def step_on_spheres(forces: Forces, fixed: jax.Array, x: jax.Array, size: jax.Array) -> jax.Array:
    """One step of projected gradient descent: along the sphere of each vector, then back to it."""
    speed, square = velocity(forces, fixed, x), jnp.sum(x**2, axis=1, keepdims=True)
    moved = x + size[:, None] * (speed - jnp.sum(speed * x, axis=1, keepdims=True) / square * x)
    return moved * jnp.sqrt(square / jnp.sum(moved**2, axis=1, keepdims=True))


def settle(forces: Forces, fixed: jax.Array, x0: jax.Array, latest: float | jax.Array, edge: float) -> End:
    """The flow from ``x0`` until it rests, time is up, or a vector is longer than ``edge``."""

    def span(now: End) -> End:
        run = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, x, args: velocity(forces, fixed, x)), diffrax.Tsit5(), t0=0.0, t1=SPAN, dt0=0.01, y0=now.x,
            stepsize_controller=diffrax.PIDController(rtol=TOLERANCE, atol=TOLERANCE), max_steps=MOST_STEPS // 5, throw=False, saveat=diffrax.SaveAt(t1=True),
        )  # fmt: skip
        assert run.ys is not None and run.ts is not None
        x = run.ys[-1]
        return End(x, jnp.max(jnp.abs(x - now.x)), now.time + run.ts[-1], now.steps + run.stats["num_steps"])

    def moving(now: End) -> jax.Array:
        longest = jnp.max(jnp.linalg.norm(now.x, axis=1))
        return (now.moved > REST) & (now.time < latest) & (now.steps < MOST_STEPS) & (longest < edge) & jnp.all(jnp.isfinite(now.x))

    return jax.lax.while_loop(moving, span, End(x0, jnp.asarray(jnp.inf), jnp.asarray(0.0), jnp.asarray(0)))


def slope(forces: Forces, fixed: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The velocity at ``x``, flattened, and its slope d velocity/dx.

    By central differences: automatic derivatives fail where a variance vanishes. Made symmetric, as a matrix of second derivatives is.
    """
    moves = STEP * jnp.eye(x.size)
    at = jax.lax.map(lambda move: velocity(forces, fixed, x + move.reshape(x.shape)).ravel(), jnp.concatenate([0 * moves[:1], moves, -moves]))
    differences = (at[1 : x.size + 1] - at[x.size + 1 :]) / (2 * STEP)
    return at[0], (differences + differences.T) / 2


def newton(speed: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """The step to where the velocity vanishes, across flat directions only."""
    values, directions = np.linalg.eigh(slope)
    steep = np.abs(values) > NEUTRAL
    return -directions[:, steep] @ ((directions[:, steep].T @ speed) / values[steep])
