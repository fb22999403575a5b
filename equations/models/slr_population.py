r"""Population risk of single-location regression (alpha = infinity).

Setting
    The data of slr-bayes (rule "spiked" or "max"), infinitely many of them. Predictor f(X) = sum_l
    sigma(chi)_l z_l with keys and values along k* and v*: chi_l = c X_l.k*/sqrt(D), z_l = m_v
    X_l.v*/sqrt(D). "bayes" is the posterior mean itself.
Overlaps
    scale c and offset b of the activation, where it has them; m_v is eliminated at its optimum.
Controls
    L >= 1 (or a length law p_L, such as L=1:0.2,4:0.8), nu >= 0 (inf allowed for "max"), Delta >=
    0.
Free energy
    The risk: R = 1 + Delta - E[sigma_eps]^2 / E[sum_l sigma_l^2], to be minimised over c and b.
Observables
    risk (units of y^2), excess_risk = R - Delta, value_overlap = E[sigma_eps]/E[sum sigma^2],
    population_bayes_risk: the Bayes risk, which no activation can undercut.
Exact?
    Exact for the predictor with the stated alignment; the best alignment is conjectured, not
    proved.
Accuracy
    1e-8 (elementwise, linear), 1e-7 (normalised).
Limits
    spiked, linear: R - Delta = L(L-1)/(L^2 + nu(L-1)); linear_pure: L/(L + nu); softmax reaches
    Bayes at c = sqrt(nu). Large nu: Bayes, and so softmax, <= (L-1)/2 e^{-nu/4} (with sqrt(pi/nu),
    exact at L = 2 for nu -> inf), linear -> L/nu. max: softmax is the posterior mean at c = nu,
    which is taken as its optimum: no unknown, and at nu = inf the status says that the optimum lies
    at infinite scale. So does that of softplus at nu = inf (found numerically), where its limit is
    given. max, nu = inf: Bayes and softmax 0; linear_pure 1 - E[max_l chi_l]^2/L, linear 1 - (1 +
    E[max_l chi_l]^2)/L (-> 1 - 2 log L/L); erf at L = 2 exactly 1/3.
Source
    theory.md section 3; [SLR] arXiv 2509.21936, sections 3 and 4 (their Delta^2 is our Delta).
"""

from __future__ import annotations

from dataclasses import replace

import sympy as sp

from ..calculus.averages import Average
from ..calculus.special_functions import stabilise
from ..calculus.tokens import LogTime, laplace, mellin
from ..model import Model, Observable
from ..quantities import INF, Quantity
from ..slr import max_rule
from ..slr.activations import ACTIVATIONS, Activation
from ..slr.data import (
    KEY_FIELD,
    LENGTH,
    NOISE,
    PAPER,
    SPIKE,
    TOKEN,
    attention_square,
    attention_weight,
    key_law,
)
from ..slr.laws import Law, at_longest, averaged, law_option, read_law
from ..theory import Quadrature

SCALE = Quantity("scale", "c", meaning="scale of the keys, |k|/sqrt(D)")
OFFSET = Quantity("offset", "b", meaning="offset of the activation")
FIELD = max_rule.FIELD
Moments = tuple[sp.Expr, sp.Expr]
"""E[sigma_eps] and E[sum_l sigma_l^2]."""


NOTES = {
    "Exact?": "exact for keys along k* and values along v*",
    "Accuracy": "1e-7 or better",
    "Limits": (
        "linear: R - Delta = L(L-1)/(L^2 + nu(L-1)); linear_pure: L/(L + nu); softmax at c"
        " = sqrt(nu): Bayes"
    ),
}

SOURCES = (f"{PAPER}, sections 3 and 4 (their Delta^2 is our Delta)",)


def build(activation: str = "softmax", rule: str = "spiked", L: str | None = None) -> Model:
    """The model of one ``activation`` (or "bayes") and location ``rule``; ``L`` is the text of a
    length law, or None for the control L.
    """
    law = None if L is None else read_law(L)
    strength = _strength(activation) if rule == "max" else SPIKE
    best = averaged(
        _posterior_square(rule).xreplace({max_rule.STRENGTH.symbol: strength.symbol}),
        law,
        LENGTH.symbol,
    )
    limit = rule == "max" and activation in ACTIVATIONS and ACTIVATIONS[activation].normalised
    act = None if limit or activation == "bayes" else ACTIVATIONS[activation]
    unknowns = (SCALE,) * act.scale + (OFFSET,) * act.offset if act else ()
    if act:
        weight, square = (averaged(moment, law, LENGTH.symbol) for moment in _moments(act, rule))
    elif limit and activation != "softmax":
        weight, square = (
            averaged(moment, law, LENGTH.symbol) for moment in max_rule.rectified_shares()
        )
    else:
        weight, square = best, best
    excess = 1 - weight**2 / square
    window, usual = _windows(activation, law)

    return Model(
        name="slr-population",
        title=(
            f"Population risk of single-location regression ({activation},"
            f" {rule}{'' if L is None else f', L ~ {L}'})"
        ),
        setting=(
            "Data of slr-bayes at alpha = infinity; predictor sum_l sigma(chi)_l z_l, chi_l = c"
            " X_l.k*/sqrt(D), z_l along v*."
        ),
        overlaps=unknowns,
        controls=(*(() if law else (LENGTH,)), strength, NOISE),
        channel=excess + NOISE.symbol,
        best="smallest",
        observables={
            "risk": Observable(excess + NOISE.symbol, "R", "y^2", "risk"),
            "excess_risk": Observable(excess, r"R-\Delta", "y^2"),
            "value_overlap": Observable(weight / square, "m_v"),
            "population_bayes_risk": Observable(
                1 + NOISE.symbol - best, r"R_\mathrm{Bayes}", "y^2", "bayes_risk"
            ),
        },
        starts=_starts(unknowns, rule, law),
        theory=Quadrature(
            rewrite=(
                stabilise
                if rule == "max"
                else lambda e: stabilise(mellin(laplace(e, window), window))
            ),
            nodes={} if rule == "max" else usual.nodes,
            infinite_scale=strength.symbol > max_rule.LARGEST if limit else sp.false,
        ),
        options={"activation": activation, "rule": rule} | ({} if L is None else {"L": L}),
        notes=NOTES,
        sources=SOURCES,
    )


