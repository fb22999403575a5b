"""Evaluation of planted averages (``equations.planted``) on samples, all of one law in one pass.

Samples come in blocks that fit the cache; every block is weighted, summed over its locations and averaged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import sympy as sp

from equations.location import TOKEN
from equations.planted import LogEvidence, PlantedAverage, Score, Slope
from solvers import location

from .errors import LoweringError
from .rule import Rule

BLOCK = 2**19
"""Samples times tokens times nodes of a block."""
Scalar = Callable[[sp.Expr], jax.Array]


class Group(NamedTuple):
    """What is asked of one law: averages, and the symbols with respect to which their slopes are."""

    nodes: tuple[PlantedAverage, ...]
    variables: tuple[sp.Symbol, ...]


Groups = dict[LogEvidence, Group]


def groups(expressions: Mapping[str, sp.Expr]) -> Groups:
    """The planted averages of ``expressions`` and their slopes, by law."""
    nodes: dict[LogEvidence, dict[PlantedAverage, None]] = {}
    variables: dict[LogEvidence, dict[sp.Symbol, None]] = {}
    for node in (n for e in expressions.values() for n in sp.preorder_traversal(e)):
        if isinstance(node, PlantedAverage):
            nodes.setdefault(node.evidence, {})[node] = None
        elif isinstance(node, Slope):
            variables.setdefault(node.average.evidence, {})[node.variable] = None
    return {law: Group(tuple(asked), tuple(variables.get(law, ()))) for law, asked in nodes.items()}


def averages(evidence: LogEvidence, nodes: Sequence[PlantedAverage], rule: Rule, scalar: Scalar, scramble: Any = None) -> jax.Array:
    """The value of each of ``nodes`` over one of the scrambled sets, or over all of them; ``scalar`` evaluates the parameters of the law."""
    (q_k, v_k), (q_v, width) = ([scalar(v) for v in pair] for pair in evidence.variances)
    nu, count = (scalar(p) for p in evidence.location.parameters[2:])
    length = evidence.location.parameters[3]
    tokens = int(length) if length.is_Integer else rule.tokens
    if tokens is None:
        raise LoweringError("a planted average needs the number of tokens in its rule")
    points = location.base_points(tokens, rule.log2_samples, rule.scrambles, rule.seed)
    law = location.noise(v_k, nu)

    def block(part: location.Points) -> jax.Array:
        samples = location.planted(part, count, law, q_k, q_v, width, rule.winner)
        return jnp.stack([_mean(node, samples) for node in nodes])

    size = 2 ** max(0, min(rule.log2_samples, (BLOCK // (tokens * rule.winner)).bit_length() - 1))
    if scramble is None:
        blocks = location.Points(*(jnp.asarray(a.reshape(-1, size, *a.shape[2:])) for a in points))
    else:
        chosen = (jnp.asarray(a)[jnp.asarray(scramble, dtype=int)] for a in points)
        blocks = location.Points(*(a.reshape(-1, size, *a.shape[1:]) for a in chosen))
    return jnp.mean(jax.lax.map(block, blocks), axis=0)


def _mean(node: PlantedAverage, samples: location.Planted) -> jax.Array:
    """Weighted mean of the body over samples and locations."""
    value = _body(node.body, node.evidence, samples)
    if value.ndim == 1:  # free of the location and the label: their sum is 1
        return jnp.mean(samples.weight * value)
    return jnp.mean(jnp.sum(samples.location_weight * value, axis=1))


def _body(body: sp.Expr, evidence: LogEvidence, samples: location.Planted) -> jax.Array:
    """``body`` as an array over (sample, location), or over samples if it sees the keys alone."""
    if body == evidence:
        return samples.log_z
    if isinstance(body, sp.Sum):
        base, power = body.function.as_base_exp()
        arrays = {Score(evidence, 0): samples.key_score, Score(evidence, 1): samples.value_score, evidence.location: samples.probability}
        if base in arrays and body.limits == (sp.Tuple(TOKEN, 1, evidence.location.parameters[3]),) and power.is_Integer:
            return jnp.sum(arrays[base] ** int(power), axis=-1)
    raise LoweringError(f"no lowering for {body} under a planted average")

