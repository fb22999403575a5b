r"""Single-location regression with the location drawn from softmax(nu chi*) ("max"; nu = inf: the
largest key).

Bayes-optimal channel at finite alpha, through planted averages, and exact moments of the posterior
at alpha = infinity: with softmax_l^n = int ds e^{n s + n nu chi_l} exp(-e^s sum_j e^{nu
chi_j})/Gamma(n) and iid N(0, 1) keys,

    E[sum_l s_l^n h(chi_l)] = L int dx F(x)^{L-1} int dz e^{nz - e^z} N(chi; 0, 1) h(chi),
    F(x) = int dz e^{z - e^z} Phi(chi)

for n = 1, 2, with chi = x + z/nu (s = -nu x); at nu = inf it is L int dx N(x) h(x) Phi(x)^{L-1}. At
small nu the same integral is done over s and chi.

A trained key sees chi with Cov(chi, chi*) = m. Elementwise activations need one token, E_x[rho(x)
E[sigma(chi) | chi* = x]] with rho(x) = L P(eps = 1 | chi*_1 = x) over x ~ N(0, 1). Softmax needs
all of them; at nu = inf the others lie below the largest, x, and given s (1/S = int ds e^s exp(-e^s
S)) they are independent:

    L E_x int ds E[e^{u - e^u} | x] ( E_y[ 1(y < x) E[exp(-e^u) | y] ] )^{L-1},     u = s + chi,
    chi | chi* = y ~ N(m y, q - m^2)

Source: theory.md sections 1, 3 and 4.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from ..calculus.averages import Average, Below, LineIntegral
from ..calculus.special_functions import Logistic, LogNdtr, UnitPower, Width
from ..calculus.tokens import LOG_TIME, LogTime, damped, mellin
from ..quantities import quantity
from .data import KEY_FIELD, LENGTH, TOKEN, VALUE_FIELD
from .laws import Law
from .planted_average import LocationLaw, LogEvidence, PlantedAverage

STRENGTH = quantity(
    "nu",
    infinite=True,
    meaning="strength of the location law softmax(nu chi*); inf: the largest key",
)
ACCURACY = 1e-3
"""What the samples are refined to by default."""
LARGEST = sp.Integer(10) ** 9
"""A strength beyond it is infinite."""
NODES = {"winner": sp.Piecewise((57, STRENGTH.symbol < LARGEST), (36, True))}
"""Of the integral over the noisy maximum: at finite nu its law has an exponential tail."""
MODERATE = 2
"""Strength from which on the integral over z is used."""
PLACE, SHIFT, TIME, FIELD = (sp.Symbol(n, real=True) for n in ("x", "z", "s", "chi"))


def log_evidence(q_k: sp.Expr, q_v: sp.Expr, delta: sp.Expr) -> LogEvidence:
    """log Z(y, omega) of one sample."""
    law = LocationLaw(KEY_FIELD, q_k, 1 - q_k, STRENGTH.symbol, LENGTH.symbol)
    return LogEvidence(law, VALUE_FIELD, q_v, 1 - q_v + delta)


def psi_out(q_k: sp.Expr, q_v: sp.Expr, delta: sp.Expr, law: Law | None = None) -> sp.Expr:
    """Psi_out = E log Z over the planted law, and over the length if it has a ``law``."""
    evidence = log_evidence(q_k, q_v, delta)
    return PlantedAverage(evidence, evidence, law or ())


def attention_weight(q_k: sp.Expr, q_v: sp.Expr, delta: sp.Expr, law: Law | None = None) -> sp.Expr:
    """E[sum_l P_l(omega_k)^2], the mean weight of the posterior on the right token (Nishimori)."""
    evidence = log_evidence(q_k, q_v, delta)
    return PlantedAverage(
        sp.Sum(evidence.location**2, (TOKEN, 1, LENGTH.symbol)), evidence, law or ()
    )


def posterior_square() -> sp.Expr:
    """E[sum_l s_l^2], s = softmax(nu chi*) at keys known exactly; 1 at nu = inf."""
    return _selected(sp.S.One, 2)


def selected(h: sp.Expr) -> sp.Expr:
    """E[h(chi_eps)], h an expression in ``FIELD``, at keys known exactly."""
    return _selected(h, 1)


def _selected(h: sp.Expr, n: int) -> sp.Expr:
    """E[sum_l s_l^n h(chi_l)]."""
    nu = STRENGTH.symbol
    weak, strong = _weak(h, n, sp.Min(nu, MODERATE)), _strong(h, n, sp.Max(nu, MODERATE))
    return LENGTH.symbol * sp.Piecewise((weak, nu < MODERATE), (strong, True))


def _weak(h: sp.Expr, n: int, nu: sp.Expr) -> sp.Expr:
    u = TIME + nu * FIELD
    other = Average(sp.exp(-sp.exp(u)), FIELD)
    winner = Average(h * sp.exp(n * u - sp.exp(u)), FIELD)
    reach = 9 * nu
    return LineIntegral(
        winner * UnitPower(other, LENGTH.symbol - 1),
        TIME,
        -36 - sp.log(LENGTH.symbol) - reach,
        4 + reach,
    )


def _strong(h: sp.Expr, n: int, nu: sp.Expr) -> sp.Expr:
    ends = (-37, 4)
    chi = PLACE + SHIFT / nu
    other = LineIntegral(sp.exp(SHIFT - sp.exp(SHIFT) + LogNdtr(chi)), SHIFT, *ends)
    winner = LineIntegral(
        h.xreplace({FIELD: chi}) * sp.exp(n * SHIFT - sp.exp(SHIFT)) * _density(chi), SHIFT, *ends
    )
    return LineIntegral(
        winner * UnitPower(other, LENGTH.symbol - 1), PLACE, -9 - 4 / nu, 9 + 37 / nu
    )


def rectified_shares() -> tuple[sp.Expr, sp.Expr]:
    """E[sigma_eps] at nu = inf and E[sum_l sigma_l^2], sigma = relu(chi)/sum relu, or the indicator
    of the largest key if all are negative.

    It is the limit of softplus(c chi)/sum softplus for c -> inf. A token at x > 0 has a share 1/(1
    + sum_j relu(chi_j)/x), with 1/S^n = int dt e^{n t} exp(-e^t S)/Gamma(n); the others lie below x
    if the token has the largest key.
    """
    x = sp.exp(PLACE)
    below, above = x * Logistic(SHIFT), sp.exp(SHIFT)
    smaller = _half_line(below, below * Logistic(-SHIFT), below / x, 37)
    positive = _half_line(above, above, above / x, sp.Rational(5, 2))

    def shares(other: sp.Expr, n: int) -> sp.Expr:
        times = LineIntegral(
            sp.exp(n * TIME - sp.exp(TIME)) * UnitPower(other, LENGTH.symbol - 1), TIME, -37, 4
        )
        return LENGTH.symbol * LineIntegral(
            x * _density(x) * times, PLACE, -37, sp.Rational(5, 2)
        ) + 2 ** (-LENGTH.symbol)

    return shares(smaller, 1), shares(positive, 2)


def _half_line(chi: sp.Expr, jacobian: sp.Expr, ratio: sp.Expr, end: sp.Expr) -> sp.Expr:
    """E[exp(-e^t relu(chi) ratio/chi)] over one key: 1/2 for a negative one, and the integral over
    a positive one.
    """
    return sp.S.Half + LineIntegral(
        jacobian * _density(chi) * sp.exp(-sp.exp(TIME) * ratio), SHIFT, -37, end
    )


def _density(chi: sp.Expr) -> sp.Expr:
    return sp.exp(-(chi**2) / 2) / sp.sqrt(2 * sp.pi)


# a trained key -----------------------------------------------------------------------------------

TRUE_KEY, OTHER_KEY = sp.Symbol("x", real=True), sp.Symbol("y", real=True)


def location_weight() -> sp.Expr:
    """rho(x) at x = ``TRUE_KEY``; at nu = inf L Phi(x)^{L-1}."""
    nu, x, ends = STRENGTH.symbol, TRUE_KEY, (-37, 4)
    weak, strong = sp.Min(nu, MODERATE), sp.Max(nu, MODERATE)
    won, other = TIME + weak * x, Average(sp.exp(-sp.exp(TIME + weak * FIELD)), FIELD)
    slow = sp.exp(won - sp.exp(won)) * UnitPower(other, LENGTH.symbol - 1)
    slow = LineIntegral(slow, TIME, -36 - sp.log(LENGTH.symbol) - 9 * weak, 4 + 9 * weak)
    # u = s + nu x is the variable of the outer integral here: exp(-e^{u + nu (chi - x)}) falls from
    # 1 to 0 near chi = x - u/nu.
    below = Average(
        sp.exp(-sp.exp(TIME + strong * (FIELD - x))), FIELD, 0, 1, x - TIME / strong, 10 / strong
    )
    sharp = LineIntegral(
        sp.exp(TIME - sp.exp(TIME)) * UnitPower(below, LENGTH.symbol - 1), TIME, *ends
    )
    largest = sp.exp((LENGTH.symbol - 1) * LogNdtr(x))
    return LENGTH.symbol * sp.Piecewise(
        (slow, nu < MODERATE), (sharp, nu < LARGEST), (largest, True)
    )


def elementwise(
    sigma: Callable[[sp.Expr], sp.Expr], m: sp.Expr, q: sp.Expr, focus: tuple[sp.Expr, ...]
) -> sp.Expr:
    """E[sigma(chi_eps)]."""
    return Average(
        location_weight() * Average(sigma(FIELD), FIELD, m * TRUE_KEY, Width(q - m**2), *focus),
        TRUE_KEY,
    )


def softmax(m: sp.Expr, q: sp.Expr, window: LogTime) -> sp.Expr:
    """E[softmax(chi)_eps] at nu = inf."""

    def given(power: int, true_key: sp.Symbol) -> sp.Expr:
        body = damped(sp.exp(FIELD), sp.exp(power * FIELD) if power else sp.S.One, power)
        return mellin(Average(body, FIELD, m * true_key, Width(q - m**2)), window)

    losers = UnitPower(
        Average(Below(OTHER_KEY, TRUE_KEY) * given(0, OTHER_KEY), OTHER_KEY), LENGTH.symbol - 1
    )
    return LENGTH.symbol * Average(
        LineIntegral(given(1, TRUE_KEY) * losers, LOG_TIME, window.lower, window.upper), TRUE_KEY
    )
