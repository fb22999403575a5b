r"""Accelerators: Anderson's method with a safeguard, and Newton's on F(x) - x = 0 for few unknowns.

    Anderson   x+ = F(x) - sum_j gamma_j (dF_j),     gamma = argmin |r - sum_j gamma_j dr_j|,
    r = F(x) - x
    Newton     x+ = x + (1 - J)^{-1} (F(x) - x)

the first over the last ``memory`` differences. A candidate of it that leaves the domain, is not
finite, or whose residual exceeds ten times the best so far is replaced by a plain step and the
memory is emptied.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from .fixed_point import Box, Map, converged, everywhere
from .result import RUNNING, Iteration, Status


def anderson(
    f: Map,
    start: Iteration,
    *,
    tol: float | jax.Array,
    max_steps: int | jax.Array,
    memory: int | None = None,
    box: Box | None = None,
) -> Iteration:
    """Accelerate the fixed-point iteration of ``f`` from an iterate of ``fixed_point``.

    It polishes: it does not choose a branch, and may jump to another one; the caller compares.

    Parameters
    ----------
    f : callable
        The map, shape (n,) -> (n,).
    start : Iteration
        Where to begin, with the evaluations already spent.
    tol : float
        On the undamped residual max|f(x) - x|.
    max_steps : int
        Largest number of evaluations, those of ``start`` included.
    memory : int, optional
        Iterates that are combined; min(n, 5) by default.
    box : Box, optional
        Domain; leaving it ends the iteration.

    Returns
    -------
    Iteration
        Its ``steps`` include those of ``start``; the status is one of those of ``fixed_point``.
    """
    n = start.x.shape[0]
    memory = min(n, 5) if memory is None else memory
    box = everywhere(n) if box is None else box
    empty = jnp.zeros((memory, n))

    def step(
        state: tuple[Iteration, jax.Array, jax.Array, jax.Array],
    ) -> tuple[Iteration, jax.Array, jax.Array, jax.Array]:
        now, d_f, d_r, best = state
        r = now.fx - now.x
        gamma = jnp.linalg.lstsq(d_r.T, r)[0]
        x = now.fx - gamma @ d_f
        fx = f(x)
        residual, status = converged(x, fx, box, tol)
        bad = ~jnp.isfinite(residual) | ~box.contains(x) | (residual > 10 * best)
        bad &= jnp.any(
            d_r != 0
        )  # with an empty memory the candidate is the plain step, and is taken
        taken = Iteration(x, fx, residual, now.steps + 1, status)
        back = now._replace(steps=now.steps + 1)
        d_f = jnp.where(bad, 0.0, jnp.roll(d_f, 1, axis=0).at[0].set(fx - now.fx))
        d_r = jnp.where(bad, 0.0, jnp.roll(d_r, 1, axis=0).at[0].set(fx - x - r))
        kept = jax.tree.map(lambda a, b: jnp.where(bad, a, b), back, taken)
        return kept, d_f, d_r, jnp.where(bad, best, jnp.minimum(best, residual))

    def running(state: tuple[Iteration, jax.Array, jax.Array, jax.Array]) -> jax.Array:
        return (state[0].status == RUNNING) & (state[0].steps < max_steps)

    residual, status = converged(start.x, start.fx, box, tol)
    begun = start._replace(residual=residual, status=status)
    last = jax.lax.while_loop(running, step, (begun, empty, empty, residual))[0]
    return last._replace(
        status=jnp.where(last.status == RUNNING, Status.MAX_STEPS.code, last.status)
    )


def newton(
    f: Map,
    start: Iteration,
    *,
    tol: float | jax.Array,
    max_steps: int | jax.Array,
    jacobian: Map | None = None,
    box: Box | None = None,
) -> Iteration:
    """Polish an iterate of ``fixed_point`` by x <- x + (1 - J)^{-1} (F(x) - x).

    Each step counts as one evaluation. It does not choose a branch and also converges to unstable
    points.

    Parameters
    ----------
    f : callable
        The map, shape (n,) -> (n,).
    start : Iteration
        Where to begin, with the evaluations already spent.
    tol : float
        On the undamped residual max|f(x) - x|.
    max_steps : int
        Largest number of evaluations, those of ``start`` included.
    jacobian : callable, optional
        dF/dx, shape (n, n); by default forward-mode differentiation of ``f``.
    box : Box, optional
        Domain; leaving it ends the iteration.

    Returns
    -------
    Iteration
        Its ``steps`` include those of ``start``; the status is one of those of ``fixed_point``.
    """
    box = everywhere(start.x.shape[0]) if box is None else box
    slope = jax.jacfwd(f) if jacobian is None else jacobian
    identity = jnp.eye(start.x.shape[0])

    def step(now: Iteration) -> Iteration:
        x = now.x + jnp.linalg.solve(identity - slope(now.x), now.fx - now.x)
        fx = f(x)
        residual, status = converged(x, fx, box, tol)
        return Iteration(x, fx, residual, now.steps + 1, status)

    def running(now: Iteration) -> jax.Array:
        return (now.status == RUNNING) & (now.steps < max_steps)

    residual, status = converged(start.x, start.fx, box, tol)
    last = jax.lax.while_loop(running, step, start._replace(residual=residual, status=status))
    return last._replace(
        status=jnp.where(last.status == RUNNING, Status.MAX_STEPS.code, last.status)
    )
