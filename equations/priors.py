"""Prior terms of the free energy, per dimension."""

from __future__ import annotations

import sympy as sp

from .nodes import Average
from .stable import LogCosh, Softplus
from .symbols import Quantity

FIELD = sp.Symbol("h", real=True)


def gaussian_term(q_hat: sp.Expr) -> sp.Expr:
    """E log Z of a N(0, 1) variable seen in Gaussian noise of precision q_hat: (q_hat - log(1 + q_hat))/2."""
    return (q_hat - sp.log(1 + q_hat)) / 2


def sign_term(q_hat: sp.Expr) -> sp.Expr:
    """The same for a +-1 variable: E log 2cosh h - q_hat/2, h ~ N(q_hat, q_hat) (planted at +1 by symmetry)."""
    return Average(sp.log(2) + LogCosh(FIELD), FIELD, q_hat, q_hat) - q_hat / 2


def sign_error_term(q_hat: sp.Expr) -> sp.Expr:
    """sign_term - q_hat/2 = E log(1 + e^{-2h}), for models with the overlap V = 1 - q and the coupling + V q_hat/2.

    Its derivative is -V/2 with V = E[(1 - tanh h)^2] to relative accuracy, however small V is.
    """
    return Average(Softplus(-2 * FIELD), FIELD, q_hat, q_hat, 0, 1)


def overlap_coupling(overlaps: tuple[Quantity, ...], conjugates: tuple[Quantity, ...]) -> sp.Expr:
    """-sum_a q_a q_a_hat / 2."""
    return -sum((q.symbol * h.symbol for q, h in zip(overlaps, conjugates, strict=True)), sp.S.Zero) / 2
