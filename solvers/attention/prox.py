r"""Proximal minimisation for attention, batched over samples, with the value fields eliminated
exactly.

    min_{chi,z} |chi - omega_k|^2/(2 V_k) + |z - omega_v|^2/(2 V_v) + (1/2)(y - s(chi).z)^2
      = min_chi h(chi),   h = |chi - omega_k|^2/(2 V_k) + (1/2)(y - s.omega_v)^2/(1 + V_v |s|^2)
    z = omega_v + V_v r s,   r = (y - s.omega_v)/(1 + V_v |s|^2)

Arrays are (L, n): tokens first, samples last, so that the small linear algebra in L is unrolled and
every operation runs along the samples. Newton steps on h are regularised, (H + tau)^{-1} grad h,
tau rising where H is not positive or h does not fall and vanishing near a minimum (quadratic
convergence). Source: theory.md section 5.

Where sigma bends at a kink in each chi_l (relu), a step that crosses it stops there, and a token
between two slopes that both lead back to the kink is held: its gradient counts as zero and it does
not move.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Attention(NamedTuple):
    """``weight``: chi (L, n), present (L, n) -> sigma(chi) (L, n), zero on absent tokens;
    ``breakpoints``: where it bends in each chi_l.
    """

    weight: Callable[[jax.Array, jax.Array], jax.Array]
    breakpoints: tuple[jax.Array | float, ...] = ()

    def __call__(self, chi: jax.Array, present: jax.Array) -> jax.Array:
        return self.weight(chi, present)


class Channel(NamedTuple):
    """What a proximal problem is posed with: centres (L, n), label (n,), the two widths, and which
    tokens there are (L, n).

    An absent token has sigma = 0, so its minimiser is its centre and its force is zero.
    """

    key: jax.Array
    value: jax.Array
    label: jax.Array
    key_width: jax.Array
    value_width: jax.Array
    present: jax.Array

    def of(self, samples: jax.Array) -> Channel:
        """The problems of some samples."""
        return self._replace(
            key=self.key[:, samples],
            value=self.value[:, samples],
            label=self.label[samples],
            present=self.present[:, samples],
        )


class Descent(NamedTuple):
    """State of the minimisation: chi (L, n), h (n,), its gradient (L, n) and Hessian (L, L, n), tau
    (n,), steps.
    """

    chi: jax.Array
    height: jax.Array
    gradient: jax.Array
    hessian: jax.Array
    tau: jax.Array
    steps: jax.Array


TOLERANCE = 1e-11
"""On V_k max|grad h|, the distance in chi that a gradient step would move, relative to 1 +
max|chi|.
"""


def reduced(attend: Attention, at: Channel, chi: jax.Array) -> jax.Array:
    """h(chi), shape (n,)."""
    s = attend(chi, at.present)
    residual = at.label - jnp.sum(s * at.value, axis=0)
    return jnp.sum((chi - at.key) ** 2, axis=0) / (2 * at.key_width) + residual**2 / (
        2 * (1 + at.value_width * jnp.sum(s**2, axis=0))
    )


def values(attend: Attention, at: Channel, chi: jax.Array) -> jax.Array:
    """z (L, n) at given chi."""
    s = attend(chi, at.present)
    r = (at.label - jnp.sum(s * at.value, axis=0)) / (1 + at.value_width * jnp.sum(s**2, axis=0))
    return at.value + at.value_width * r * s


def _expand(
    attend: Attention, at: Channel, chi: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """h, gradient and Hessian. Samples do not interact, so one tangent per token serves all of
    them.
    """

    def total(c: jax.Array) -> tuple[jax.Array, jax.Array]:
        height = reduced(attend, at, c)
        return jnp.sum(height), height

    def slope(c: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.grad(total, has_aux=True)(c)

    directions = jnp.broadcast_to(jnp.eye(chi.shape[0])[:, :, None], (chi.shape[0], *chi.shape))
    gradient, push, height = jax.linearize(slope, chi, has_aux=True)
    return height, gradient, jax.vmap(push)(directions)


def _sides(attend: Attention, at: Channel, chi: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Where to expand, a hair off the kinks on the side that leads down, and which tokens are held,
    (L, n) each.

    The one-sided slope in chi_l depends on the other tokens continuously, so that one shift of all
    of them gives every slope.
    """
    hair, held, shift = 1e-9, jnp.zeros(chi.shape, dtype=bool), jnp.zeros_like(chi)
    for kink in attend.breakpoints:
        there = chi == kink

        def slope(side: float, there: jax.Array = there) -> jax.Array:
            moved = chi + side * hair * there
            return jax.grad(lambda c: jnp.sum(reduced(attend, at, c)))(moved)

        left, right = slope(-1.0), slope(1.0)
        held |= there & (left <= 0) & (right >= 0)
        shift += jnp.where(there, jnp.where(right < 0, hair, -hair), 0.0)
    return chi + jnp.where(held, 0.0, shift), held


