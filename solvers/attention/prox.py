r"""Newton's method on h, batched over samples.

Steps are regularised, (H + tau)^{-1} grad h, tau rising where H is not positive or h does not fall
and vanishing near a minimum (quadratic convergence). Where sigma bends at a kink in each chi_l
(relu), a step that crosses it stops there, and a token between two slopes that both lead back to
the kink is held: its gradient counts as zero and it does not move. Source: theory.md section 5.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from .expansion import Rows, expand, gradient, measure, sides, solve
from .problem import Attention, Channel


class Descent(NamedTuple):
    """State of the minimisation: chi (L, n), h, V_k max|grad h| relative to 1 + max|chi|, and tau
    (n,), steps.
    """

    chi: jax.Array
    height: jax.Array
    error: jax.Array
    tau: jax.Array
    steps: jax.Array


class _Running(NamedTuple):
    chi: Rows
    height: jax.Array
    error: jax.Array
    tau: jax.Array
    steps: jax.Array


TOLERANCE = 1e-11
"""On V_k max|grad h|, the distance in chi that a gradient step would move, relative to 1 +
max|chi|.
"""
ROUNDING = 1e-13
"""Relative change of 1 + |h| that is not told from none."""


def newton(
    attend: Attention, at: Channel, chi: Rows, tau: jax.Array | float
) -> tuple[Rows, Rows, jax.Array]:
    """-(H + tau)^{-1} grad h, grad h, and where H + tau is positive."""
    slopes, matrix = expand(attend, at, chi)
    move, positive = solve(matrix, tau, tuple(-g for g in slopes))
    return move, slopes, positive


def _stopped(attend: Attention, chi: Rows, trial: Rows) -> Rows:
    """``trial`` with the tokens that would cross a kink stopped at the first one."""
    for kink in attend.breakpoints:
        every = zip(chi, trial, strict=True)
        trial = tuple(jnp.where((c - kink) * (t - kink) < 0, kink, t) for c, t in every)
    return trial


def descend(
    attend: Attention,
    at: Channel,
    chi: jax.Array,
    max_steps: int = 60,
    tolerance: float = TOLERANCE,
) -> Descent:
    """The local minimum of h in whose valley ``chi`` lies; samples that have converged stay where
    they are.
    """
    unit = 1 / at.key_width

    def step(now: _Running) -> _Running:
        # H is made anew where a step was refused: that costs less than to carry it.
        move, _, positive = newton(attend, at, now.chi, now.tau)
        trial = _stopped(attend, now.chi, _sum(now.chi, move))
        height, error = measure(attend, at, trial)
        # In units of rounding. Close to the minimum h no longer resolves the step; there a smaller
        # gradient decides.
        fall = jnp.where(positive, now.height - height, -jnp.inf)
        fall = fall / (ROUNDING * (1 + jnp.abs(now.height)))
        unfinished = now.error > tolerance
        taken = ((fall > 1) | ((fall >= -1) & (error < now.error))) & unfinished
        eased = jnp.where(now.tau > 1e-3 * unit, now.tau / 10, 0.0)
        raised = jnp.maximum(5 * now.tau, 0.1 * unit)
        tau = jnp.where(taken, eased, jnp.where(unfinished, raised, now.tau))
        chi = tuple(jnp.where(taken, t, c) for t, c in zip(trial, now.chi, strict=True))
        height = jnp.where(taken, height, now.height)
        error = jnp.where(taken, error, now.error)
        return _Running(chi, height, error, tau, now.steps + 1)

    def running(now: _Running) -> jax.Array:
        return (now.steps < max_steps) & jnp.any(now.error > tolerance)

    height, error = measure(attend, at, tuple(chi))
    start = _Running(tuple(chi), height, error, jnp.zeros_like(height), jnp.asarray(0))
    end = jax.lax.while_loop(running, step, start)
    return Descent(jnp.stack(end.chi), end.height, end.error, end.tau, end.steps)


def _sum(a: Rows, b: Rows) -> Rows:
    return tuple(u + v for u, v in zip(a, b, strict=True))


def responsive(attend: Attention, at: Channel, chi: jax.Array) -> jax.Array:
    """``chi``, a minimiser, as a differentiable function of the channel: one Newton step whose
    Hessian is held constant.
    """
    rows = tuple(jax.lax.stop_gradient(chi))
    fixed = jax.tree.map(jax.lax.stop_gradient, at)
    matrix = jax.tree.map(jax.lax.stop_gradient, expand(attend, fixed, rows)[1])
    beside, free = sides(attend, fixed, rows)
    slopes = gradient(attend, at, beside)
    move, _ = solve(matrix, 0.0, tuple(-g * f for g, f in zip(slopes, free, strict=True)))
    return jnp.stack(_sum(rows, move))
