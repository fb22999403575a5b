"""Minimise a smooth function of a few variables from one start: BFGS (optimistix), then Newton on
the gradient.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from .accelerate import newton
from .fixed_point import Box
from .result import Iteration, Status


def minimise(
    value: Callable[[jax.Array], jax.Array],
    gradient: Callable[[jax.Array], jax.Array],
    x0: jax.Array,
    *,
    tol: float | jax.Array,
    max_steps: int,
    box: Box,
) -> Iteration:
    """A local minimum with max|gradient| <= tol.

    Parameters
    ----------
    value : callable
        The objective, shape (n,) -> (); differentiable by JAX.
    gradient : callable
        Its derivative by another route (the derived one), by which convergence is judged.
    x0 : array, shape (n,)
        Start; it chooses the minimum.
    tol : float
        On max|gradient|.
    max_steps : int
        Largest number of steps.
    box : Box
        Domain.

    Returns
    -------
    Iteration
        With ``fx = x - gradient``, so that its residual is max|gradient|.
    """
    import optimistix as optx  # start-up time

    rough = optx.minimise(
        lambda x, _: value(x), optx.BFGS(rtol=1e-6, atol=1e-6), x0, max_steps=max_steps, throw=False
    )
    x = rough.value

    def image(x: jax.Array) -> jax.Array:
        return x - gradient(x)

    start = Iteration(
        x, image(x), jnp.asarray(jnp.inf), rough.stats["num_steps"] + 1, jnp.asarray(0)
    )
    fine = newton(image, start, tol=tol, max_steps=start.steps + 30, box=box)
    # Newton also converges to saddles and maxima; BFGS never stops above a minimum it has seen.
    worse = (fine.status == Status.SUCCESSFUL.code) & (value(fine.x) > value(x) + 1e-9)
    return fine._replace(status=jnp.where(worse, Status.NOT_STABLE.code, fine.status))
