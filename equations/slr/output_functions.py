r"""Output functions of message passing, derived from the log-partition function of a model's
channel.

    log Z_out(y, omega) = log sum_l exp(a_l) + const,     g_a = d log Z_out/d omega_a,l,
    c_a = -d^2 log Z_out/d omega_a,l^2

a_l is read off the channel of the model, so that message passing and state evolution have one
source. Seen from token l the others enter through R_l = log sum_{l' != l} exp(a_l') alone, and log
Z_out = R_l + log(1 + exp(a_l - R_l)).

The channel of the max rule is an average of log Z_out as one node, since all keys together weight a
location: g_a is its ``Score``.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from ..calculus.special_functions import LogSumExp, Softplus
from ..model import Model
from .data import KEY_FIELD, LABEL, TOKEN, VALUE_FIELD
from .planted_average import LogEvidence, PlantedAverage, Score

OMEGA = {"k": sp.Symbol("omega_k", real=True), "v": sp.Symbol("omega_v", real=True)}
OTHERS = sp.Symbol("R", real=True)


@dataclass(frozen=True)
class Output:
    """Of one token: the exponent a_l, and per field g and c, in omega_k, omega_v, y, R, the
    overlaps and the controls.
    """

    exponent: sp.Expr
    forces: dict[str, sp.Expr]
    curvatures: dict[str, sp.Expr]


@dataclass(frozen=True)
class JointOutput:
    """Of all tokens of a sample: log Z_out and its derivative by each field."""

    log_z: LogEvidence
    forces: dict[str, Score]


def output(model: Model) -> Output | JointOutput:
    """The output functions of a model whose channel holds one log-sum over tokens (of one or more
    lengths), or one average of log Z_out.
    """
    if model.channel.has(PlantedAverage):
        (log_z,) = model.channel.atoms(LogEvidence)
        return JointOutput(log_z, {a: log_z.score(a) for a in OMEGA})
    (term,) = {
        log_sum.args[0].subs(log_sum.args[1], TOKEN) for log_sum in model.channel.atoms(LogSumExp)
    }
    plain = {KEY_FIELD[TOKEN]: OMEGA["k"], VALUE_FIELD[TOKEN]: OMEGA["v"]}
    exponent = term.xreplace(plain)
    log_z = OTHERS + Softplus(exponent - OTHERS)
    forces = {a: log_z.diff(w) for a, w in OMEGA.items()}
    return Output(exponent, forces, {a: -forces[a].diff(w) for a, w in OMEGA.items()})


def symbols(model: Model) -> list[sp.Symbol]:
    """What the output functions depend on, in the order in which it is given to them."""
    return [
        *OMEGA.values(),
        LABEL,
        OTHERS,
        *(q.symbol for q in model.overlaps),
        *(q.symbol for q in model.controls),
    ]
