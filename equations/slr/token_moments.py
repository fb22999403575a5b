r"""The population risk of an attention head with any joint Gaussian law of keys, values and teacher
fields.

    R = E[y^2] - 2 E[y f] + E[f^2],      f = sum_l sigma_l(chi) z_l,     y = z*_eps + sqrt(Delta) xi

For independent tokens, one of them planted (token 1) and the others iid, exchangeability leaves

    E[y f]  = E[z*_1 (sigma_1 z_1 + (L-1) sigma_2 z_2)]
    E[f^2]  = E[sigma_1^2 z_1^2 + (L-1) sigma_2^2 z_2^2 + 2 (L-1) sigma_1 sigma_2 z_1 z_2 +
    (L-1)(L-2) sigma_2 sigma_3 z_2 z_3]

z and z* are contracted with chi by Stein's lemma (``gaussian.contract``): what is left are averages
over chi of sigma, its derivatives and their products. Elementwise activations factorise over the
tokens; normalised ones, sigma_l = phi_l/S, do so under the integral 1/S^n = int ds e^{n s} exp(-e^s
S)/Gamma(n).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sympy as sp

from ..calculus.averages import Average, LineIntegral
from ..calculus.gaussian import contract
from ..calculus.special_functions import UnitPower
from ..calculus.tokens import LOG_TIME, LogTime, damped
from .data import Focus

FIELD = sp.Symbol("chi", real=True)
CHI, VALUES, TARGET = (
    sp.symbols("chi_1:4", real=True),
    sp.symbols("z_1:4", real=True),
    sp.Symbol("z_star_1", real=True),
)
PHI, REST, TOTAL = (
    sp.Function("phi"),
    sp.Symbol("S_rest", positive=True),
    sp.Symbol("S", positive=True),
)


@dataclass(frozen=True)
class TokenLaw:
    """Mean and covariance of (chi, z, z*) of one token."""

    mean: sp.Matrix
    covariance: sp.Matrix

    def average(self, body: sp.Expr, focus: Focus) -> sp.Expr:
        """E[body] over the key field alone."""
        return Average(body, FIELD, self.mean[0], self.covariance[0, 0], *focus)


@dataclass(frozen=True)
class Attention:
    """sigma_l = phi(chi_l), or phi(chi_l)/sum phi; ``window`` is the range of log t of the latter,
    ``focus`` where phi changes.
    """

    phi: Callable[[sp.Expr], sp.Expr]
    window: LogTime | None = None
    focus: Focus = (sp.S.Zero, sp.S.One)

    def weights(self) -> list[sp.Expr]:
        """sigma of tokens 1, 2, 3 in the formal function phi."""
        formal = [PHI(c) for c in CHI]
        return [f / (sp.Add(*formal) + REST) for f in formal] if self.window else formal


def second_moments(
    attention: Attention, planted: TokenLaw, free: TokenLaw, length: sp.Expr
) -> tuple[sp.Expr, sp.Expr]:
    """E[y f] and E[f^2]."""
    s, z = attention.weights(), VALUES
    others = length - 1
    product = TARGET * (s[0] * z[0] + others * s[1] * z[1])
    square = s[0] ** 2 * z[0] ** 2 + others * (
        s[1] ** 2 * z[1] ** 2
        + 2 * s[0] * s[1] * z[0] * z[1]
        + (length - 2) * s[1] * s[2] * z[1] * z[2]
    )
    laws = planted, free, free
    fields = {TARGET: _fields(planted, 2, 0)} | {
        v: _fields(law, 1, i) for i, (v, law) in enumerate(zip(z, laws, strict=True))
    }
    return tuple(
        _averaged(contract(body, fields), attention, laws, length) for body in (product, square)
    )  # type: ignore[return-value]


def target_square(planted: TokenLaw) -> sp.Expr:
    """E[z*_eps^2]."""
    return planted.covariance[2, 2] + planted.mean[2] ** 2


def _fields(law: TokenLaw, row: int, token: int) -> tuple[sp.Expr, dict[sp.Symbol, sp.Expr]]:
    """Mean and covariances of z* (row 2; it is contracted first) or z (row 1) of a token."""
    known = {CHI[token]: law.covariance[row, 0], VALUES[token]: law.covariance[row, 1]}
    return law.mean[row], known | ({TARGET: law.covariance[2, 2]} if row == 2 else {})


def _averaged(
    body: sp.Expr, attention: Attention, laws: tuple[TokenLaw, ...], length: sp.Expr
) -> sp.Expr:
    """The average over the key fields, term by term."""
    total = sp.Add(*(PHI(c) for c in CHI)) + REST
    result = sp.S.Zero
    for term in sp.Add.make_args(sp.expand_mul(body.xreplace({total: TOTAL}))):
        power = -term.as_powers_dict().get(TOTAL, 0)
        factors: list[sp.Expr] = [sp.S.One, sp.S.One, sp.S.One]
        constant = sp.S.One
        for factor in sp.Mul.make_args(term * TOTAL**power):
            token = next((i for i, c in enumerate(CHI) if factor.has(c)), None)
            if token is None:
                constant *= factor
            else:
                factors[token] *= factor
        result += constant * _token_product(attention, factors, laws, length, power)
    if attention.window is None:
        return result
    return LineIntegral(result, LOG_TIME, attention.window.lower, attention.window.upper)


def _token_product(
    attention: Attention,
    factors: list[sp.Expr],
    laws: tuple[TokenLaw, ...],
    length: sp.Expr,
    power: sp.Expr,
) -> sp.Expr:
    """The average of a product of one factor per token; for normalised weights its integrand in s,
    divided by S^power.
    """
    used = [i for i, f in enumerate(factors) if f != 1]
    bodies = [_explicit(attention, f, CHI[i]) for i, f in enumerate(factors)]
    if attention.window is None:
        return sp.Mul(*(laws[i].average(bodies[i], attention.focus) for i in used))
    phi = attention.phi(FIELD)
    times = [_degree(f) for f in factors]
    if sum(times) != power:
        raise ValueError(f"{factors} is not of degree {power} in phi")
    focus = (
        () if isinstance(phi, sp.exp) else attention.focus
    )  # exponentials are averaged in closed form (``exchangeable.mellin``)
    result = sp.S.One
    for i in sorted({0, *used}):
        result *= laws[i].average(damped(phi, bodies[i], times[i]), focus)
    silent = length - len({0, *used})
    return result * UnitPower(laws[1].average(damped(phi), focus), silent) / sp.gamma(power)


def _explicit(attention: Attention, factor: sp.Expr, chi: sp.Symbol) -> sp.Expr:
    """A product of phi and its derivatives as an expression in ``FIELD``."""
    at = (
        factor.replace(PHI, lambda argument: attention.phi(argument)).doit()
        if factor != 1
        else factor
    )
    return at.xreplace({chi: FIELD})


def _degree(factor: sp.Expr) -> int:
    """How many phi are multiplied; derivatives count as one."""
    degree = 0
    for part in sp.Mul.make_args(factor):
        base, power = part.as_base_exp()
        degree += int(power) if base.has(PHI) else 0
    return degree
