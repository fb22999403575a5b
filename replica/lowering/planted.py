"""Evaluation of planted averages (``equations.planted``) on samples, all of one law in one pass.

Samples come in blocks that fit the cache; every block is weighted, summed over its locations and
averaged.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import sympy as sp

from equations.slr.data import TOKEN
from equations.slr.planted_average import (
    LocationLaw,
    LogEvidence,
    PlantedAverage,
    Score,
    Slope,
)
from solvers.attention import location_law

from ..errors import LoweringError
from .evaluate import SCRAMBLE, Evaluation
from .node_sizes import NodeSizes
from .rules import PARTS, lowers

BLOCK = 2**19
"""Samples times tokens times nodes of a block."""
Scalar = Callable[[sp.Expr], jax.Array]
GROUPS = "planted averages by law"
"""Where an evaluation notes what is asked of each law."""


class Group(NamedTuple):
    """What is asked of one law: averages, and the symbols with respect to which their
    slopes are.
    """

    nodes: tuple[PlantedAverage, ...]
    variables: tuple[sp.Symbol, ...]


Law = tuple[LogEvidence, sp.Tuple]
"""log Z of a sample, and the law of the length (empty if it is a parameter)."""
Groups = dict[Law, Group]


def law_of(node: PlantedAverage | Slope) -> Law:
    """What the samples of an average, or of its slope, are drawn from."""
    average = node.average if isinstance(node, Slope) else node
    return average.evidence, average.lengths


def groups(expressions: Mapping[str, sp.Expr]) -> Groups:
    """The planted averages of ``expressions`` and their slopes, by law."""
    nodes: dict[Law, dict[PlantedAverage, None]] = {}
    variables: dict[Law, dict[sp.Symbol, None]] = {}
    for node in (n for e in expressions.values() for n in sp.preorder_traversal(e)):
        if isinstance(node, PlantedAverage):
            nodes.setdefault(law_of(node), {})[node] = None
        elif isinstance(node, Slope):
            variables.setdefault(law_of(node), {})[node.variable] = None
    return {law: Group(tuple(asked), tuple(variables.get(law, ()))) for law, asked in nodes.items()}


@lowers(PlantedAverage, Slope)
def planted(evaluation: Evaluation, e: PlantedAverage | Slope) -> jax.Array:
    """All averages of one law, and their slopes, at once: they share the samples."""
    if GROUPS not in evaluation.notes:
        evaluation.notes[GROUPS] = groups(evaluation.expressions)
    law = law_of(e)
    nodes, variables = evaluation.notes[GROUPS][law]
    scramble = evaluation.env.get(SCRAMBLE)

    def at(t: jax.Array) -> tuple[jax.Array, jax.Array]:
        moved = copy.copy(evaluation)
        moved.env = evaluation.env | {symbol: t[i] for i, symbol in enumerate(variables)}
        moved.memo, moved.shared, moved.write = {}, {}, False
        values = averages(law, nodes, evaluation.sizes, moved.scalar, scramble)
        return values, values

    here = jnp.array([evaluation.env[v] for v in variables], dtype=jnp.result_type(float))
    # No variable, no slope.
    slopes, values = jax.jacfwd(at, has_aux=True)(here) if variables else at(here)
    shape = (1,) * evaluation.ndim
    for i, node in enumerate(nodes):
        evaluation.memo[(node, ())] = values[i].reshape(shape)
        for j, variable in enumerate(variables):
            evaluation.memo[(Slope(node, variable), ())] = slopes[i, j].reshape(shape)
    return evaluation.memo[(e, ())]


PARTS.update((LogEvidence, LocationLaw, Score))


def averages(
    drawn: Law,
    nodes: Sequence[PlantedAverage],
    sizes: NodeSizes,
    scalar: Scalar,
    scramble: Any = None,
) -> jax.Array:
    """The value of each of ``nodes`` over one of the scrambled sets, or over all of them;
    ``scalar`` evaluates the parameters of the law.

    With a law of the length each length has its share of every set, and the sum over lengths has
    the weights of the law.
    """
    evidence, lengths = drawn
    (q_k, v_k), (q_v, width) = ([scalar(v) for v in pair] for pair in evidence.variances)
    nu, length = scalar(evidence.location.parameters[2]), evidence.location.parameters[3]
    tokens = max((int(n) for n, _ in lengths), default=sizes.tokens)
    if tokens is None:
        raise LoweringError("a planted average needs the number of tokens in its rule")
    if sizes.log2_samples < halvings(len(lengths)):
        raise LoweringError(
            f"a law of {len(lengths)} lengths needs log2_samples of at least"
            f" {halvings(len(lengths))} in its rule"
        )
    law = location_law.noise(v_k, nu)
    points = location_law.base_points(tokens, sizes.log2_samples, sizes.scrambles, sizes.seed)
    size = 2 ** max(
        0,
        min(
            sizes.log2_samples - halvings(len(lengths)),
            (BLOCK // (tokens * sizes.winner)).bit_length() - 1,
        ),
    )

    def mean(count: jax.Array, blocks: location_law.Points) -> jax.Array:
        def of_block(part: location_law.Points) -> jax.Array:
            samples = location_law.planted(part, count, law, q_k, q_v, width, sizes.winner)
            return jnp.stack([_mean(node, samples) for node in nodes])

        return jnp.mean(jax.lax.map(of_block, blocks), axis=0)

    shares = _shares(points, max(1, len(lengths)), size, scramble)
    if not lengths:
        return mean(scalar(length), jax.tree.map(lambda a: a[0], shares))
    counts, weights = (jnp.array(column, dtype=float) for column in zip(*lengths, strict=True))
    return weights @ jax.lax.map(lambda pair: mean(*pair), (counts, shares))


def halvings(lengths: int) -> int:
    """How often the samples of a set are halved, so that each of so many lengths has its share of
    them.
    """
    return max(0, lengths - 1).bit_length()


def _shares(
    points: location_law.Points, lengths: int, size: int, scramble: Any
) -> location_law.Points:
    """The points of all sets, or of set ``scramble``, as (length, block, ``size``): consecutive
    points of a Sobol set are one themselves.
    """
    if scramble is not None:
        points = location_law.Points(
            *(jnp.asarray(a)[jnp.asarray(scramble, dtype=int)][None] for a in points)
        )

    def cut(a: Any) -> jax.Array:
        rest = a.shape[2:]
        parts = jnp.moveaxis(
            jnp.asarray(a).reshape(a.shape[0], 2 ** halvings(lengths), -1, size, *rest), 1, 0
        )
        return parts.reshape(len(parts), -1, size, *rest)[:lengths]

    return location_law.Points(*(cut(a) for a in points))


def _mean(node: PlantedAverage, samples: location_law.Planted) -> jax.Array:
    """Weighted mean of the body over samples and locations."""
    value = _body(node.body, node.evidence, samples)
    if value.ndim == 1:  # free of the location and the label: their sum is 1
        return jnp.mean(samples.weight * value)
    return jnp.mean(jnp.sum(samples.location_weight * value, axis=1))


def _body(body: sp.Expr, evidence: LogEvidence, samples: location_law.Planted) -> jax.Array:
    """``body`` as an array over (sample, location), or over samples if it sees the keys alone."""
    if body == evidence:
        return samples.log_z
    if isinstance(body, sp.Sum):
        base, power = body.function.as_base_exp()  # type: ignore[attr-defined]
        arrays = {
            Score(evidence, 0): samples.key_score,
            Score(evidence, 1): samples.value_score,
            evidence.location: samples.probability,
        }
        if (
            base in arrays
            and body.limits == (sp.Tuple(TOKEN, 1, evidence.location.parameters[3]),)
            and power.is_Integer
        ):
            return jnp.sum(arrays[base] ** int(power), axis=-1)
    raise LoweringError(f"no lowering for {body} under a planted average")
