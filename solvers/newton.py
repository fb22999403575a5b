"""Newton's method on F(x) - x = 0 for few unknowns, by a forward-mode or given Jacobian."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from .fixed_point import Box, Map, everywhere, judge
from .result import RUNNING, Iteration, Status


def newton(
    f: Map, start: Iteration, *, tol: float | jax.Array, max_steps: int | jax.Array, jacobian: Map | None = None, box: Box | None = None
) -> Iteration:
    """Polish an iterate of ``fixed_point`` by x <- x + (1 - J)^{-1} (F(x) - x).

    Each step counts as one evaluation. It does not choose a branch and also converges to unstable points.

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
        residual, status = judge(x, fx, box, tol)
        return Iteration(x, fx, residual, now.steps + 1, status)

    def running(now: Iteration) -> jax.Array:
        return (now.status == RUNNING) & (now.steps < max_steps)

    residual, status = judge(start.x, start.fx, box, tol)
    last = jax.lax.while_loop(running, step, start._replace(residual=residual, status=status))
    return last._replace(status=jnp.where(last.status == RUNNING, Status.MAX_STEPS.code, last.status))
