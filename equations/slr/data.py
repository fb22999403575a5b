"""What the single-location models share: token fields and their law, planted by an exponential
tilt.

Source: [SLR] arXiv 2509.21936, section 2 (their Delta^2 is our Delta, their g_nu is L w_eps).
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from ..calculus.averages import TokenAverage
from ..calculus.gaussian import tilt
from ..quantities import quantity
from .laws import Classes, Law

PAPER = (
    "Statistical Advantage of Softmax Attention: Insights from Single-Location Regression, arXiv"
    " 2509.21936"
)
TOKEN = sp.Symbol("l", integer=True, positive=True)
LABEL = sp.Symbol("y", real=True)
KEY_FIELD, VALUE_FIELD = sp.IndexedBase("omega_k"), sp.IndexedBase("omega_v")
LENGTH, SPIKE, NOISE = (quantity(name) for name in ("L", "nu", "Delta"))


@dataclass(frozen=True)
class SingleLocation:
    """The law of the samples.

    Attributes
    ----------
    rule : {"spiked", "max"}
        How the location is marked.
    strength : symbol
        The control nu.
    length : symbol or law
        The control L, or (length, probability) pairs.
    """

    rule: str
    strength: sp.Symbol
    length: sp.Symbol | Law


def key_law(q_k: sp.Expr) -> tuple[tuple[sp.Expr, sp.Expr], tuple[sp.Expr, sp.Expr]]:
    """Laws of the key field of the planted token and of any other: N(0, q_k) tilted by e^{sqrt(nu)
    omega}.
    """
    free = (sp.S.Zero, q_k)
    return tilt(free, sp.sqrt(SPIKE.symbol))[1], free


Focus = tuple[sp.Expr, ...]
"""(centre, width) of a narrow feature in a token field, or ()."""


def key_average(
    body: sp.Expr, q_k: sp.Expr, focus: Focus = (), classes: Classes = ()
) -> TokenAverage:
    """E[body] over the key fields alone."""
    planted, free = key_law(q_k)
    return TokenAverage(
        body,
        TOKEN,
        LENGTH.symbol,
        [],
        [(KEY_FIELD, *planted, *focus)],
        [(KEY_FIELD, *free, *focus)],
        classes,
    )


def attention_weight(
    phi: sp.Expr, q_k: sp.Expr, focus: Focus = (), classes: Classes = ()
) -> TokenAverage:
    """E[sigma_eps], sigma_l = phi_l/sum phi: the mean weight on the relevant token; ``phi`` in
    omega_k[l] (and log_p[l]).
    """
    return key_average(
        phi.subs(TOKEN, 1) / sp.Sum(phi, (TOKEN, 1, LENGTH.symbol)), q_k, focus, classes
    )


def attention_square(phi: sp.Expr, q_k: sp.Expr, focus: Focus = ()) -> TokenAverage:
    """E[sum_l sigma_l^2], sigma_l = phi_l/sum phi."""
    total = sp.Sum(phi, (TOKEN, 1, LENGTH.symbol))
    return key_average(sp.Sum(phi**2, (TOKEN, 1, LENGTH.symbol)) / total**2, q_k, focus)