def _windows(activation: str, law: Law | None) -> tuple[LogTime, LogTime]:
    """Range of log t, as a function of the scale c, and for the largest c that is usual at a given
    nu.

    Key fields are N(0, 1) or N(sqrt(nu), 1): but for 1e-14, |c chi| < c (sqrt(nu) + 8) on every
    token and c chi > c (sqrt(nu) - 8) on the right one. The Bayes bound has c = sqrt(nu).
    """
    root = sp.sqrt(SPIKE.symbol)

    def window(scale: sp.Expr) -> LogTime:
        return LogTime(
            at_longest(sp.log(LENGTH.symbol), law, LENGTH.symbol) + scale * (root + 8),
            12 + scale * sp.Max(0, 8 - root),
        )

    if activation in ACTIVATIONS and ACTIVATIONS[activation].normalised:
        usual = root + 1 if activation == "softmax" else 2 * root + 8
        return window(sp.Max(root, sp.Abs(SCALE.symbol))), window(usual)
    return window(root), window(root)


def _posterior_square(rule: str) -> sp.Expr:
    """E[sum_l s_l^2] = E[s_eps] (Nishimori) of the posterior s of eps: softmax(sqrt(nu) chi*), or
    softmax(nu chi*) for "max".
    """
    if rule == "max":
        return max_rule.posterior_square()
    return attention_weight(sp.exp(sp.sqrt(SPIKE.symbol) * KEY_FIELD[TOKEN]), sp.S.One)


def _strength(activation: str) -> Quantity:
    """nu of the "max" rule; a normalised activation other than softmax is there in the
    limit alone.
    """
    if (
        activation not in ACTIVATIONS
        or not ACTIVATIONS[activation].normalised
        or activation == "softmax"
    ):
        return max_rule.STRENGTH
    return replace(
        max_rule.STRENGTH,
        low=INF,
        outside=f"{activation} normalised over the tokens is there at nu = inf only, for rule max",
    )


def _moments(act: Activation, rule: str) -> Moments:
    if rule == "spiked":
        return _normalised(act) if act.normalised else _elementwise(act)
    sigma = _sigma(act, FIELD)
    return max_rule.selected(sigma), LENGTH.symbol * Average(sigma**2, FIELD)


def _sigma(act: Activation, field: sp.Expr) -> sp.Expr:
    """An elementwise activation at c chi + b."""
    return act.phi(
        (SCALE.symbol if act.scale else 1) * field + (OFFSET.symbol if act.offset else 0)
    )


def _normalised(act: Activation) -> Moments:
    phi = act.phi(SCALE.symbol * KEY_FIELD[TOKEN])
    # At large c, phi and exp(-t phi) change over 1/c around chi = 0, more slowly (in log scale)
    # beyond.
    focus = () if isinstance(phi, sp.exp) else (sp.S.Zero, 10 / sp.sqrt(1 + SCALE.symbol**2))
    return attention_weight(phi, sp.S.One, focus), attention_square(phi, sp.S.One, focus)


def _elementwise(act: Activation) -> Moments:
    (mean, variance), (free_mean, free_variance) = key_law(sp.S.One)
    sigma = _sigma(act, FIELD)
    planted = Average(sigma**2, FIELD, mean, variance)
    other = Average(sigma**2, FIELD, free_mean, free_variance)
    return Average(sigma, FIELD, mean, variance), planted + (LENGTH.symbol - 1) * other


def _starts(
    unknowns: tuple[Quantity, ...], rule: str, law: Law | None
) -> dict[str, dict[str, float | sp.Expr]]:
    """Several scales around the Bayes-optimal one; the offset a token without signal would want."""
    if not unknowns:
        return {"exact": {}}
    if rule == "max":  # at large L a step at the typical largest key
        matched: sp.Expr = sp.Min(max_rule.STRENGTH.symbol, 2)
        offset: sp.Expr = -matched * at_longest(sp.sqrt(sp.log(LENGTH.symbol)), law, LENGTH.symbol)
    else:
        matched, offset = sp.sqrt(SPIKE.symbol), -SPIKE.symbol / 2
    scales = {"small": sp.Float(0.3), "matched": matched + sp.Float(0.1)}
    keep = {q.name for q in unknowns}
    return {
        name: {k: v for k, v in {"scale": c, "offset": o}.items() if k in keep}
        for (name, c), o in zip(scales.items(), (0.0, offset), strict=True)
    }


OPTIONS = {"activation": (*ACTIVATIONS, "bayes"), "rule": ("spiked", "max")}
PARSERS = {"L": law_option}
