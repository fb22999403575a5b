r"""E[sigma_eps(chi)] of a trained key under the max rule: eps follows the true keys chi*, sigma sees chi with Cov(chi, chi*) = m.

Elementwise activations need one token, E_x[rho(x) E[sigma(chi) | chi* = x]] with rho(x) = L P(eps = 1 | chi*_1 = x) over x ~ N(0, 1).
Softmax needs all of them; at nu = inf the others lie below the largest, x, and given s (1/S = int ds e^s exp(-e^s S)) they are independent:

    L E_x int ds E[e^{u - e^u} | x] ( E_y[ 1(y < x) E[exp(-e^u) | y] ] )^{L-1},     u = s + chi,   chi | chi* = y ~ N(m y, q - m^2)

Source: theory.md section 1.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from .exchangeable import LOG_TIME, LogTime, damped, mellin
from .location import LENGTH
from .max_rule import FIELD, LARGEST, MODERATE, STRENGTH, TIME
from .nodes import Average, Below, LineIntegral
from .stable import LogNdtr, UnitPower, Width

TRUE_KEY, OTHER_KEY = sp.Symbol("x", real=True), sp.Symbol("y", real=True)


def location_weight() -> sp.Expr:
    """rho(x) at x = ``TRUE_KEY``; at nu = inf L Phi(x)^{L-1}."""
    nu, x, ends = STRENGTH.symbol, TRUE_KEY, (-37, 4)
    weak, strong = sp.Min(nu, MODERATE), sp.Max(nu, MODERATE)
    won, other = TIME + weak * x, Average(sp.exp(-sp.exp(TIME + weak * FIELD)), FIELD)
    slow = sp.exp(won - sp.exp(won)) * UnitPower(other, LENGTH.symbol - 1)
    slow = LineIntegral(slow, TIME, -36 - sp.log(LENGTH.symbol) - 9 * weak, 4 + 9 * weak)
    # u = s + nu x is the variable of the outer integral here: exp(-e^{u + nu (chi - x)}) falls from 1 to 0 near chi = x - u/nu.
    below = Average(sp.exp(-sp.exp(TIME + strong * (FIELD - x))), FIELD, 0, 1, x - TIME / strong, 10 / strong)
    sharp = LineIntegral(sp.exp(TIME - sp.exp(TIME)) * UnitPower(below, LENGTH.symbol - 1), TIME, *ends)
    largest = sp.exp((LENGTH.symbol - 1) * LogNdtr(x))
    return LENGTH.symbol * sp.Piecewise((slow, nu < MODERATE), (sharp, nu < LARGEST), (largest, True))


def elementwise(sigma: Callable[[sp.Expr], sp.Expr], m: sp.Expr, q: sp.Expr, focus: tuple[sp.Expr, ...]) -> sp.Expr:
    """E[sigma(chi_eps)]."""
    return Average(location_weight() * Average(sigma(FIELD), FIELD, m * TRUE_KEY, Width(q - m**2), *focus), TRUE_KEY)


def softmax(m: sp.Expr, q: sp.Expr, window: LogTime) -> sp.Expr:
    """E[softmax(chi)_eps] at nu = inf."""

    def given(power: int, true_key: sp.Symbol) -> sp.Expr:
        body = damped(sp.exp(FIELD), sp.exp(power * FIELD) if power else sp.S.One, power)
        return mellin(Average(body, FIELD, m * true_key, Width(q - m**2)), window)

    losers = UnitPower(Average(Below(OTHER_KEY, TRUE_KEY) * given(0, OTHER_KEY), OTHER_KEY), LENGTH.symbol - 1)
    return LENGTH.symbol * Average(LineIntegral(given(1, TRUE_KEY) * losers, LOG_TIME, window.lower, window.upper), TRUE_KEY)
