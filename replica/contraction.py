"""Sums over an axis as matrix products."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def matmul(left: jax.Array, right: jax.Array, axis: int) -> jax.Array:
    """Re sum_axis left * right for arrays of equal rank with size-1 axes, as one matrix product."""
    rank = left.ndim
    rows = [a for a in range(rank) if a != axis and left.shape[a] > 1]
    columns = [a for a in range(rank) if a != axis and right.shape[a] > 1]
    if set(rows) & set(columns):
        return jnp.sum(jnp.real(left * right), axis=axis, keepdims=True)
    a = jnp.transpose(left, (*rows, axis, *(i for i in range(rank) if i != axis and i not in rows))).reshape(-1, left.shape[axis])
    b = jnp.transpose(right, (axis, *columns, *(i for i in range(rank) if i != axis and i not in columns))).reshape(right.shape[axis], -1)
    product = jnp.real(a) @ jnp.real(b)
    if jnp.iscomplexobj(a) and jnp.iscomplexobj(b):
        product = product - jnp.imag(a) @ jnp.imag(b)
    order = [*rows, *columns]
    sizes = [left.shape[i] for i in rows] + [right.shape[i] for i in columns]
    product = jnp.transpose(product.reshape(sizes), [order.index(i) for i in sorted(order)])
    shape = [max(left.shape[i], right.shape[i]) if i != axis else 1 for i in range(rank)]
    return product.reshape(shape)
