r"""Descent of a few vectors on an objective of their Gram matrix, in the space that they and the
fixed ones span.

    dw_a/dt = -sum_b H_ab(G) w_b,     G = W W^T,     W: trained vectors first, then the fixed ones

The vectors need no more dimensions than there are of them, and a Gram matrix of vectors is one:
descent never leaves the cone. H is symmetric in its effect: dw/dt is minus a gradient, so that the
rates at a fixed point are real.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

Forces = Callable[[jax.Array], jax.Array]
"""G, shape (n, n) -> the rows of H that belong to trained vectors, shape (trained, n)."""
STEP = 1e-4
"""Of the central differences for the slope of the velocity: their error is about 1e-8."""
NEUTRAL = 1e-7
"""A rate below it is zero: the differences know no better."""
REST = 1e-6
"""A flow slower than this rests; Newton's method takes over."""
PAUSES = np.array([0.1, 0.2, 0.4, 0.7, 1.0])
"""Parts of the longest time after which it is looked whether the flow rests."""
TOLERANCE = 1e-7
"""Relative local error of the flow; Newton's method makes up for it where it ends."""
MOST_EVALUATIONS = 20_000
NEAR = 1e-2
"""Newton's method may move a point by this fraction of its size; beyond, it would have gone to
another one.
"""
ZERO = 1e-15
"""An eigenvalue of a Gram matrix below this share of their sum is zero."""


class _TooMany(Exception):
    """The velocity was evaluated more than ``MOST_EVALUATIONS`` times."""


class End(NamedTuple):
    """Where a flow ended: trained vectors, the time, and the evaluations of the velocity."""

    x: np.ndarray
    time: float
    evaluations: int


def vectors(gram: np.ndarray) -> np.ndarray | None:
    """Vectors (rows) of a Gram matrix, the last ones along the first axes; None if
    there are none.
    """
    order = np.arange(len(gram))[::-1]
    # Not by Cholesky's method: vectors that nearly depend on one another would lose half their
    # digits. What rounding makes of a zero eigenvalue would be a direction of its own.
    values, basis = np.linalg.eigh(gram[np.ix_(order, order)])
    values = np.where(values > ZERO * np.sum(np.abs(values)), values, 0.0)
    upper = np.linalg.qr((basis * np.sqrt(values)).T).R
    found = (upper * np.where(np.diag(upper) < 0, -1.0, 1.0)[:, None]).T[order]
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


def flow_from(
    velocity: Callable[[np.ndarray], np.ndarray], x0: np.ndarray, latest: float, edge: float
) -> End:
    """The flow from ``x0`` until it rests, time is up, a vector is longer than ``edge``, or too
    many evaluations were needed.

    Fast and slow directions differ by orders of magnitude (LSODA turns to implicit steps by
    itself).
    """
    from scipy.integrate import solve_ivp  # start-up time

    count, y, time = 0, x0.ravel(), 0.0

    def flat(t: float, y: np.ndarray) -> np.ndarray:
        nonlocal count
        count += 1
        if count > MOST_EVALUATIONS:
            raise _TooMany
        return velocity(y.reshape(x0.shape)).ravel()

    def short(t: float, y: np.ndarray) -> float:
        return edge - float(np.max(np.linalg.norm(y.reshape(x0.shape), axis=1)))

    short.terminal = True  # type: ignore[attr-defined]
    try:
        for until in latest * PAUSES:
            run = solve_ivp(
                flat,
                (time, until),
                y,
                method="LSODA",
                rtol=TOLERANCE,
                atol=TOLERANCE / 100,
                events=short,
            )
            y, time = run.y[:, -1], float(run.t[-1])
            if run.status != 0 or not np.max(np.abs(flat(time, y))) > REST:
                break
    except _TooMany:  # the point at the last pause is kept
        count = MOST_EVALUATIONS
    return End(y.reshape(x0.shape), time, count)


def slope(forces: Forces, fixed: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The velocity at ``x``, flattened, and its slope d velocity/dx.

    By central differences: automatic derivatives fail where a variance vanishes. Made symmetric, as
    a matrix of second derivatives is.
    """
    moves = STEP * jnp.eye(x.size)
    at = jax.lax.map(
        lambda move: velocity(forces, fixed, x + move.reshape(x.shape)).ravel(),
        jnp.concatenate([0 * moves[:1], moves, -moves]),
    )
    differences = (at[1 : x.size + 1] - at[x.size + 1 :]) / (2 * STEP)
    return at[0], (differences + differences.T) / 2


def newton(speed: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """The step to where the velocity vanishes, across flat directions only."""
    values, directions = np.linalg.eigh(slope)
    steep = np.abs(values) > NEUTRAL
    return -directions[:, steep] @ ((directions[:, steep].T @ speed) / values[steep])
