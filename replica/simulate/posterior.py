r"""The posterior of slr-bayes as message passing sees it: output functions of a sample, and the
prediction for a fresh one.

    g_a = d log Z_out/d omega_a,     c_a = -d g_a/d omega_a,
    E[y | X] = sum_l P(eps = l | omega_k) omega_v,l

All are derived from the channel of the model (``equations.output``). Spiked data: symbol by symbol,
as a function of what one token sees of the others. Max rule: g is the ``Score`` of log Z_out, on
the nodes of the theory's own integral over the largest noisy key, and c_k its forward derivative.
Source: theory.md sections 4 and 6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from equations import Model
from equations.slr.output_functions import JointOutput, Output, output, symbols
from solvers.attention import location_law

from ..lowering.lower import function
from ..lowering.planted import BLOCK
from ..theories import theory_of

Channel = Callable[..., tuple[jax.Array, jax.Array, jax.Array]]
"""(omega_k, omega_v of shape (L, N), y, present or None, V_k, V_v) -> g_k, g_v of that shape, and
sum c_k.
"""


@dataclass(frozen=True)
class Posterior:
    """What message passing needs of a model.

    Attributes
    ----------
    channel : Channel
    confinement : float
        Precision of k beside the prior's: alpha nu, from the factors exp(-nu |k|^2/(2D)) of spiked
        samples.
    predict : (omega_k, omega_v, present or None, V_k) -> E[y | X]
    """

    channel: Channel
    confinement: float
    predict: Callable[..., jax.Array]


def posterior(model: Model, values: Mapping[str, float]) -> Posterior:
    """The output functions of ``model`` at these controls, compiled."""
    derived = output(model)
    return (
        _joint(model, values, derived)
        if isinstance(derived, JointOutput)
        else _by_token(model, values, derived)
    )


def _by_token(model: Model, values: Mapping[str, float], derived: Output) -> Posterior:
    names = symbols(model)
    exponent, g_k, g_v, c_k = (
        function(names, e)
        for e in (
            derived.exponent,
            derived.forces["k"],
            derived.forces["v"],
            derived.curvatures["k"],
        )
    )
    controls = [values[q.name] for q in model.controls]

    @jax.jit
    def channel(
        omega_k: jax.Array, omega_v: jax.Array, y: jax.Array, present: Any, V_k: Any, V_v: Any
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        overlaps = (1 - V_k, 1 - V_v)
        there = True if present is None else present > 0
        others = _others(
            jnp.where(there, exponent(omega_k, omega_v, y, 0.0, *overlaps, *controls), -jnp.inf)
        )
        at = (omega_k, omega_v, y, others, *overlaps, *controls)
        forces = [jnp.where(there, g(*at), 0.0) for g in (g_k, g_v)]
        return forces[0], forces[1], jnp.sum(jnp.where(there, c_k(*at), 0.0))

    @jax.jit
    def predict(omega_k: jax.Array, omega_v: jax.Array, present: Any, V_k: Any) -> jax.Array:
        s = jax.nn.softmax(
            jnp.sqrt(values["nu"]) * omega_k, axis=0, where=None if present is None else present > 0
        )
        return jnp.sum(s * omega_v, axis=0)

    return Posterior(channel, values["alpha"] * values["nu"], predict)


def _others(a: jax.Array) -> jax.Array:
    """log sum_{l' != l} exp(a_l') over the first axis, nothing cancelling: the largest term is left
    out explicitly where it is l.
    """
    top = jax.nn.one_hot(a.argmax(axis=0), a.shape[0], axis=0, dtype=bool)
    total = jax.nn.logsumexp(a, axis=0)
    without_top = jax.nn.logsumexp(jnp.where(top, -jnp.inf, a), axis=0)
    share = jnp.where(top, 0.0, jnp.exp(a - total))  # at most 1/2
    return jnp.where(top, without_top, total + jnp.log1p(-share))


def _joint(model: Model, values: Mapping[str, float], derived: JointOutput) -> Posterior:
    seen = _Seen(model, values, derived)
    return Posterior(jax.jit(seen.channel), 0.0, jax.jit(seen.predict))


class _Seen:
    """What all tokens of a sample say together, at given controls."""

    def __init__(self, model: Model, values: Mapping[str, float], derived: JointOutput) -> None:
        (_, v_k), (_, width) = derived.log_z.variances
        known = [*(q.symbol for q in model.overlaps), *(q.symbol for q in model.controls)]
        self.widths = [function(known, e) for e in (v_k, width)]
        self.controls = [values[q.name] for q in model.controls]
        self.nu, self.tokens = jnp.asarray(values["nu"]), int(values["L"])
        self.nodes = theory_of(model).node_sizes(dict(values)).winner
        self.rows = max(1, BLOCK // (self.tokens * self.nodes))
        log_z = derived.log_z
        self.names = log_z.score("k"), log_z.score("v")
        self.asked = derived.forces["k"], derived.forces["v"]

    def sample(
        self,
        law: location_law.Noise,
        omega_k: jax.Array,
        omega_v: jax.Array,
        y: jax.Array,
        width: jax.Array,
    ) -> tuple[dict[Any, jax.Array], jax.Array]:
        """Derivatives of log Z of one sample, by node, and the probabilities of the locations."""
        h, present = law.rate * omega_k[None], jnp.ones(self.tokens, bool)
        top, label = h.max(axis=1, keepdims=True), y[None, None]
        found = location_law.scored(law, h, omega_v[None], label, width, present, self.nodes, top)
        scores = dict(zip(self.names, (found.key_score, found.value_score), strict=True))
        return {name: score[0, 0] for name, score in scores.items()}, found.probability[0]

    def channel(
        self,
        omega_k: jax.Array,
        omega_v: jax.Array,
        y: jax.Array,
        present: Any,
        V_k: Any,
        V_v: Any,
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """g of both fields, and sum c_k."""
        variance, width = (f(1 - V_k, 1 - V_v, *self.controls) for f in self.widths)
        law, (score_k, score_v) = location_law.noise(variance, self.nu), self.asked

        def one(at: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, ...]:
            def force(omega: jax.Array) -> jax.Array:
                return self.sample(law, omega, *at[1:], width)[0][score_k]

            forces = self.sample(law, *at, width)[0]
            return forces[score_k], forces[score_v], -jnp.trace(jax.jacfwd(force)(at[0]))

        g_k, g_v, c_k = jax.lax.map(one, (omega_k.T, omega_v.T, y), batch_size=self.rows)
        return g_k.T, g_v.T, jnp.sum(c_k)

    def predict(self, omega_k: jax.Array, omega_v: jax.Array, present: Any, V_k: Any) -> jax.Array:
        """E[y | X]."""
        law = location_law.noise(self.widths[0](1 - V_k, 0.0, *self.controls), self.nu)

        def one(at: tuple[jax.Array, jax.Array]) -> jax.Array:
            return jnp.sum(self.sample(law, *at, jnp.zeros(()), jnp.ones(()))[1] * at[1])

        return jax.lax.map(one, (omega_k.T, omega_v.T), batch_size=self.rows)
