"""The minimiser of (z - omega)^2/(2V) + l(z) for convex l on arrays: Newton inside a bracket, which
is known.

With g(z) = z - omega + V l'(z), increasing, the root lies between omega and omega - V l'(omega).
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

Derivatives = Callable[[jax.Array], tuple[jax.Array, jax.Array]]
"""z -> l'(z), l''(z)."""
MOST = 120
TOLERANCE = 4e-15
STUCK = 1e-9
"""|g| above this at the end of a bracket of rounding size: l' jumps across zero there. So far from
the minimiser, relative to 1 + |z|, l' is asked for beside such a jump.
"""


def minimiser(loss: Derivatives, centre: jax.Array, width: jax.Array) -> jax.Array:
    """P for each element; NaN where V <= 0, or where the bracket is none (l is not
    convex there).
    """
    slope, _ = loss(centre)
    other = centre - width * slope
    centre, other = jnp.broadcast_arrays(centre, other)
    low, high = jnp.minimum(centre, other), jnp.maximum(centre, other)

    def gap(z: jax.Array) -> tuple[jax.Array, jax.Array]:
        first, second = loss(z)
        return z - centre + width * first, 1 + width * second

    def step(state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        z, low, high, done, n = state
        g, rate = gap(z)
        low, high = jnp.where(g <= 0, z, low), jnp.where(g >= 0, z, high)
        newton = z - g / rate
        inside = (
            (newton >= low)
            & (newton <= high)
            & ((n % 4 != 3) | (jnp.abs(newton - z) < 1e-3 * (1 + jnp.abs(z))))
        )
        new = jnp.where(inside, newton, (low + high) / 2)
        small = TOLERANCE * (1 + jnp.abs(z))
        ended = done | (jnp.abs(new - z) <= small) | (high - low <= small)
        return jnp.where(done, z, new), low, high, ended, n + 1

    def running(state: tuple[jax.Array, ...]) -> jax.Array:
        return (state[4] < MOST) & ~jnp.all(state[3] | jnp.isnan(state[0]))

    start = (other + centre) / 2
    z, _, _, done, _ = jax.lax.while_loop(
        running, step, (start, low, high, jnp.zeros(start.shape, bool), jnp.asarray(0))
    )
    ends = gap(low)[0] <= STUCK * (1 + jnp.abs(low)), gap(high)[0] >= -STUCK * (1 + jnp.abs(high))
    return jnp.where(done & ends[0] & ends[1] & (width > 0), z, jnp.nan)


def slope(loss: Derivatives, z: jax.Array, centre: jax.Array, width: jax.Array) -> jax.Array:
    """dP/domega at the minimiser z: 0 where a jump of l' holds it.

    What l' is at the jump itself does not matter: it may be the very value that stationarity asks
    for, as at the middle between the two centres where the minimiser lets go.
    """
    beside = STUCK * (1 + jnp.abs(z))
    first, second = loss(z)
    (below, bend_below), (above, bend_above) = loss(z - beside), loss(z + beside)
    bend = jnp.maximum(second, jnp.maximum(bend_below, bend_above))
    rise = 2 * beside + width * (above - below)
    rounding = 1e-12 * (1 + jnp.abs(centre) + width * jnp.abs(first))
    # Without a jump g rises by its slope; five times that lets the curvature vary in between.
    held = rise > 5 * (2 * beside * (1 + width * bend)) + rounding
    return jnp.where(held, 0.0, jnp.where(jnp.isnan(z), jnp.nan, 1 / (1 + width * second)))
