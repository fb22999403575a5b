r"""The saddle-point map of a model with a Moreau envelope, on fixed samples.

    x -> omega (symbols) -> minimiser (solvers) -> hats(x) (derived equations) -> F(x)

The equations evaluated here are those that ``derive`` makes from the free energy; the minimiser
enters them as the values of the fields chi and z. Its dependence on x is carried by the implicit
function theorem, so dF/dx is exact as long as no sample changes its valley.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import sympy as sp

from equations import EmpiricalRisk, Model
from equations.calculus.discontinuities import breakpoints, curved
from equations.calculus.discontinuities import samples as samples_of
from equations.calculus.envelope import (
    PRESENT,
    AtProx,
    BasinChange,
    ForceDivergence,
    ForceResponse,
    MoreauEnvelope,
    ProxFailure,
    ProxForce,
    TeacherAverage,
    linear_predictor,
    token_function,
)
from solvers.attention import affine_prox, global_prox, prox
from solvers.attention.data import Samples
from solvers.attention.problem import Attention, Channel, Norm, TokenWeight, values

from ...errors import LoweringError
from ...lowering.evaluate import Evaluation
from ...lowering.lower import unsupported
from ...lowering.node_sizes import NodeSizes
from .reduced import ReducedEquations, control_values

Arrays = Mapping[Any, jax.Array]
FLAT = 1e-15
"""q - m^2 below this fraction of 1 + m^2 is taken to be it: f/sqrt(q - m^2) has a limit there, and
floating point has none.
"""


class Response(NamedTuple):
    """Linear response of the minimiser per sample: divergences (2, n), squared responses (2, 2, n),
    basin changes and failures (n,).
    """

    divergence: jax.Array
    squared: jax.Array
    changed: jax.Array
    failed: jax.Array


class SampledEvaluation(Evaluation):
    """Evaluation on one set of samples, (sample, token) axes; the minimiser's fields are bound like
    data.
    """

    def __init__(
        self,
        envelope: MoreauEnvelope,
        average: TeacherAverage,
        unknowns: list[sp.Symbol],
        x: jax.Array,
        controls: Arrays,
        data: Samples,
    ) -> None:
        sample, index = samples_of(average), envelope.index
        super().__init__(
            {sample: 0, index: 1},
            NodeSizes(tokens=data.tokens.shape[-1]),
            unknowns,
            x,
            controls,
            {},
            write=False,
        )
        self.index, self.weights, self.response = index, data.weights[:, None], None
        common, tokens = average.parameters[1], average.parameters[2]
        self.env[common[0]] = data.common[:, None]
        self.env[sp.Indexed(PRESENT, index)] = data.present
        for base, block in zip(tokens, data.tokens, strict=True):
            self.env[sp.Indexed(base, index)] = block
            self.env[sp.Indexed(base, sp.Integer(1))] = block[:, :1]

    def bind_minimiser(
        self,
        envelope: MoreauEnvelope,
        fields: tuple[jax.Array, jax.Array],
        response: Response | None = None,
    ) -> None:
        for (x, *_), array in zip(envelope.fields, fields, strict=True):
            self.env[sp.Indexed(x, self.index)] = array.T
        self.response = response

    def laid(self, expr: sp.Expr, count: sp.Expr) -> jax.Array:
        """``expr`` on the (sample, token) axes."""
        return self.over_tokens(self.index, count, lambda: self.value(expr))

    def evaluated(self, e: Any) -> Any:
        if isinstance(e, TeacherAverage):
            count = e.parameters[0]
            inside = self.over_tokens(self.index, count, lambda: self.value(e.body))
            return jnp.sum(self.weights * inside, axis=0, keepdims=True)
        if isinstance(e, ProxForce):
            return self.value(e.explicit)
        if isinstance(e, AtProx):
            return self.value(e.args[0])
        if isinstance(e, MoreauEnvelope):
            return self.value(e.minimised)
        if isinstance(e, ForceDivergence | ForceResponse | BasinChange | ProxFailure):
            return self._responses(e)
        return super().evaluated(e)

    def _responses(self, e: Any) -> jax.Array:
        assert self.response is not None
        if isinstance(e, BasinChange | ProxFailure):
            return (self.response.changed if isinstance(e, BasinChange) else self.response.failed)[
                :, None
            ]
        part = self.response.divergence if isinstance(e, ForceDivergence) else self.response.squared
        return part[tuple(int(a) for a in e.args[1:])][:, None]


@dataclass(frozen=True, eq=False)
class ProximalMap:
    """A model's equations, ready to be evaluated on samples with ``tokens`` tokens.

    All methods take the overlaps ``x``, the control values ``c`` and one set of samples, and are
    traceable.
    """

    model: Model
    tokens: int

    envelope: MoreauEnvelope = field(init=False)
    average: TeacherAverage = field(init=False)
    target: sp.Expr = field(init=False)
    weight: sp.Expr = field(init=False)
    token: tuple[str, sp.Expr] | None = field(init=False)
    affine: tuple[sp.Expr, sp.Expr] | None = field(init=False)
    breakpoints: tuple[sp.Expr, ...] = field(init=False)
    closing: ReducedEquations = field(init=False)

    def __post_init__(self) -> None:
        channel = self.model.channel
        (envelope,), (average,) = channel.atoms(MoreauEnvelope), channel.atoms(TeacherAverage)
        target, weight = linear_predictor(envelope)
        problem = next(filter(None, map(unsupported, sp.preorder_traversal(weight))), None)
        if problem:
            raise LoweringError(f"model {self.model.name}: {problem}")
        parts = {
            "envelope": envelope,
            "average": average,
            "target": target,
            "weight": weight,
            "token": token_function(envelope, weight),
            "affine": _affine(envelope, weight),
        }
        parts |= {
            "breakpoints": _breakpoints(envelope, weight, self.model.name),
            "closing": ReducedEquations(self.model),
        }
        for name, part in parts.items():
            object.__setattr__(self, name, part)

    def evaluation(self, x: jax.Array, c: jax.Array, data: Samples) -> SampledEvaluation:
        unknowns = [q.symbol for q in self.model.overlaps]
        return SampledEvaluation(
            self.envelope,
            self.average,
            unknowns,
            regular(self.model, x),
            control_values(self.model, c),
            data,
        )

    def channel(self, x: jax.Array, c: jax.Array, data: Samples) -> Channel:
        """The proximal problems: tokens first, samples last."""
        e = self.evaluation(x, c, data)
        (_, key, key_width, _), (_, value, value_width, _) = self.envelope.fields
        shape = data.tokens.shape[1:]
        centres = [jnp.broadcast_to(e.laid(f, self.envelope.count), shape).T for f in (key, value)]
        label = jnp.broadcast_to(e.laid(self.target, self.envelope.count), (shape[0], 1))[:, 0]
        widths = [jnp.reshape(e.value(w), ()) for w in (key_width, value_width)]
        return Channel(*centres, label, *widths, jnp.asarray(data.present).T)

    def attend(self, c: jax.Array) -> Attention:
        """chi, present -> sigma(chi), tokens first."""
        index, key, controls = (
            self.envelope.index,
            self.envelope.fields[0][0],
            control_values(self.model, c),
        )

        def sigma(chi: jax.Array, present: jax.Array) -> jax.Array:
            e = Evaluation(
                {index: 0, sp.Symbol("sample_"): 1},
                NodeSizes(tokens=self.tokens),
                [],
                jnp.zeros(0),
                controls,
                {},
                write=False,
            )
            e.env |= {sp.Indexed(key, index): chi, sp.Indexed(PRESENT, index): present}
            value = e.over_tokens(index, self.envelope.count, lambda: e.value(self.weight))
            return jnp.broadcast_to(value, chi.shape)

        e = Evaluation({}, NodeSizes(), [], jnp.zeros(0), controls, {}, write=False)
        kinks = tuple(jnp.asarray(e.value(kink), dtype=float) for kink in self.breakpoints)
        return Attention(sigma, kinks, self._token_weight(controls))

    def _token_weight(self, controls: Arrays) -> TokenWeight | None:
        """The weight as a function of one token, where it is made of one."""
        if self.token is None:
            return None
        norm, expr = self.token
        index, key = self.envelope.index, self.envelope.fields[0][0]

        def phi(chi: jax.Array, present: jax.Array) -> jax.Array:
            e = Evaluation({}, NodeSizes(), [], jnp.zeros(0), controls, {}, write=False)
            e.env |= {sp.Indexed(key, index): chi, sp.Indexed(PRESENT, index): present}
            return jnp.broadcast_to(e.value(expr), chi.shape)

        return TokenWeight(phi, Norm[norm.upper()])

    def _affine_values(self, c: jax.Array) -> tuple[jax.Array, jax.Array]:
        e = Evaluation(
            {}, NodeSizes(), [], jnp.zeros(0), control_values(self.model, c), {}, write=False
        )
        return tuple(jnp.asarray(e.value(a), dtype=float) for a in self.affine)  # type: ignore[return-value]

    def warm(
        self, x: jax.Array, c: jax.Array, data: Samples, known: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """The minimiser followed from ``known`` (chi, or r for affine attention), and where that
        failed.
        """
        at = self.channel(x, c, data)
        if self.affine:
            r = affine_prox.residual(at, *self._affine_values(c))
            return r, ~jnp.isfinite(r)
        return global_prox.follow(self.attend(c), at, known)

    def search(
        self, x: jax.Array, c: jax.Array, data: Samples, known: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """The minimiser from several starts, where it is not the one that ``known`` leads to, and
        where that failed.
        """
        at = self.channel(x, c, data)
        if self.affine:  # one root, one minimum
            r = affine_prox.residual(at, *self._affine_values(c))
            return r, jnp.zeros(r.shape, dtype=bool), ~jnp.isfinite(r)
        return global_prox.search(self.attend(c), at, known)

    def unknown(self, data: Samples) -> jax.Array:
        """Something to start the first search from."""
        n = data.common.shape[0]
        return jnp.zeros(n) if self.affine else jnp.zeros((self.tokens, n))

    def minimiser(self, at: Channel, c: jax.Array, found: jax.Array) -> tuple[jax.Array, jax.Array]:
        """chi and z at the minimum ``found``, differentiable in the channel."""
        if self.affine:
            return affine_prox.minimiser(at, *self._affine_values(c), found)
        chi = prox.responsive(self.attend(c), at, found)
        return chi, values(self.attend(c), at, chi)

    def averages(
        self,
        x: jax.Array,
        c: jax.Array,
        data: Samples,
        found: jax.Array,
        nodes: Sequence[sp.Expr],
        response: Response | None = None,
    ) -> jax.Array:
        """The value of each average in ``nodes`` over the samples, weighted as they are."""
        e = self.evaluation(x, c, data)
        e.bind_minimiser(
            self.envelope, self.minimiser(self.channel(x, c, data), c, found), response
        )
        return jnp.stack([e.scalar(node) for node in nodes])

    def response(
        self,
        x: jax.Array,
        c: jax.Array,
        data: Samples,
        found: jax.Array,
        flags: tuple[jax.Array, jax.Array],
    ) -> Response:
        """d f/d omega of every sample, one tangent per field and token."""
        at = self.channel(x, c, data)

        def forces(key: jax.Array, value: jax.Array) -> tuple[jax.Array, jax.Array]:
            moved = at._replace(key=key, value=value)
            chi, z = self.minimiser(moved, c, found)
            return (chi - key) / at.key_width, (z - value) / at.value_width

        _, push = jax.linearize(forces, at.key, at.value)
        zero = jnp.zeros_like(at.key)
        divergence, squared = [], []
        for b in range(2):
            parts = []
            for token in range(self.tokens):
                tangent = zero.at[token].set(1.0)
                parts.append(jnp.stack(push(*((tangent, zero) if b == 0 else (zero, tangent)))))
            slopes = jnp.stack(parts)  # (l', a, l, n)
            divergence.append(jnp.einsum("lln->n", slopes[:, b]))
            squared.append(jnp.sum(slopes**2, axis=(0, 2)))
        return Response(
            jnp.stack(divergence), jnp.stack(squared, axis=1), *(f.astype(float) for f in flags)
        )


def regular(model: Model, x: jax.Array) -> jax.Array:
    """``x`` with q - m^2 of each trained vector kept off zero by ``FLAT``, where the
    reparametrised average has only a limit.
    """
    names = [q.name for q in model.overlaps]
    for w in cast(EmpiricalRisk, model.theory).weights:
        m, q = names.index(w.teacher), names.index(w.norm)
        x = x.at[q].set(jnp.maximum(x[q], x[m] ** 2 + FLAT * (1 + x[m] ** 2)))
    return x


def _affine(envelope: MoreauEnvelope, weight: sp.Expr) -> tuple[sp.Expr, sp.Expr] | None:
    """(intercept, slope) if s_l = intercept + slope chi_l."""
    chi = envelope.fields[0][0][envelope.index]
    plain = sp.Symbol("plain_", real=True)
    expr = weight.xreplace(
        {chi: plain, PRESENT[envelope.index]: sp.S.One}
    )  # absent tokens are left out of the statistics
    slope = expr.diff(plain)  # type: ignore[attr-defined]
    if (
        slope.has(plain)
        or expr.has(sp.Sum)
        or slope == 0
        or any(isinstance(s, sp.Indexed) for s in expr.atoms(sp.Indexed))
    ):
        return None
    return expr.subs(plain, 0), slope


def _breakpoints(envelope: MoreauEnvelope, weight: sp.Expr, model: str) -> tuple[sp.Expr, ...]:
    """Where the attention bends in chi_l, as expressions in the controls."""
    plain = sp.Symbol("plain_", real=True)
    expr = weight.xreplace({envelope.fields[0][0][envelope.index]: plain})
    if expr.has(sp.Heaviside, sp.sign):
        raise LoweringError(
            f"model {model}: the attention jumps, so that its proximal minimum need not exist: use"
            " a continuous activation"
        )
    bend = curved(expr, plain)
    if bend is not None:
        raise LoweringError(
            f"model {model}: the attention bends where {bend} vanishes: write it with arguments"
            " linear in chi"
        )
    return tuple(breakpoints(expr, plain))


@cache
def proximal_map(model: Model, tokens: int) -> ProximalMap:
    """The map; the same object for the same arguments."""
    return ProximalMap(model, tokens)
