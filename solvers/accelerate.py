r"""Accelerators: Anderson's method with a safeguard, and Newton's on F(x) - x = 0 for few unknowns.

    Anderson   x+ = F(x) - sum_j gamma_j (dF_j),     gamma = argmin |r - sum_j gamma_j dr_j|,
    r = F(x) - x
    Newton     x+ = x + (1 - J)^{-1} (F(x) - x)

the first over the last ``memory`` differences. No candidate leaves the domain: where it would,
Anderson's method makes a plain step and Newton's goes most of the way to the end. A candidate of
the first that is not finite, or whose residual exceeds ten times the best so far, is replaced by a
plain step and the memory is emptied.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from .fixed_point import Box, Map, converged, everywhere
from .result import RUNNING, Iteration, Status


class Accelerator(Protocol):
    """Which point is tried next, and what is made of its image; ``memory`` is its own.

    The loop stands elsewhere (``accelerated``, ``branch.follow``), with the one evaluation of F.
    """

    def begin(self, start: Iteration) -> Any:
        """The memory before the first step."""
        ...

    def propose(self, now: Iteration, memory: Any) -> jax.Array:
        """The point to be evaluated."""
        ...

    def absorb(
        self, now: Iteration, memory: Any, x: jax.Array, fx: jax.Array, tol: float | jax.Array
    ) -> tuple[Iteration, Any]:
        """The next state, from the image ``fx`` of the point ``x`` that was proposed."""
        ...


class Differences(NamedTuple):
    """The last differences of F and of its residual, shape (memory, n), and the least residual."""

    d_f: jax.Array
    d_r: jax.Array
    best: jax.Array


class Anderson(NamedTuple):
    """Anderson's method on ``size`` differences, with the safeguard of this file's head."""

    size: int
    box: Box

    def begin(self, start: Iteration) -> Differences:
        """No difference is known."""
        empty = jnp.zeros((self.size, start.x.shape[0]))
        return Differences(empty, empty, start.residual)

    def propose(self, now: Iteration, memory: Differences) -> jax.Array:
        """The combination with the least residual; the plain step where that leaves the domain."""
        gamma = jnp.linalg.lstsq(memory.d_r.T, now.fx - now.x)[0]
        candidate = now.fx - gamma @ memory.d_f
        return jnp.where(self.box.holds(candidate), candidate, self.box.settled(now.fx))

    def absorb(
        self,
        now: Iteration,
        memory: Differences,
        x: jax.Array,
        fx: jax.Array,
        tol: float | jax.Array,
    ) -> tuple[Iteration, Differences]:
        """The candidate is taken, or refused and the memory emptied."""
        d_f, d_r, best = memory
        residual, status = converged(x, fx, self.box, tol)
        bad = ~jnp.isfinite(residual) | ~self.box.contains(x) | (residual > 10 * best)
        # With an empty memory the candidate is the plain step, and is taken.
        bad &= jnp.any(d_r != 0)
        taken = Iteration(x, fx, residual, now.steps + 1, status)
        back = now._replace(steps=now.steps + 1)
        difference = fx - x - (now.fx - now.x)
        d_f = jnp.where(bad, 0.0, jnp.roll(d_f, 1, axis=0).at[0].set(fx - now.fx))
        d_r = jnp.where(bad, 0.0, jnp.roll(d_r, 1, axis=0).at[0].set(difference))
        kept = jax.tree.map(lambda a, b: jnp.where(bad, a, b), back, taken)
        return kept, Differences(d_f, d_r, jnp.where(bad, best, jnp.minimum(best, residual)))


class Newton(NamedTuple):
    """Newton's method on F(x) - x = 0; ``slope`` is dF/dx, shape (n,) -> (n, n)."""

    slope: Map
    box: Box

    def begin(self, start: Iteration) -> tuple[()]:
        """It remembers nothing."""
        return ()

    def propose(self, now: Iteration, memory: tuple[()]) -> jax.Array:
        """Where the tangent meets the diagonal, or most of the way to the domain's end."""
        identity = jnp.eye(now.x.shape[0])
        step = jnp.linalg.solve(identity - self.slope(now.x), now.fx - now.x)
        return self.box.short_of(now.x, step)

    def absorb(
        self,
        now: Iteration,
        memory: tuple[()],
        x: jax.Array,
        fx: jax.Array,
        tol: float | jax.Array,
    ) -> tuple[Iteration, tuple[()]]:
        """Every step is taken."""
        residual, status = converged(x, fx, self.box, tol)
        return Iteration(x, fx, residual, now.steps + 1, status), ()


def memory_size(n: int) -> int:
    """How many differences Anderson's method combines for ``n`` unknowns."""
    return min(n, 5)


def accelerated(
    method: Accelerator,
    f: Map,
    start: Iteration,
    tol: float | jax.Array,
    max_steps: int | jax.Array,
    box: Box,
) -> Iteration:
    """The loop of every accelerator: from ``start`` until the residual meets ``tol``."""

    def step(state: tuple[Iteration, Any]) -> tuple[Iteration, Any]:
        x = method.propose(*state)
        return method.absorb(*state, x, f(x), tol)

    def running(state: tuple[Iteration, Any]) -> jax.Array:
        return (state[0].status == RUNNING) & (state[0].steps < max_steps)

    residual, status = converged(start.x, start.fx, box, tol)
    begun = start._replace(residual=residual, status=status)
    last, _ = jax.lax.while_loop(running, step, (begun, method.begin(begun)))
    return last._replace(
        status=jnp.where(last.status == RUNNING, Status.MAX_STEPS.code, last.status)
    )


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
    box = everywhere(n) if box is None else box
    method = Anderson(memory_size(n) if memory is None else memory, box)
    return accelerated(method, f, start, tol, max_steps, box)


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
    method = Newton(jax.jacfwd(f) if jacobian is None else jacobian, box)
    return accelerated(method, f, start, tol, max_steps, box)
