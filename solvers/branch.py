"""One branch from one start: plain iteration chooses it, acceleration polishes it.

Near a spinodal the accelerators would stall at, or jump from, the ghost of a vanished fixed point.
Hence plain (damped) iteration runs until its residual is small and shrinking; a polished point is
accepted only if it meets the tolerance close to where plain iteration was heading, in its
direction, and attracts plain iteration from there; otherwise plain iteration goes on.
"""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp

from .accelerate import anderson, newton
from .fixed_point import Box, Map, converged, fixed_point, unstarted
from .result import RUNNING, Iteration, Status

Polish = Literal["anderson", "newton", "none"]
SWITCH = 3e-2
"""Residual at which polishing is first tried."""
POLISH_STEPS = 25
REACH = 20.0
"""A polished point may lie this many (residual / (1 - rate)) away from the plain iterate."""
NEARBY = 1e-3
"""One plain step from this fraction of the way back to the plain iterate must approach the polished
point.
"""


def follow(
    f: Map,
    x0: jax.Array,
    *,
    tol: float | jax.Array,
    max_steps: int | jax.Array,
    damping: float | jax.Array,
    box: Box,
    polish: Polish = "anderson",
    jacobian: Map | None = None,
) -> Iteration:
    """The fixed point that plain iteration from ``x0`` reaches, in fewer evaluations.

    The accelerator's answer is taken only if it lies where plain iteration was going. ``steps``
    counts every evaluation of ``f``.

    Parameters
    ----------
    f : callable
        The map, shape (n,) -> (n,).
    x0 : array, shape (n,)
        Start; it chooses the branch.
    tol, max_steps, damping, box : as in ``fixed_point``
        Tolerance on the undamped residual, largest number of evaluations, weight on the old
        iterate, domain.
    polish : {"anderson", "newton", "none"}
        Accelerator used once plain iteration has chosen.
    jacobian : callable, optional
        dF/dx, shape (n,) -> (n, n), for "newton".

    Returns
    -------
    Iteration
        Point, image, residual, evaluations and status code.
    """
    if polish == "none":
        return fixed_point(f, x0, tol=tol, max_steps=max_steps, damping=damping, box=box)

    def plain(x: jax.Array, goal: jax.Array, budget: jax.Array) -> Iteration:
        return fixed_point(f, x, tol=goal, max_steps=budget, damping=damping, box=box)

    def attempt(state: tuple[Iteration, jax.Array]) -> tuple[Iteration, jax.Array]:
        now, goal = state
        coarse = plain(
            (1 - damping) * now.fx + damping * now.x, jnp.maximum(goal, tol), max_steps - now.steps
        )
        # Two more plain residuals would give the rate; one is enough and comes free with the next
        # step.
        x = (1 - damping) * coarse.fx + damping * coarse.x
        fx = f(x)
        used = now.steps + coarse.steps + 1
        probe = Iteration(x, fx, converged(x, fx, box, tol)[0], used, jnp.asarray(RUNNING))
        rate = jnp.clip(probe.residual / coarse.residual, 0.0, 0.999)
        budget = jnp.minimum(used + POLISH_STEPS, max_steps)
        if polish == "newton":
            fine = newton(f, probe, tol=tol, max_steps=budget, jacobian=jacobian, box=box)
        else:
            fine = anderson(f, probe, tol=tol, max_steps=budget, box=box)
        near = jnp.max(jnp.abs(fine.x - probe.x)) <= REACH * probe.residual / (1 - rate) + tol
        ahead = jnp.vdot(fine.x - probe.x, probe.fx - probe.x) >= 0
        beside = fine.x + NEARBY * (probe.x - fine.x)
        image = (1 - damping) * f(beside) + damping * beside
        attracts = jnp.max(jnp.abs(image - fine.x)) <= jnp.max(jnp.abs(beside - fine.x)) + 2 * tol
        fine = fine._replace(steps=fine.steps + 1)
        accepted = (
            (fine.status == Status.SUCCESSFUL.code)
            & near
            & ahead
            & attracts
            & (probe.residual < coarse.residual)
        )
        done = (coarse.status != Status.SUCCESSFUL.code) | (coarse.residual <= tol)
        rejected = probe._replace(status=jnp.asarray(RUNNING), steps=fine.steps)
        kept = jax.tree.map(lambda a, b: jnp.where(accepted, a, b), fine, rejected)
        ended = coarse._replace(steps=now.steps + coarse.steps)
        return jax.tree.map(lambda a, b: jnp.where(done, a, b), ended, kept), goal / 30

    def running(state: tuple[Iteration, jax.Array]) -> jax.Array:
        return (state[0].status == RUNNING) & (state[0].steps < max_steps)

    last, _ = jax.lax.while_loop(running, attempt, (unstarted(x0), jnp.asarray(SWITCH)))
    return last._replace(
        status=jnp.where(last.status == RUNNING, Status.MAX_STEPS.code, last.status)
    )
