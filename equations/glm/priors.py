"""Prior terms of the free energy, per dimension."""

from __future__ import annotations

import sympy as sp

from ..calculus.averages import Average
from ..calculus.special_functions import LogCosh, Rounded, Softplus
from ..quantities import Quantity
from .densities import Component

FIELD, STANDARD = sp.Symbol("h", real=True), sp.Symbol("g", real=True)


def gaussian_term(q_hat: sp.Expr) -> sp.Expr:
    """E log Z of a N(0, 1) variable seen in Gaussian noise of precision q_hat: (q_hat - log(1 +
    q_hat))/2.

    Parameters
    ----------
    q_hat : expression

    Returns
    -------
    expression
    """
    return (q_hat - sp.log(1 + q_hat)) / 2


def sign_term(q_hat: sp.Expr) -> sp.Expr:
    """E log Z of a +-1 variable: E log 2cosh h - q_hat/2, h ~ N(q_hat, q_hat) (planted at +1 by
    symmetry).

    Parameters
    ----------
    q_hat : expression

    Returns
    -------
    expression
    """
    return Average(sp.log(2) + LogCosh(FIELD), FIELD, q_hat, q_hat) - q_hat / 2


def sign_error_term(q_hat: sp.Expr) -> sp.Expr:
    """sign_term - q_hat/2 = E log(1 + e^{-2h}), for models with the overlap V = 1 - q and the
    coupling + V q_hat/2.

    Its derivative is -V/2 with V = E[(1 - tanh h)^2] to relative accuracy, however small V is.
    """
    return Average(Softplus(-2 * FIELD), FIELD, q_hat, q_hat, 0, 1)


def mixture_error_term(prior: tuple[Component, ...], q_hat: sp.Expr) -> sp.Expr:
    """E log Z of a variable from a mixture, minus E[x^2] q_hat/2; for models with the overlap V =
    E[x^2] - q and the coupling + V q_hat/2.

    Of the field h = q_hat x + sqrt(q_hat) xi, component b has the evidence w_b Z_b(h). If x is from
    component a, log sum_b w_b Z_b = log w_a Z_a + log(1 + sum_{b != a} w_b Z_b/(w_a Z_a)), of which
    the first term has a closed mean: what remains to be averaged is small where a is recognised, so
    that V is known to relative accuracy, however small.

    Parameters
    ----------
    prior : tuple of Component
        Weight, mean and variance of each part of the mixture.
    q_hat : expression

    Returns
    -------
    expression
    """
    strength = Rounded(q_hat)
    total = sp.S.Zero
    for planted in prior:
        fields, law = _fields(planted, strength)
        here = _log_evidence(planted, fields, strength)
        inside = sp.log(planted.weight) - sp.log(1 + strength * planted.variance) / 2
        below = sp.S.Zero
        for other in prior:
            if other is not planted:
                excess = Softplus(_log_evidence(other, fields, strength) - here - below)
                inside += Average(excess, *law, *_confusion(planted, other, strength))
                below += excess
        total += planted.weight * inside
    return total


def _fields(
    planted: Component, strength: sp.Expr
) -> tuple[tuple[sp.Expr, sp.Expr], tuple[sp.Expr, ...]]:
    """(h, h^2) of a variable from one component, as functions of what is averaged over, and the law
    of that.

    For a point mass h itself is averaged over. For a Gaussian its deviation grows like q_hat, and
    what matters is a small part of it, sqrt(q_hat): there the standard variable is better,
    derivatives of a law cancel to a fraction 1/q_hat^2.
    """
    if planted.variance == 0:
        return (FIELD, FIELD**2), (FIELD, strength * planted.mean, strength)
    shift, spread = strength * planted.mean, strength * (1 + strength * planted.variance)
    square = shift**2 + 2 * shift * sp.sqrt(spread) * STANDARD + spread * STANDARD**2
    return (shift + sp.sqrt(spread) * STANDARD, square), (STANDARD, 0, 1)


def _log_evidence(c: Component, fields: tuple[sp.Expr, sp.Expr], strength: sp.Expr) -> sp.Expr:
    """log w E_x[exp(h x - q_hat x^2/2)] of one component."""
    h, square = fields
    precision = 1 + strength * c.variance
    exponent = (c.variance * square / 2 + c.mean * h - strength * c.mean**2 / 2) / precision
    return sp.log(c.weight) - sp.log(precision) / 2 + exponent


def _confusion(planted: Component, other: Component, strength: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """Centre and width of where one component may be taken for another."""
    gap = other.mean - planted.mean
    if planted.variance == 0 and other.variance == 0:
        return strength * (planted.mean + other.mean) / 2 + sp.log(
            planted.weight / other.weight
        ) / gap, 1 / sp.Abs(gap)
    width = 1 + strength + strength**2 * other.variance
    if planted.variance == 0:
        return strength * other.mean, sp.sqrt(width)
    return sp.sqrt(strength) * gap / sp.sqrt(1 + strength * planted.variance), sp.sqrt(
        width / (1 + strength + strength**2 * planted.variance)
    )


def overlap_coupling(overlaps: tuple[Quantity, ...], conjugates: tuple[Quantity, ...]) -> sp.Expr:
    """-sum_a q_a q_a_hat / 2."""
    return (
        -sum((q.symbol * h.symbol for q, h in zip(overlaps, conjugates, strict=True)), sp.S.Zero)
        / 2
    )