def expand(
    attend: Attention, at: Channel, chi: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """h, gradient and Hessian, with held tokens taken out."""
    if not attend.breakpoints:
        return _expand(attend, at, chi)
    beside, held = _sides(attend, at, chi)
    height, gradient, hessian = _expand(attend, at, beside)
    free, unit = 1.0 - held, jnp.eye(len(chi))[:, :, None] / at.key_width
    return height, gradient * free, hessian * free[:, None] * free[None] + unit * held[:, None]


def _stopped(attend: Attention, chi: jax.Array, trial: jax.Array) -> jax.Array:
    """``trial`` with the tokens that would cross a kink stopped at the first one."""
    for kink in attend.breakpoints:
        trial = jnp.where((chi - kink) * (trial - kink) < 0, kink, trial)
    return trial


def solve_spd(matrix: jax.Array, right: jax.Array) -> tuple[jax.Array, jax.Array]:
    """matrix^{-1} right by L D L^T along the last axis, (L, L, n) and (L, n); and where all pivots
    are positive.
    """
    size = right.shape[0]
    lower: list[list[jax.Array]] = [[] for _ in range(size)]
    pivots: list[jax.Array] = []
    positive = jnp.ones(right.shape[1:], dtype=bool)
    for j in range(size):
        pivot = matrix[j, j] - sum(lower[j][k] ** 2 * pivots[k] for k in range(j))
        positive &= pivot > 0
        pivots.append(jnp.where(pivot > 0, pivot, 1.0))
        for i in range(j + 1, size):
            lower[i].append(
                (matrix[i, j] - sum(lower[i][k] * lower[j][k] * pivots[k] for k in range(j)))
                / pivots[j]
            )
    x: list[jax.Array] = []
    for i in range(size):
        x.append(right[i] - sum(lower[i][k] * x[k] for k in range(i)))
    x = [x[i] / pivots[i] for i in range(size)]
    for i in reversed(range(size)):
        x[i] = x[i] - sum(lower[k][i] * x[k] for k in range(i + 1, size))
    return jnp.stack(x), positive


def error(at: Channel, state: Descent) -> jax.Array:
    """V_k max_l |grad h| relative to 1 + max|chi|, shape (n,)."""
    return (
        at.key_width
        * jnp.max(jnp.abs(state.gradient), axis=0)
        / (1 + jnp.max(jnp.abs(state.chi), axis=0))
    )


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

    def step(now: Descent) -> Descent:
        eye = jnp.eye(chi.shape[0])[:, :, None]
        move, positive = solve_spd(now.hessian + now.tau * eye, -now.gradient)
        trial = _stopped(attend, now.chi, now.chi + move)
        height, gradient, hessian = expand(attend, at, trial)
        # Close to the minimum h no longer resolves the step; there a smaller gradient decides.
        noise = 1e-13 * (1 + jnp.abs(now.height))
        smaller = jnp.max(jnp.abs(gradient), axis=0) < jnp.max(jnp.abs(now.gradient), axis=0)
        falls = (height < now.height - noise) | ((height <= now.height + noise) & smaller)
        open_ = error(at, now) > tolerance
        taken = positive & falls & open_
        moved = now._replace(chi=trial, height=height, gradient=gradient, hessian=hessian)
        kept = jax.tree.map(lambda a, b: jnp.where(taken, a, b), moved, now)
        eased = jnp.where(now.tau > 1e-3 * unit, now.tau / 10, 0.0)
        latex_power = jnp.maximum(5 * now.tau, 0.1 * unit)
        return kept._replace(
            tau=jnp.where(taken, eased, jnp.where(open_, latex_power, now.tau)), steps=now.steps + 1
        )

    def running(now: Descent) -> jax.Array:
        return (now.steps < max_steps) & jnp.any(error(at, now) > tolerance)

    start = Descent(chi, *expand(attend, at, chi), jnp.zeros(chi.shape[1]), jnp.asarray(0))
    return jax.lax.while_loop(running, step, start)


def responsive(attend: Attention, at: Channel, chi: jax.Array) -> jax.Array:
    """``chi``, a minimiser, as a differentiable function of the channel: one Newton step whose
    Hessian is held constant.
    """
    chi = jax.lax.stop_gradient(chi)
    fixed = jax.tree.map(jax.lax.stop_gradient, at)
    hessian = expand(attend, fixed, chi)[2]
    beside, held = (
        _sides(attend, fixed, chi)
        if attend.breakpoints
        else (chi, jnp.zeros(chi.shape, dtype=bool))
    )

    def total(c: jax.Array) -> jax.Array:
        return jnp.sum(reduced(attend, at, c))

    move, _ = solve_spd(hessian, -jax.grad(total)(beside) * (1.0 - held))
    return chi + move
