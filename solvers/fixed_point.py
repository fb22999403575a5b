r"""Damped fixed-point iteration.

    x <- (1 - damping) F(x) + damping x,        converged when max|F(x) - x| <= tol

The test is on the undamped residual, whatever the damping. ``damping`` is the weight on the old
iterate, 0 <= damping < 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from .result import RUNNING, Iteration, Status

Map = Callable[[jax.Array], jax.Array]
CYCLE = 1e-9
"""A point that returns after two steps to this fraction of the step itself is on a two-cycle."""
SLACK = 1e-9
"""How far beyond an end of the domain rounding may carry an iterate."""
MOST_OF_THE_WAY = 0.9
"""Of a step that would leave the domain."""


class Box(NamedTuple):
    """Domain low <= x <= high, componentwise."""

    low: jax.Array
    high: jax.Array

    def contains(self, x: jax.Array) -> jax.Array:
        """Whether ``x`` lies in it, up to rounding."""
        return jnp.all((x >= self.low - SLACK) & (x <= self.high + SLACK))

    def holds(self, x: jax.Array) -> jax.Array:
        """Whether ``x`` lies in it."""
        return jnp.all((x >= self.low) & (x <= self.high))

    def settled(self, x: jax.Array) -> jax.Array:
        """``x``, put back on the end beyond which rounding has carried it; what lies further
        outside stays there, to be seen.
        """
        return jnp.where(self.contains(x), jnp.clip(x, self.low, self.high), x)

    def short_of(self, x: jax.Array, step: jax.Array) -> jax.Array:
        """``x + step``, or the point most of the way to the end that this would cross."""
        end = jnp.where(step > 0, self.high, self.low)
        share = jnp.where(step == 0, jnp.inf, (end - x) / step)
        whole = self.holds(x + step)
        return x + jnp.where(whole, 1.0, MOST_OF_THE_WAY * jnp.min(share, initial=jnp.inf)) * step


def everywhere(n: int) -> Box:
    """No restriction.

    Parameters
    ----------
    n : int
        Number of unknowns.

    Returns
    -------
    Box
        From -inf to inf in each.
    """
    return Box(jnp.full(n, -jnp.inf), jnp.full(n, jnp.inf))


def converged(
    x: jax.Array, fx: jax.Array, box: Box, tol: jax.Array | float
) -> tuple[jax.Array, jax.Array]:
    """Residual max|F(x) - x| and status code (RUNNING while nothing ends the iteration)."""
    residual = jnp.max(jnp.abs(fx - x), initial=0.0)
    status = jnp.where(residual <= tol, Status.SUCCESSFUL.code, RUNNING)
    status = jnp.where(box.contains(x), status, Status.LEFT_DOMAIN.code)
    finite = jnp.all(jnp.isfinite(fx)) & jnp.all(jnp.isfinite(x))
    return residual, jnp.where(finite, status, Status.NON_FINITE.code)


def unstarted(x0: jax.Array) -> Iteration:
    """A state whose next point, (1 - damping) fx + damping x, is ``x0`` itself; nothing is
    evaluated yet.
    """
    return Iteration(x0, x0, jnp.asarray(jnp.inf, x0.dtype), jnp.asarray(0), jnp.asarray(RUNNING))


def advanced(
    now: Iteration,
    before: jax.Array,
    x: jax.Array,
    fx: jax.Array,
    box: Box,
    tol: float | jax.Array,
) -> Iteration:
    """The state of plain iteration at ``x``, of image ``fx``; ``now.x`` and ``before`` are the two
    points before it.
    """
    residual, status = converged(x, fx, box, tol)
    back, jump = jnp.max(jnp.abs(x - before)), jnp.max(jnp.abs(x - now.x))
    cycle = (status == RUNNING) & (back <= CYCLE * jump) & (now.steps > 1)
    ended = jnp.where(cycle, Status.TWO_CYCLE.code, status)
    return Iteration(x, fx, residual, now.steps + 1, ended)


def check_damping(damping: float) -> None:
    """Refuse a damping outside [0, 1): it is the weight on the old iterate.

    Parameters
    ----------
    damping : float
        0 is none.

    Raises
    ------
    ValueError
        It is outside [0, 1).
    """
    if not 0 <= damping < 1:
        raise ValueError(
            f"damping = {damping:g} must lie in [0, 1): it is the weight on the old iterate, 0"
            " means none"
        )


def fixed_point(
    f: Map,
    x0: jax.Array,
    *,
    tol: float | jax.Array,
    max_steps: int | jax.Array,
    damping: float | jax.Array = 0.0,
    box: Box | None = None,
) -> Iteration:
    """Iterate ``f`` from ``x0`` until the undamped residual meets ``tol``.

    Parameters
    ----------
    f : callable
        The map, shape (n,) -> (n,).
    x0 : array, shape (n,)
        Start; it chooses the fixed point.
    tol : float
        On max|f(x) - x|.
    max_steps : int
        Largest number of evaluations of ``f``; at least 1 is made.
    damping : float
        Weight on the old iterate (checked by ``check_damping`` where it enters).
    box : Box, optional
        Domain; leaving it ends the iteration.

    Returns
    -------
    Iteration
        Status SUCCESSFUL, MAX_STEPS, NON_FINITE, LEFT_DOMAIN or TWO_CYCLE. NaN is never converged.
    """
    box = everywhere(x0.shape[0]) if box is None else box

    def step(state: tuple[Iteration, jax.Array]) -> tuple[Iteration, jax.Array]:
        now, before = state
        x = box.settled((1 - damping) * now.fx + damping * now.x)
        return advanced(now, before, x, f(x), box, tol), now.x

    def running(state: tuple[Iteration, jax.Array]) -> jax.Array:
        return (state[0].status == RUNNING) & (state[0].steps < max_steps)

    last, _ = jax.lax.while_loop(running, step, (unstarted(x0), jnp.full_like(x0, jnp.nan)))
    return last._replace(
        status=jnp.where(last.status == RUNNING, Status.MAX_STEPS.code, last.status)
    )
