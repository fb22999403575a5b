r"""The proximal problem of attention, with the value fields eliminated exactly.

    min_{chi,z} |chi - omega_k|^2/(2 V_k) + |z - omega_v|^2/(2 V_v) + (1/2)(y - s(chi).z)^2
      = min_chi h(chi),   h = |chi - omega_k|^2/(2 V_k) + (1/2)(y - s.omega_v)^2/(1 + V_v |s|^2)
    z = omega_v + V_v r s,   r = (y - s.omega_v)/(1 + V_v |s|^2)

Arrays are (L, n): tokens first, samples last, so that what is small is unrolled and every operation
runs along the samples. Source: theory.md section 5.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Norm(Enum):
    """What a token's weight is divided by."""

    NONE = "s_l = phi(chi_l)"
    SUM = "s_l = phi(chi_l)/sum_l phi(chi_l)"
    SOFTMAX = "s_l = exp(phi(chi_l))/sum_l exp(phi(chi_l))"


class TokenWeight(NamedTuple):
    """A weight made of one function of each token: ``phi`` maps chi (n,), present (n,) to (n,)."""

    phi: Callable[[jax.Array, jax.Array], jax.Array]
    norm: Norm = Norm.NONE


class Attention(NamedTuple):
    """``weight``: chi (L, n), present (L, n) -> sigma(chi) (L, n), zero on absent tokens;
    ``breakpoints``: where it bends in each chi_l; ``token``: the same weight token by token, where
    it can be written so, which gives its derivatives in closed form.
    """

    weight: Callable[[jax.Array, jax.Array], jax.Array]
    breakpoints: tuple[jax.Array | float, ...] = ()
    token: TokenWeight | None = None

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
