r"""Densities P(y|z) of a continuous label that are exponentials of what is quadratic in z, between
places where they bend or jump in z: |z| or max(z, 0) with Gaussian noise, Laplace noise, uniform
noise, mixtures of such.

The evidence Z(y, omega) = E[P(y|z)], z ~ N(omega, V), is a sum of closed terms: each the average
of an exponential of a quadratic times the probability that z, under the tilted law, lies between
the ends of its piece. What remains is Psi_out = E_omega int dy Z log Z:

    P depends on y - z alone    u = y - omega: one integral, with nodes around every bend of the
                                noise, on the scale sqrt(V) by which z blurs it
    each term Gaussian in y     an average over y under the term, for each term
"""

from __future__ import annotations

from typing import Any, NamedTuple

import sympy as sp

from ..calculus.averages import Average, LineIntegral
from ..calculus.discontinuities import on_side, vanishing
from ..calculus.special_functions import LogAdd, LogInterval, LogNdtr
from ..model import ModelError
from .densities import Y, Z, intervals, is_bent

OMEGA = sp.Symbol("omega", real=True)
LABEL = sp.Symbol("t", real=True)
"""A label in deviations from its mean, under one term."""
NEGLIGIBLE = 45
"""A density is negligible at e^-45 of its height."""
REACH = 9
"""And a Gaussian variable beyond so many deviations."""


class Term(NamedTuple):
    """weight e^exponent where low < z < high, the exponent a polynomial in z of degree <= 2."""

    low: sp.Expr
    high: sp.Expr
    weight: sp.Expr
    exponent: sp.Expr


class Evidence(NamedTuple):
    """factor e^exponent P(low < z < high), z ~ N(mean, variance): the average of a term."""

    factor: sp.Expr
    exponent: sp.Expr
    probability: sp.Expr
    """Its logarithm."""

    @property
    def log(self) -> sp.Expr:
        return sp.log(self.factor) + self.exponent + self.probability


def terms_of(density: sp.Expr) -> tuple[Term, ...] | None:
    """The terms of a density; None if it is not of this kind.

    Raises
    ------
    ModelError
        The order of its bends depends on y or cannot be told.
    """
    found: list[Term] = []
    for low, high, point in intervals(density):
        piece = _between(density, point)
        for summand in sp.Add.make_args(sp.expand_mul(piece)):
            if summand == 0:
                continue
            term = _read(summand, low, high)
            if term is None:
                return None
            found.append(term)
    return tuple(found)


def _between(density: sp.Expr, point: sp.Expr) -> sp.Expr:
    """The density between two bends, of which ``point`` is in the middle."""

    def resolved(node: sp.Basic) -> sp.Basic:
        condition: Any = vanishing(node)
        side = sp.sign(sp.expand(condition.subs(Z, point)))
        if side not in (1, -1):
            raise ModelError(
                f"cannot tell on which side of its bend {node} is at z = {point}: it changes with"
                " y, or a control in it must be declared positive (low=0, open_low=True)"
            )
        return on_side(node, side)

    return density.replace(is_bent, resolved)


def _read(summand: sp.Expr, low: sp.Expr, high: sp.Expr) -> Term | None:
    powers = [f for f in sp.Mul.make_args(summand) if isinstance(f, sp.exp)]
    exponent = sp.expand(sp.Add(*(f.args[0] for f in powers)))
    weight = sp.simplify(summand / sp.Mul(*powers))
    if weight.has(Y, Z) or not exponent.is_polynomial(Z) or sp.degree(exponent, Z) > 2:
        return None
    if _coefficients(exponent)[0].is_positive:  # over a wide z it has no average of this form
        return None
    return Term(low, high, weight, exponent)


def _coefficients(exponent: sp.Expr) -> tuple[Any, Any, Any]:
    """Of z^2, z and 1."""
    expanded = sp.expand(exponent)
    return expanded.coeff(Z, 2), expanded.coeff(Z, 1), expanded.coeff(Z, 0)


def evidence(term: Term, mean: sp.Expr, variance: sp.Expr) -> Evidence:
    """E of a term over z ~ N(mean, variance).

    With the exponent a z^2 + b z + c the tilted law has the variance v' = v/(1 - 2 a v) and the
    mean (m + b v)/(1 - 2 a v).
    """
    a, b, c = _coefficients(term.exponent)
    narrowing = 1 - 2 * a * variance
    if a == 0:
        exponent = sp.expand(b * mean + c) + b**2 * variance / 2
    else:  # the square completed: for a narrow term nothing large cancels
        centre = sp.cancel(-b / (2 * a))
        constant = sp.cancel(c - b**2 / (4 * a))
        exponent = a * (mean - centre) ** 2 / narrowing + constant
    tilted = (mean + b * variance) / narrowing
    deviation = sp.sqrt(variance / narrowing)
    inside = log_inside(term.low, term.high, tilted, deviation)
    return Evidence(term.weight / sp.sqrt(narrowing), exponent, inside)


