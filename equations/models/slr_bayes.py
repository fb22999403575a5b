r"""Bayes-optimal single-location regression.

Setting
    Tokens X_l ~ N(0, I_D), l = 1..L; rule "spiked": X_eps = sqrt(nu/D) k* + noise for a hidden
    location eps, uniform on 1..L, or of law p_eps (option location=0.5,0.3,0.2; 0.6,0.1x4 for four
    tokens of 0.1 each); rule "max": eps drawn from softmax(nu X_l.k*/sqrt(D)) (nu = inf: the
    largest); label y = X_eps.v*/sqrt(D) + sqrt(Delta) xi. k*, v* ~ N(0, I_D) are learned from N =
    alpha D samples.
Overlaps
    q_k, q_v in [0, 1], per D: overlap of the posterior mean of k, v with k*, v* (= its squared
    norm).
Controls
    alpha > 0, L >= 1 (or a length law p_L, such as L=1:0.2,4:0.8), nu >= 0 (inf allowed for "max"),
    Delta > 0 (at Delta = 0 the free entropy is infinite at perfect recovery).
Free energy
    sum_a [(q_a_hat - log(1 + q_a_hat))/2 - q_a q_a_hat/2] + alpha Psi_out(q_k, q_v), to be
    maximised, with Psi_out = E log sum_l P_l(omega_k) N(y; omega_v,l, V), V = 1 - q_v + Delta;
    spiked: P_l = p_l exp(sqrt(nu) omega_k,l - nu q_k/2), p_l = 1/L;  max: P_l = E softmax(nu
    chi)_l, chi ~ N(omega_k, 1 - q_k).
Observables
    risk: mean squared test error, noise included (units of y^2); excess_risk = risk - Delta;
    attention_mass: mean posterior weight of the right token at test time;
    population_bayes_risk: the risk at alpha = infinity, which no estimator can undercut.
Exact?
    Nishimori (Bayes-optimal); the algorithmic branch is message passing from an uninformed start.
Accuracy
    spiked: 1e-8 by the Laplace-Mellin route at any L; the sampled route is quasi-Monte Carlo with a
    standard error. max: quasi-Monte Carlo with every location summed; twice the standard error over
    independent scrambles.
Limits
    alpha -> 0: q_k_hat -> alpha nu/L (spiked), q_v_hat -> alpha/(L (1 + Delta)). L = 1: q_k_hat =
    alpha nu (max: 0), v is ridge regression. max, nu = 0: q_k = 0.
Source
    theory.md section 4; [GLM] PNAS 2019 for the free entropy; [SLR] arXiv 2509.21936 for the data
    (their Delta^2 is our Delta).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import sympy as sp

from ..calculus.averages import LOG_PRIOR, TokenAverage
from ..calculus.gaussian import condition
from ..calculus.special_functions import LogSumExp, stabilise
from ..calculus.tokens import LogTime, laplace, mellin, sampled
from ..glm.priors import gaussian_term, overlap_coupling
from ..model import Model, Observable
from ..quantities import Quantity, conjugate, quantity
from ..slr import max_rule
from ..slr.data import (
    KEY_FIELD,
    LABEL,
    LENGTH,
    PAPER,
    SPIKE,
    TOKEN,
    VALUE_FIELD,
    attention_weight,
    key_law,
)
from ..slr.laws import (
    Classes,
    Law,
    at_longest,
    averaged,
    law_option,
    location_option,
    read_law,
    read_location,
    tokens,
)
from ..theory import Quadrature, QuasiMonteCarlo

DELTA = quantity(
    "Delta",
    open_low=True,
    outside=(
        "at Delta = 0 the free entropy is infinite at perfect recovery; take a small value such as"
        " 1e-6"
    ),
)
SOURCES = (
    f"{PAPER}, section 2 (their Delta^2 is our Delta)",
    (
        "Barbier, Krzakala, Macris, Miolane, Zdeborova, PNAS 116, 5451 (2019), eq. (4):"
        " free entropy of generalized linear models"
    ),
)


def build(rule: str = "spiked", L: str | None = None, location: str | None = None) -> Model:
    """The model; ``rule`` is how the location is marked, ``L`` the text of a length law (None: the
    control L), ``location`` of a law p_eps.
    """
    law = None if L is None else read_law(L)
    classes = () if location is None else read_location(location)
    if classes and rule != "spiked":
        raise ValueError(
            "a location law goes with rule = spiked: for rule = max the keys decide the location"
        )
    if classes and law:
        raise ValueError(
            "a location law has one probability per token: give one length L with it, or none, not"
            " a length law"
        )
    alpha, q_k, q_v = (quantity(n) for n in ("alpha", "q_k", "q_v"))
    hats, symbols = (conjugate(q_k), conjugate(q_v)), (q_k.symbol, q_v.symbol, DELTA.symbol)
    parts = _spiked(*symbols, law, classes) if rule == "spiked" else _max(*symbols, law)
    laws = {"L": L, "location": location}

    return Model(
        name="slr-bayes",
        title=(
            "Bayes-optimal single-location regression"
            f" ({rule}{_named('L', L)}{_named('eps', location)})"
        ),
        setting=(
            f"y = X_eps.v*/sqrt(D) + sqrt(Delta) xi, {parts.setting};\n"
            "k*, v* ~ N(0, I_D) inferred from N = alpha D samples by the posterior mean."
        ),
        overlaps=(q_k, q_v),
        conjugates=hats,
        controls=(alpha, *(() if law else (_length(classes),)), parts.strength, DELTA),
        prior=sum((gaussian_term(h.symbol) for h in hats), sp.S.Zero),
        coupling=overlap_coupling((q_k, q_v), hats),
        channel=alpha.symbol * parts.psi_out,
        observables=_observables(q_v.symbol, parts),
        starts={"uninformed": {"q_k": 0.0, "q_v": 0.0}, "informed": {"q_k": 1.0, "q_v": 1.0}},
        options={"rule": rule} | {name: text for name, text in laws.items() if text is not None},
        sources=SOURCES,
        notes={
            "Exact?": (
                "Bayes-optimal (Nishimori); the uninformed branch is what message passing reaches"
            ),
            **parts.notes,
        },
        theory=parts.theory,
        accuracy=parts.accuracy,
    )


def _observables(q_v: sp.Symbol, parts: Parts) -> dict[str, Observable]:
    """The risks, and the weight on the right token."""
    excess, least = 1 - q_v * parts.weight, 1 + DELTA.symbol - parts.population_weight
    limit = r"R_\mathrm{Bayes}(\alpha=\infty)"
    return {
        "risk": Observable(excess + DELTA.symbol, "R", "y^2", "risk"),
        "excess_risk": Observable(excess, r"R-\Delta", "y^2"),
        "attention_mass": Observable(parts.weight, r"\mathbb{E}[s_\epsilon]"),
        "population_bayes_risk": Observable(least, limit, "y^2", "bayes_risk"),
    }


def _named(what: str, law: str | None) -> str:
    return "" if law is None else f", {what} ~ {law}"


def _length(classes: Classes) -> Quantity:
    """L, which a location law decides."""
    count = tokens(classes)
    known = f"the location law has {count} probabilities: L is {count}, or left out"
    return (
        replace(LENGTH, low=count, high=count, default=count, outside=known) if classes else LENGTH
    )


class Parts(NamedTuple):
    """What depends on the law of the location; ``weight`` is E[s_eps] at q_k, ``population_weight``
    at q_k = 1.
    """

    setting: str
    strength: Quantity
    psi_out: sp.Expr
    weight: sp.Expr
    population_weight: sp.Expr
    notes: dict[str, str]
    theory: Quadrature | QuasiMonteCarlo
    accuracy: float = 1e-6


def _spiked(
    q_k: sp.Symbol, q_v: sp.Symbol, delta: sp.Symbol, law: Law | None, classes: Classes
) -> Parts:
    nu, length, classes = SPIKE.symbol, LENGTH.symbol, tuple((n, p) for n, p in classes if p > 0)
    # log sum_l e^{a_l} < log L + nu + 8 sqrt(nu) but for 1e-14; P(a_1 < -s) < e^{-s}, whatever nu.
    # One window for all lengths: the averages over a token, which do not depend on L, are then the
    # same nodes and are computed once. With a location law the sum has weights p_l: it is at most
    # the largest term, and at least the planted one.
    log_count, rarest = (0, -sp.log(classes[-1][1])) if classes else (sp.log(length), 0)
    window = LogTime(at_longest(log_count, law, length) + nu + 8 * sp.sqrt(nu), 40 + rarest)
    token = sp.exp(sp.sqrt(nu) * KEY_FIELD[TOKEN] + (LOG_PRIOR[TOKEN] if classes else 0))
    return Parts(
        f"X_eps = sqrt(nu/D) k* + noise, eps {'of the given law' if classes else 'uniform'} on"
        " 1..L, other tokens pure noise",
        SPIKE,
        averaged(_psi_out(q_k, q_v, delta, classes), law, length),
        averaged(attention_weight(token, q_k, classes=classes), law, length),
        averaged(attention_weight(token, sp.S.One, classes=classes), law, length),
        {
            "Accuracy": "Laplace-Mellin route, 1e-8 at any L",
            "Limits": (
                "alpha -> 0: q_k_hat -> alpha nu/L, q_v_hat -> alpha/(L (1 + Delta)); L = 1: ridge"
                " regression"
            ),
        },
        Quadrature(
            rewrite=lambda e: stabilise(mellin(laplace(e, window), window)),
            sampled=None if law else lambda e: stabilise(sampled(e)),
            tokens=length,
            nodes=window.nodes,
        ),
    )


def _max(q_k: sp.Symbol, q_v: sp.Symbol, delta: sp.Symbol, law: Law | None) -> Parts:
    return Parts(
        "all tokens N(0, I_D), eps drawn from softmax(nu X_l.k*/sqrt(D)), at nu = inf the largest",
        max_rule.STRENGTH,
        max_rule.psi_out(q_k, q_v, delta, law),
        max_rule.attention_weight(q_k, q_v, delta, law),
        averaged(max_rule.posterior_square(), law, LENGTH.symbol),
        {
            "P_l and Z": (
                "P_l(omega_k) = E softmax(nu chi)_l, chi ~ N(omega_k, 1 - q_k); E_planted has the"
                " density Z in (omega, y)"
            ),
            "Accuracy": (
                "quasi-Monte Carlo with every location summed: twice the standard error over"
                " scrambles"
            ),
            "Limits": (
                "alpha -> 0: q_v_hat -> alpha/(L (1 + Delta)); nu = 0: q_k = 0; L = 1: ridge"
                " regression"
            ),
        },
        QuasiMonteCarlo(
            tokens=at_longest(LENGTH.symbol, law, LENGTH.symbol),
            lengths=len(law or (None,)),
            nodes=max_rule.NODES,
        ),
        max_rule.ACCURACY,
    )


def _psi_out(q_k: sp.Symbol, q_v: sp.Symbol, delta: sp.Symbol, classes: Classes) -> sp.Expr:
    """Psi_out: the planted token and the label it explains, then the others, all seen through log
    sum_l e^{a_l}.
    """
    width = sp.Symbol("V", positive=True)
    width_value = 1 - q_v + delta
    length, nu = LENGTH.symbol, SPIKE.symbol

    planted_key, free_key = key_law(q_k)
    planted_value, label_law = condition((sp.S.Zero, q_v), LABEL, width)
    exponent = (
        sp.sqrt(nu) * KEY_FIELD[TOKEN]
        - nu * q_k / 2
        - (LABEL - VALUE_FIELD[TOKEN]) ** 2 / (2 * width)
    )
    log_z = TokenAverage(
        LogSumExp(exponent + LOG_PRIOR[TOKEN] if classes else exponent, TOKEN, length),
        TOKEN,
        length,
        common=[(LABEL, *label_law)],
        planted=[(KEY_FIELD, *planted_key), (VALUE_FIELD, *planted_value)],
        others=[(KEY_FIELD, *free_key), (VALUE_FIELD, sp.S.Zero, q_v)],
        classes=classes,
    )
    log_p = sp.S.Zero if classes else sp.log(length)
    return (log_z - log_p - sp.log(2 * sp.pi * width) / 2).xreplace({width: width_value})


OPTIONS = {"rule": ("spiked", "max")}
PARSERS = {"L": law_option, "location": location_option}
