"""Rules for sums over tokens, and for averages over explicit samples of them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import sympy as sp

from equations.calculus.averages import SampleAverage
from equations.calculus.discontinuities import samples
from equations.calculus.special_functions import LogSumExp
from solvers import quadrature

from ..errors import LoweringError
from .evaluate import SCRAMBLE, Evaluation
from .rules import lowers


@lowers(LogSumExp)
def log_sum_exp(evaluation: Evaluation, e: Any) -> jax.Array:
    """log sum_l e^{a_l}."""
    body, index, count = e.args

    def inside() -> jax.Array:
        axis = evaluation.axes[index]
        return jax.scipy.special.logsumexp(evaluation.value(body), axis=axis, keepdims=True)

    return evaluation.over_tokens(index, count, inside)


@lowers(sp.Sum)
def indexed_sum(evaluation: Evaluation, e: sp.Sum) -> jax.Array:
    """sum_l body, l = 1..count."""
    if len(e.limits) != 1 or e.limits[0][1] != 1:
        raise LoweringError(f"no lowering for {e}: indexed sums run over one index from 1")
    index, _, count = e.limits[0]

    def total() -> jax.Array:
        body, points = evaluation.value(e.function), evaluation.env[index]
        whole = jnp.broadcast_to(body, jnp.broadcast_shapes(jnp.shape(body), points.shape))
        return jnp.sum(whole, axis=evaluation.axes[index], keepdims=True)

    return evaluation.over_tokens(index, count, total)


@lowers(SampleAverage)
def sample_average(evaluation: Evaluation, e: SampleAverage) -> Any:
    """Mean over the scrambled Sobol points; the scramble in use is the control-like symbol
    ``SCRAMBLE``.
    """
    common, bases = e.parameters[1], e.parameters[2]
    sizes, tokens, sample = evaluation.sizes, evaluation.sizes.tokens, samples(e)
    if tokens is None:
        raise LoweringError("the sampled route needs the number of tokens in its rule")
    dims = len(common) + tokens * len(bases)
    sets = quadrature.sobol_gaussian(dims, sizes.log2_samples, sizes.scrambles, sizes.seed)
    points = jnp.asarray(sets)[jnp.asarray(evaluation.env[SCRAMBLE], dtype=int)]
    axes = evaluation.axes

    def lay(columns: jax.Array, token_axis: bool) -> jax.Array:
        shape = [1] * evaluation.ndim
        shape[axes[sample]] = columns.shape[0]
        if token_axis:
            shape[axes[e.variable]] = tokens
        straight = not token_axis or axes[sample] < axes[e.variable]
        return (columns if straight else columns.T).reshape(shape)

    for i, symbol in enumerate(common):
        evaluation.env[symbol] = lay(points[:, i], False)
    first: dict[Any, Any] = {}
    for b, base in enumerate(bases):
        block = points[:, len(common) + b * tokens : len(common) + (b + 1) * tokens]
        evaluation.env[sp.Indexed(base, e.variable)] = lay(block, True)
        first[sp.Indexed(base, sp.Integer(1))] = lay(block[:, 0], False)
    evaluation.env.update(first)
    index_points = evaluation.along(e.variable, jnp.arange(1, tokens + 1, dtype=float))

    def mean() -> Any:
        return jnp.mean(evaluation.value(e.body), axis=axes[sample], keepdims=True)

    def inner() -> Any:
        return evaluation.under(e.variable, index_points, ("tokens", tokens), False, mean)

    every = evaluation.along(sample, jnp.arange(points.shape[0]))
    return evaluation.under(sample, every, ("samples",), True, inner)
