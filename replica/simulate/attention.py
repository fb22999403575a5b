"""The attention of a model, as its file states it, on arrays: what a simulation trains is what the
theory solves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import sympy as sp

from equations import Model
from equations.calculus.envelope import PRESENT, MoreauEnvelope, linear_predictor

from ..lowering.evaluate import Evaluation
from ..lowering.node_sizes import NodeSizes

Attention = Callable[..., jax.Array]
"""(chi, present) -> sigma(chi), all of shape (L, N); ``present`` (``data.Data``) may be left out at
fixed length.
"""
SAMPLE = sp.Symbol("sample_")


def attention(model: Model, values: Mapping[str, float], tokens: int) -> Attention:
    """sigma, read off the loss of ``model``."""
    (envelope,) = model.channel.atoms(MoreauEnvelope)
    _, weight = linear_predictor(envelope)
    index, key = envelope.index, envelope.fields[0][0]
    controls = {q.symbol: float(values[q.name]) for q in model.controls if q.name in values}

    def sigma(chi: jax.Array, present: jax.Array | None = None) -> jax.Array:
        e = Evaluation(
            {index: 0, SAMPLE: 1},
            NodeSizes(tokens=tokens),
            [],
            jnp.zeros(0),
            controls,
            {},
            write=False,
        )
        e.env |= {
            sp.Indexed(key, index): chi,
            sp.Indexed(PRESENT, index): jnp.ones(chi.shape) if present is None else present,
        }
        value = e.over_tokens(index, envelope.count, lambda: e.value(weight))
        return jnp.broadcast_to(value, chi.shape)

    return sigma
