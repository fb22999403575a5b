r"""Penalties r(w) of empirical risk: their part of the energy, and the weights they leave free.

    E_h min_w [V_hat w^2/2 - h w + r(w)],   h = m_hat w* + sqrt(q_hat) xi ~ N(0, m_hat^2 + q_hat)

for Gaussian weights w* of the teacher, of unit variance. With r(w) = lam |w| + kappa w^2/2 the
minimum is -(|h| - lam)_+^2/(2 (V_hat + kappa)), whose mean is closed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import sympy as sp

from ..quantities import Quantity


class Penalty(NamedTuple):
    """lam |w| + kappa w^2/2.

    Attributes
    ----------
    absolute, square : expression
        lam and kappa.
    text : str
        As one writes it.
    controls : tuple of Quantity
        What it contains.
    """

    absolute: sp.Expr
    square: sp.Expr
    text: str
    controls: tuple[Quantity, ...]


RIDGE = Quantity("lam", r"\lambda", 0, open_low=True, meaning="ridge strength")
STRENGTH = replace(RIDGE, meaning="strength of the penalty")
SHARE = Quantity(
    "l1_ratio", r"\ell", 0, 1, open_low=True, open_high=True, meaning="share of |w| in the penalty"
)
PENALTIES = {
    "ridge": Penalty(sp.S.Zero, RIDGE.symbol, "lam |w|^2/2", (RIDGE,)),
    "l1": Penalty(STRENGTH.symbol, sp.S.Zero, "lam |w|_1", (STRENGTH,)),
    "elastic_net": Penalty(
        STRENGTH.symbol * SHARE.symbol,
        STRENGTH.symbol * (1 - SHARE.symbol),
        "lam (l1_ratio |w|_1 + (1 - l1_ratio) |w|^2/2)",
        (STRENGTH, SHARE),
    ),
}


def penalty_term(penalty: Penalty, m_hat: sp.Expr, q_hat: sp.Expr, v_hat: sp.Expr) -> sp.Expr:
    """Its part of the energy, per weight."""
    variance, stiffness = m_hat**2 + q_hat, v_hat + penalty.square
    if penalty.absolute == 0:
        return -variance / (2 * stiffness)
    edge, deviation = penalty.absolute, sp.sqrt(variance)
    u = edge / deviation
    tail = sp.erfc(u / sp.sqrt(2)) / 2
    bell = sp.exp(-(u**2) / 2) / sp.sqrt(2 * sp.pi)
    excess = (variance + edge**2) * tail - deviation * edge * bell
    return -excess / stiffness


def active_share(penalty: Penalty, alpha: sp.Expr, width: sp.Expr, held: sp.Expr) -> sp.Expr:
    """The share of the weights that are not zero at a saddle point, where V V_hat = alpha E[1 -
    prox'].

    Parameters
    ----------
    penalty : Penalty
    alpha, width : expressions
        The sample ratio, and the susceptibility V = share/(V_hat + kappa).
    held : expression
        E[1 - prox'].
    """
    if penalty.absolute == 0:
        return sp.S.One
    return alpha * held + width * penalty.square
