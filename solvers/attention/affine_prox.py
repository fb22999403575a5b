r"""The proximal problem of affine attention, s = phi = b + c chi: one scalar equation, with one
root.

With omega' = b + c omega_k, W = c^2 V_k, kappa = W V_v, the residual r = y - phi.z solves, for
kappa r^2 < 1,

    r - y + [C (1 + kappa r^2) + r (V_v A + W B)]/(1 - kappa r^2)^2 = 0,
    A = |omega'|^2, B = |omega_v|^2, C = omega'.omega_v
    phi = (omega' + W r omega_v)/(1 - kappa r^2),   z = (omega_v + V_v r omega')/(1 - kappa r^2)

The left-hand side is minus the slope of the concave dual problem in r: it increases, its root is
unique, and the minimum is the global one (strong duality). Only three numbers per sample matter.
Source: theory.md section 5.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from .problem import Channel


def _equation(
    r: jax.Array, at: Channel, statistics: jax.Array, width: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Left-hand side and its derivative in r."""
    a, b, c = statistics
    kappa = width * at.value_width
    gap = 1 - kappa * r**2
    top, slope = (
        c * (1 + kappa * r**2) + r * (at.value_width * a + width * b),
        2 * c * kappa * r + at.value_width * a + width * b,
    )
    return r - at.label + top / gap**2, 1 + slope / gap**2 + 4 * kappa * r * top / gap**3


def _statistics(at: Channel, intercept: jax.Array, slope: jax.Array) -> tuple[jax.Array, jax.Array]:
    shifted = at.present * (intercept + slope * at.key)
    return shifted, jnp.stack(
        [
            jnp.sum(shifted**2, axis=0),
            jnp.sum(at.present * at.value**2, axis=0),
            jnp.sum(shifted * at.value, axis=0),
        ]
    )


def residual(at: Channel, intercept: jax.Array, slope: jax.Array) -> jax.Array:
    """The root r, shape (n,), by Newton's method kept inside a shrinking bracket."""
    width = slope**2 * at.key_width
    _, statistics = _statistics(at, intercept, slope)
    end = (1 - 1e-15) / jnp.sqrt(width * at.value_width)

    def step(state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        r, low, high, _, count = state
        value, rise = _equation(r, at, statistics, width)
        low, high = jnp.where(value < 0, r, low), jnp.where(value > 0, r, high)
        newton = r - value / rise
        inside = (newton > low) & (newton < high)
        following = jnp.where(value == 0, r, jnp.where(inside, newton, (low + high) / 2))
        return following, low, high, jnp.abs(following - r), count + 1

    def running(state: tuple[jax.Array, ...]) -> jax.Array:
        return jnp.any(state[3] > 1e-14 * (1 + jnp.abs(state[0]))) & (state[4] < 100)

    start = jnp.zeros_like(at.label)
    bracket = (jnp.broadcast_to(-end, start.shape), jnp.broadcast_to(end, start.shape))
    return jax.lax.while_loop(
        running, step, (start, *bracket, jnp.full_like(start, jnp.inf), jnp.asarray(0))
    )[0]


def minimiser(
    at: Channel, intercept: jax.Array, slope: jax.Array, r: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """chi and z, shape (L, n), as differentiable functions of the channel, from a root ``r`` of the
    scalar equation.
    """
    width = slope**2 * at.key_width
    shifted, statistics = _statistics(at, intercept, slope)
    r = jax.lax.stop_gradient(r)
    value, _ = _equation(r, at, statistics, width)
    rise = jax.lax.stop_gradient(_equation(r, at, statistics, width)[1])
    r = r - value / rise  # no change but for the derivative: the implicit function theorem
    gap = 1 - width * at.value_width * r**2
    z = (at.value + at.value_width * r * shifted) / gap
    # An absent token stays at its centre, and so moves with it.
    return at.key + at.present * slope * at.key_width * r * z, jnp.where(
        at.present > 0, z, at.value
    )
