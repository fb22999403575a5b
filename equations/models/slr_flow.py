r"""Population gradient flow of single-location regression in the overlaps: seven of them, with the
cross terms between key and value.

Setting
    The data of slr-bayes, infinitely many of them. f(X) = sum_l sigma(chi)_l z_l, chi_l =
    X_l.k/sqrt(D), z_l = X_l.v/sqrt(D), any k and v. Gradient descent with small steps on the
    population risk: dk/dt = -D grad_k J, dv/dt = -D grad_v J.
Overlaps
    m_k = k.k*/D, q_k = |k|^2/D, m_v = v.v*/D, q_v = |v|^2/D and the cross terms m_kv = k.v*/D, m_vk
    = v.k*/D, q_kv = k.v/D, all per D. The true keys and values: rho_k = |k*|^2/D, rho_v = |v*|^2/D,
    rho_kv = k*.v*/D, which are 1, 1, 0 for D -> infinity.
Controls
    L >= 1, nu >= 0 (inf allowed for "max"), Delta >= 0; ridges lam_k, lam_v (0 by default); offset
    of the activation (0). spiked only: gamma2 > 0, the variance of the noise on the right token
    (1), and rho_k, rho_v, rho_kv.
Free energy
    J = R + (lam_k q_k + lam_v q_v)/2, R = E(y - f)^2: to be minimised.
Equations
    dG/dt = -(H G + G H^T), G the Gram matrix of (k, v, k*, v*), H_ab = (1 + delta_ab) dJ/dG_ab for
    a = k, v (``gram``).
Observables
    risk (units of y^2), excess_risk = R - Delta, cross = largest of the three cross terms;
    population_bayes_risk, where the teacher is the usual one.
Exact?
    Exact. Where the cross terms vanish R is that of theory.md section 3, and they stay zero (the
    reflection v, v* -> -v, -v* with y -> -y).
Accuracy
    1e-8 (elementwise), 1e-6 (softmax; the error estimate says so).
Limits
    linear: the flow ends at R - Delta = L(L-1)/(L^2 + nu(L-1)); erf_odd with gamma2 = 1/2, nu = d/2
    is the model of [M].
Source
    theory.md sections 3 and 7 (derived for this project); [SLR] arXiv 2509.21936; [M] arXiv
    2410.01537.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sympy as sp

from ..calculus.averages import TokenAverage
from ..calculus.gaussian import close
from ..calculus.gram_matrix import Gram
from ..calculus.special_functions import stabilise
from ..calculus.tokens import LogTime, mellin
from ..model import Model, Observable
from ..quantities import Quantity
from ..slr import max_rule
from ..slr.activations import ACTIVATIONS, Activation
from ..slr.data import LENGTH, NOISE, PAPER, SPIKE
from ..slr.token_moments import Attention, TokenLaw, second_moments, target_square
from ..theory import GradientFlow
from . import slr_population


def _overlap(name: str, latex: str, meaning: str, low: float = -float("inf")) -> Quantity:
    return Quantity(name, latex, low, scaling="per D", meaning=meaning)


OVERLAPS = (
    _overlap("m_k", "m_k", "key on the true key, k.k*/D"),
    _overlap("q_k", "q_k", "length of the key, |k|^2/D", 0),
    _overlap("m_v", "m_v", "value on the true value, v.v*/D"),
    _overlap("q_v", "q_v", "length of the value, |v|^2/D", 0),
    _overlap("m_kv", "m_{kv}", "key on the true value, k.v*/D"),
    _overlap("m_vk", "m_{vk}", "value on the true key, v.k*/D"),
    _overlap("q_kv", "q_{kv}", "key on value, k.v/D"),
)
CROSS = "m_kv", "m_vk", "q_kv"
"""The overlaps that vanish on the manifold of theory.md section 3."""
TEACHER = (
    Quantity(
        "rho_k",
        r"\rho_k",
        0,
        open_low=True,
        scaling="per D",
        meaning="length of the true key, |k*|^2/D",
        default=1.0,
    ),
    Quantity(
        "rho_v",
        r"\rho_v",
        0,
        open_low=True,
        scaling="per D",
        meaning="length of the true value, |v*|^2/D",
        default=1.0,
    ),
    Quantity(
        "rho_kv",
        r"\rho_{kv}",
        scaling="per D",
        meaning="true key on true value, k*.v*/D",
        default=0.0,
    ),
)
BLUR = Quantity(
    "gamma2",
    r"\gamma^2",
    0,
    open_low=True,
    meaning="variance of the noise on the right token",
    default=1.0,
)
RIDGES = tuple(
    Quantity(
        f"lam_{a}",
        rf"\lambda_{a}",
        0,
        meaning=f"ridge on the {word}: lam_{a} |{a}|^2/(2 D) in J",
        default=0.0,
    )
    for a, word in (("k", "key"), ("v", "value"))
)
OFFSET = Quantity("offset", "b", meaning="offset of the activation", default=0.0)
STARTS = {
    "aligned": (0.3, 1, 0.3, 1, 0, 0, 0),
    "generic": (0.2, 1, 0.1, 1, 0.3, -0.2, 0.3),
    "exchanged": (0.1, 1, 0.1, 1, 0.8, 0.7, 0.1),
    "reversed": (-0.5, 1, -0.5, 1, 0.1, 0.1, -0.1),
}
"""Overlaps in the order of ``OVERLAPS``; each is the Gram matrix of some k and v."""

m_k, q_k, m_v, q_v, m_kv, m_vk, q_kv = (q.symbol for q in OVERLAPS)


def gram(teacher: tuple[sp.Expr, sp.Expr, sp.Expr]) -> Gram:
    """The Gram matrix of k, v, k*, v*."""
    rho_k, rho_v, rho_kv = teacher
    return Gram(
        sp.Matrix(
            [
                [q_k, q_kv, m_k, m_kv],
                [q_kv, q_v, m_vk, m_v],
                [m_k, m_vk, rho_k, rho_kv],
                [m_kv, m_v, rho_kv, rho_v],
            ]
        ),
        2,
    )


NOTES = {
    "Flow": (
        "dG/dt = -(H G + G H^T), G the Gram matrix of (k, v, k*, v*), H_ab = (1 + delta_ab)"
        " dJ/dG_ab for a = k, v"
    ),
    "Exact?": "exact; where the cross terms vanish they stay zero",
    "Accuracy": "1e-8 (elementwise), 1e-6 (softmax)",
    "Limits": "linear ends at R - Delta = L(L-1)/(L^2 + nu(L-1))",
}

SOURCES = (
    f"{PAPER}, section 2",
    "theory.md sections 3 and 7 (derived for this project)",
    "Marion et al., arXiv 2410.01537 (erf_odd, gamma2 = 1/2)",
)


def build(activation: str = "softmax", rule: str = "spiked") -> Model:
    """The model of one ``activation`` and location ``rule``."""
    act = ACTIVATIONS[activation]
    teacher = (
        tuple(q.symbol for q in TEACHER) if rule == "spiked" else (sp.S.One, sp.S.One, sp.S.Zero)
    )
    geometry = gram(teacher)
    risk = NOISE.symbol + (_spiked if rule == "spiked" else _max)(act, geometry.matrix)
    title, controls = _listed(act, rule)
    strength, own = controls[1], tuple(q for q in controls if q in (BLUR, *TEACHER))
    bayes = slr_population.build("bayes", rule)
    bound = bayes.expressions["population_bayes_risk"].xreplace(
        {max_rule.STRENGTH.symbol: strength.symbol}
    )
    return Model(
        name="slr-flow",
        title=title,
        setting=(
            "Data of slr-bayes at alpha = infinity; f = sum_l sigma(chi)_l z_l, chi_l ="
            " X_l.k/sqrt(D), z_l = X_l.v/sqrt(D), any k and v.\ndk/dt = -D grad_k J, dv/dt = -D"
            " grad_v J, J = E(y - f)^2 + (lam_k q_k + lam_v q_v)/2."
        ),
        overlaps=OVERLAPS,
        controls=controls,
        channel=risk + (RIDGES[0].symbol * q_k + RIDGES[1].symbol * q_v) / 2,
        best="smallest",
        observables={
            "risk": Observable(risk, "R", "y^2", "risk"),
            "excess_risk": Observable(risk - NOISE.symbol, r"R-\Delta", "y^2"),
            "cross": Observable(
                sp.Max(*(sp.Abs(q.symbol) for q in OVERLAPS if q.name in CROSS)),
                role="off_manifold",
            ),
            "population_bayes_risk": Observable(
                bound, r"R_\mathrm{Bayes}", "y^2", "bayes_risk", where=_usual(own)
            ),
        },
        starts={
            name: dict(zip((q.name for q in OVERLAPS), values, strict=True))
            for name, values in STARTS.items()
        },
        theory=GradientFlow(
            gram=geometry,
            manifold=CROSS,
            rewrite=lambda e: _closed(e, act, bayes),
            # Weights to the fourth power, differentiated: E[e^{6 u - e^u}] needs a fine rule, which
            # is cheap where it is the only one.
            nodes={"gaussian": sp.Integer(100)} if act.normalised and rule == "spiked" else {},
        ),
        options={"activation": activation, "rule": rule},
        notes=NOTES,
        sources=SOURCES,
    )


def _listed(act: Activation, rule: str) -> tuple[str, tuple[Quantity, ...]]:
    """The title and the controls."""
    strength = SPIKE if rule == "spiked" else _strength(act)
    offset = (OFFSET,) if act.offset else ()
    own = (BLUR, *TEACHER) if rule == "spiked" else ()
    title = f"Population gradient flow of single-location regression ({act.name}, {rule})"
    return title, (LENGTH, strength, NOISE, *RIDGES, *offset, *own)


def _usual(own: tuple[Quantity, ...]) -> Any:
    """Where the teacher is the one that the Bayes risk holds for: each of its controls at its
    default.
    """
    return sp.And(*(sp.Eq(q.symbol, q.default) for q in own))


def _closed(expr: sp.Expr, act: Activation, bayes: Model) -> sp.Expr:
    """What can be evaluated."""
    if expr.has(TokenAverage):
        return bayes.theory.rewrite(expr)
    return expr if act.normalised else stabilise(close(expr))


def _strength(act: Activation) -> Quantity:
    """nu of the max rule."""
    if not act.normalised:
        return max_rule.STRENGTH
    return replace(
        max_rule.STRENGTH,
        low=float("inf"),
        outside=f"{act.name} has its flow for rule max at nu = inf only",
    )


def _attention(act: Activation, spike: sp.Expr) -> Attention:
    shift = OFFSET.symbol if act.offset else sp.S.Zero
    return Attention(
        lambda x: act.phi(x + shift), _window(spike) if act.normalised else None, (-shift, sp.S.One)
    )


def _window(spike: sp.Expr) -> LogTime:
    """Key fields are N(0, q_k) or N(sqrt(nu) m_k, q_k) with |m_k sqrt(nu)| <= sqrt(q_k spike), and
    but for 1e-14 within 8 deviations.
    """
    reach = sp.sqrt(q_k) * (sp.sqrt(spike) + 8)
    return LogTime(sp.log(LENGTH.symbol) + reach, 12 + 8 * sp.sqrt(q_k))


def _spiked(act: Activation, matrix: sp.Matrix) -> sp.Expr:
    """R - Delta: the fields of the right token are shifted by sqrt(nu) times their
    overlap with k*.
    """
    trained_and_target = [0, 1, 3]
    covariance = matrix.extract(trained_and_target, trained_and_target)
    free = TokenLaw(sp.zeros(3, 1), covariance)
    planted = TokenLaw(
        sp.sqrt(SPIKE.symbol) * matrix.extract(trained_and_target, [2]), BLUR.symbol * covariance
    )
    product, square = second_moments(
        _attention(act, SPIKE.symbol * matrix[2, 2]), planted, free, LENGTH.symbol
    )
    return target_square(planted) - 2 * product + square


def _max(act: Activation, matrix: sp.Matrix) -> sp.Expr:
    """R - Delta: the location weights sum to one, so that f^2 is averaged over iid tokens.

    With A = E[sigma_eps(chi)], Stein's lemma for z*_eps (it correlates with chi and z) and then for
    z (with chi and chi*) gives

        E[y f] = m_v A + m_kv (2 q_kv dA/dq_k + m_vk dA/dm_k)

    by Price's theorem, dA/dq_k = E[sum_l d^2/dchi_l^2]/2 and dA/dm_k = E[sum_l d^2/dchi_l dchi*_l],
    for activations with dsigma_l/dchi_j = dsigma_j/dchi_l: elementwise ones, and softmax.
    """
    attention = _attention(act, sp.S.Zero)
    if act.normalised and act.name != "softmax":
        raise ValueError(
            f"{act.name} normalised over the tokens has no flow for rule max: choose softmax, or an"
            " elementwise activation"
        )
    free = TokenLaw(sp.zeros(3, 1), matrix.extract([0, 1, 3], [0, 1, 3]))
    _, square = second_moments(attention, free, free, LENGTH.symbol)
    if attention.window:
        square = mellin(square, attention.window)
    weight = (
        max_rule.softmax(m_k, q_k, _window(sp.S.Zero))
        if act.normalised
        else max_rule.elementwise(attention.phi, m_k, q_k, attention.focus)
    )
    product = m_v * weight + m_kv * (2 * q_kv * weight.diff(q_k) + m_vk * weight.diff(m_k))
    return target_square(free) - 2 * product + square


WITHOUT_FIELD = ("relu",)
"""Their response holds the square of a delta function."""
OPTIONS = {
    "activation": tuple(name for name in ACTIVATIONS if name not in WITHOUT_FIELD),
    "rule": ("spiked", "max"),
}
LISTED = _listed(ACTIVATIONS["softmax"], "spiked")
