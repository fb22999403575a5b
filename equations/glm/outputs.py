r"""The laws of labels P(y|z) that everybody in the field knows, by name."""

from __future__ import annotations

from typing import NamedTuple

import sympy as sp

from ..calculus.averages import Average
from ..calculus.special_functions import Logistic
from ..quantities import Quantity, quantity
from .densities import Channel, Y, Z, normal
from .pieces import OMEGA
from .priors import STANDARD

NOISE = quantity("Delta", open_low=True)
EDGE = Quantity("K", "K", 0, open_low=True, meaning="half the width of the door")
DEVIATION = sp.sqrt(2 * NOISE.symbol)


class Output(NamedTuple):
    """P(y|z).

    Attributes
    ----------
    channel : expression in y and z, {value: probability}, or Eq(y, f(z))
    controls : tuple of Quantity
        What it contains.
    noise : expression
        Variance of the Gaussian that is added to z.
    is_binary : bool
        Whether labels are +-1.
    is_step : bool
        Whether y is a function of z that is constant between jumps.
    """

    channel: Channel
    controls: tuple[Quantity, ...] = ()
    noise: sp.Expr = sp.S.Zero
    is_binary: bool = False
    is_step: bool = False


OUTPUTS = {
    "linear": Output(normal(Y, Z, NOISE.symbol), (NOISE,), NOISE.symbol),
    "sign": Output(sp.Eq(Y, sp.sign(Z)), is_binary=True, is_step=True),
    "probit": Output(
        {1: sp.erfc(-Z / DEVIATION) / 2, -1: sp.erfc(Z / DEVIATION) / 2},
        (NOISE,),
        NOISE.symbol,
        is_binary=True,
    ),
    "abs": Output(sp.Eq(Y, sp.Abs(Z))),
    "relu": Output(sp.Eq(Y, sp.Max(Z, 0))),
    "door": Output(
        sp.Eq(Y, sp.sign(sp.Abs(Z) - EDGE.symbol)), (EDGE,), is_binary=True, is_step=True
    ),
    "logistic": Output({1: 1 / (1 + sp.exp(-Z)), -1: 1 / (1 + sp.exp(Z))}, is_binary=True),
}


def wrong_guesses(known: sp.Expr, unknown: sp.Expr) -> sp.Expr:
    """P(y != sign(omega)) of logistic labels: omega ~ N(0, known), z ~ N(omega, unknown)."""
    field = OMEGA + sp.sqrt(unknown) * STANDARD
    wrong = Average(Logistic(-sp.sign(OMEGA) * field), STANDARD)
    return Average(wrong, OMEGA, 0, known)