def log_inside(low: sp.Expr, high: sp.Expr, mean: sp.Expr, deviation: sp.Expr) -> sp.Expr:
    """log P(low < z < high), z ~ N(mean, deviation^2)."""
    if low == -sp.oo and high == sp.oo:
        return sp.S.Zero
    if low == -sp.oo:
        return LogNdtr((high - mean) / deviation)
    if high == sp.oo:
        return LogNdtr((mean - low) / deviation)
    return LogInterval((low - mean) / deviation, (high - mean) / deviation)


def log_sum(logs: list[sp.Expr]) -> sp.Expr:
    """log sum_i e^{l_i}."""
    total = logs[0]
    for term in logs[1:]:
        total = LogAdd(total, term)
    return total


def depends_on_difference(density: sp.Expr) -> bool:
    """Whether P(y|z) is a function of y - z: additive noise."""
    moved = density.subs({Y: Y + Z}, simultaneous=True)
    shifted = moved.replace(lambda e: isinstance(e, sp.Expr) and e.is_Add, sp.expand)
    return Z not in sp.sympify(shifted).free_symbols


def noise_term(terms: tuple[Term, ...], variance: sp.Expr) -> sp.Expr:
    """int du Z log Z of additive noise, with u = y - omega.

    Parameters
    ----------
    terms : tuple of Term
        Of a density that depends on y - z.
    variance : expression
        V, positive.

    Returns
    -------
    expression
    """
    here = [evidence(term, sp.S.Zero, variance) for term in terms]
    log_z = log_sum([e.log for e in here])
    spread = sp.sqrt(variance)
    # A bend at z = y - k is one at u = k.
    bends = dict.fromkeys(sp.expand(Y - end) for t in terms for end in (t.low, t.high))
    bends.pop(sp.oo, None)
    bends.pop(-sp.oo, None)
    focus = dict.fromkeys((bend, spread) for bend in bends)
    low, high = [*bends], [*bends]
    for term in terms:
        a, b, _ = _coefficients(term.exponent.subs(Y, 0))
        endless = term.low == -sp.oo or term.high == sp.oo
        if a != 0:  # Gaussian in u = -z about b/(2 a)
            centre, width = b / (2 * a), sp.sqrt(-1 / (2 * a))
            focus[centre, sp.sqrt(variance - 1 / (2 * a))] = None
            reach = sp.sqrt(2 * NEGLIGIBLE) * width if endless else sp.S.Zero
            low.append(centre - reach)
            high.append(centre + reach)
        elif endless:
            if b == 0:
                raise ModelError(
                    f"the density {term.weight} of the label does not fall off: write P(y|z) that"
                    " integrates to one over y"
                )
            tail = NEGLIGIBLE / sp.Abs(b)
            end = sp.expand(Y - (term.high if term.low == -sp.oo else term.low))
            low.append(end - tail)
            high.append(end + tail)
    ends = sp.Min(*low) - REACH * spread, sp.Max(*high) + REACH * spread
    pairs = [part for pair in focus for part in pair]
    return LineIntegral(sp.exp(log_z) * log_z, Y, *ends, *pairs)


def planted_term(
    terms: tuple[Term, ...], variance: sp.Expr, law: tuple[sp.Expr, ...]
) -> sp.Expr | None:
    """E_omega int dy Z log Z where every term is Gaussian in y; None where one is not.

    Parameters
    ----------
    terms : tuple of Term
    variance : expression
        V, positive.
    law : (omega, mean, variance)

    Returns
    -------
    expression or None
    """
    log_z = log_sum([evidence(term, OMEGA, variance).log for term in terms])
    total = sp.S.Zero
    for term, times in _unlike(terms).items():
        planted = evidence(term, OMEGA, variance)
        curve = sp.Poly(sp.expand(planted.exponent), Y) if planted.exponent.has(Y) else None
        if curve is None or curve.degree() != 2:
            return None
        a, b, c = (sp.cancel(curve.coeff_monomial(Y**k)) for k in (2, 1, 0))
        label = sp.cancel(-b / (2 * a)) + sp.sqrt(sp.cancel(-1 / (2 * a))) * LABEL
        height = sp.cancel(c - b**2 / (4 * a))
        weight = sp.simplify(planted.factor * sp.sqrt(sp.pi / -a)) * sp.exp(height)
        seen = {Y: label}
        inside = sp.exp(planted.probability.xreplace(seen)) * log_z.xreplace(seen)
        total += times * weight * Average(inside, LABEL)
    return Average(total, *law, 0, sp.sqrt(variance))


def _unlike(terms: tuple[Term, ...]) -> dict[Term, int]:
    """The terms that are not mirror images of one another, each with how many have its average: if
    the density is even in z, as omega is symmetric.
    """

    def mirrored(term: Term) -> Term:
        exponent = sp.expand(term.exponent.subs(Z, -Z))
        return Term(-term.high, -term.low, term.weight, exponent)

    images = [mirrored(term) for term in terms]
    if not set(images) <= set(terms):
        return dict.fromkeys(terms, 1)
    counts: dict[Term, int] = {}
    for term, image in zip(terms, images, strict=True):
        kept = image if image in counts else term
        counts[kept] = counts.get(kept, 0) + 1
    return counts
