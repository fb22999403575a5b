r"""Trained attention on single-location regression: ridge-regularised empirical risk at finite
alpha.

Setting
    Data of slr-bayes ("spiked") or with the location drawn from softmax(nu X_l.k*/sqrt(D)) ("max";
    nu = inf: the largest). f(X) = sum_l sigma(chi)_l z_l, chi_l = X_l.k/sqrt(D), z_l =
    X_l.v/sqrt(D); k and v minimise sum_mu (1/2)(y_mu - f(X_mu))^2 + (lam_k/2)|k|^2 + (lam_v/2)|v|^2
    over N = alpha D samples.
Overlaps
    m_a = w_a.w_a*/D, q_a = |w_a|^2/D, V_a the susceptibility, a = k, v; per D.
Controls
    alpha > 0, L >= 1 (or a length law p_L, such as L=1:0.2,4:0.8), nu >= 0 (inf allowed for "max"),
    Delta >= 0, lam_k > 0, lam_v > 0, inverse temperature beta > 0, and an offset
    for the activations that have one: phi(offset + beta chi); activation is a name or an expression
    in chi.
Free energy
    e = extr sum_a [(V_a q_a_hat - q_a V_a_hat)/2 + m_a m_a_hat - (m_a_hat^2 + q_a_hat)/(2(lam_a +
    V_a_hat))] + alpha E[M], M the Moreau envelope of the loss at omega_a,l = m_a x*_a,l + sqrt(q_a
    - m_a^2) xi_a,l; of several branches the lowest e is the minimiser.
Observables
    risk (mean squared test error, label noise included), training_loss (mean squared training
    residual, no 1/2), energy (alpha training_loss/2 + sum_a lam_a q_a/2, the minimised objective
    per D), replicon, V_a_hat by linear response.
Exact?
    Replica symmetric; exact only where the replicon is below 1 and the landscape has one valley
    (the problem is not convex).
Accuracy
    Quasi-Monte Carlo, moment-matched; twice the standard error over independent scrambles.
Limits
    L = 1 softmax: ridge regression. V_k -> 0 at m_k = q_k = 1: ridge regression on attended tokens.
Source
    theory.md section 5; [SLR] arXiv 2509.21936 for the data (their Delta^2 is our Delta).
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from ..calculus.envelope import (
    PRESENT,
    AtProx,
    BasinChange,
    ForceDivergence,
    ForceResponse,
    MoreauEnvelope,
    ProxFailure,
    TeacherAverage,
)
from ..calculus.special_functions import LogSumExp
from ..model import Criterion, Model, Observable
from ..quantities import Quantity, conjugate, quantity
from ..slr.activations import ACTIVATIONS, Activation, activation_of, expression_option
from ..slr.data import LENGTH, NOISE, SPIKE, TOKEN, SingleLocation
from ..slr.laws import law_option, read_law
from ..theory import EmpiricalRisk, Weights

CHI, Z = sp.IndexedBase("chi"), sp.IndexedBase("z")
TEACHER = {"k": sp.IndexedBase("chi_star"), "v": sp.IndexedBase("z_star")}
XI = {"k": sp.IndexedBase("xi_k"), "v": sp.IndexedBase("xi_v")}
LABEL_NOISE = sp.Symbol("xi_y", real=True)
TEMPERATURE = Quantity(
    "beta", r"\beta", 0, open_low=True, meaning="inverse temperature of the attention", default=1.0
)
OFFSET = Quantity("offset", "b", meaning="offset of the activation", default=0.0)
SUPPORTED = (
    "softmax",
    "linear",
    "linear_pure",
    "erf",
    "erf_odd",
    "softplus",
    "softplus_elementwise",
    "sigmoid",
    "relu",
)


def _quantities() -> dict[str, Quantity]:
    overlaps = {}
    for a, what in (("k", "key"), ("v", "value")):
        overlaps[f"m_{a}"] = Quantity(
            f"m_{a}", f"m_{a}", scaling="per D", meaning=f"{what} overlap with the teacher, w.w*/D"
        )
        overlaps[f"q_{a}"] = Quantity(
            f"q_{a}", f"q_{a}", 0, scaling="per D", meaning=f"squared {what} norm, |w|^2/D"
        )
        overlaps[f"V_{a}"] = Quantity(
            f"V_{a}",
            f"V_{a}",
            0,
            open_low=True,
            scaling="per D",
            meaning=f"{what} susceptibility",
            role="susceptibility",
        )
    return overlaps


OVERLAPS = _quantities()
HATS = {name: conjugate(q) for name, q in OVERLAPS.items()}
RIDGE = {
    a: Quantity(f"lam_{a}", rf"\lambda_{a}", 0, open_low=True, meaning=f"{w} ridge strength")
    for a, w in (("k", "key"), ("v", "value"))
}
Symbols = dict[str, sp.Symbol]


def _title(activation: str, rule: str, L: str | None) -> str:
    law = "" if L is None else f", L ~ {L}"
    return f"Trained attention on single-location regression ({activation}, {rule}{law})"


def _centres(x: Symbols) -> dict[str, sp.Expr]:
    """omega_a of token l: what the teacher and chance say of a field."""
    noise = {a: sp.sqrt(x[f"q_{a}"] - x[f"m_{a}"] ** 2) for a in "kv"}
    return {a: x[f"m_{a}"] * TEACHER[a][TOKEN] + noise[a] * XI[a][TOKEN] for a in "kv"}


def _ridge_term(a: str, lam: sp.Expr) -> sp.Expr:
    """The prior term of one trained vector."""
    m_hat, q_hat, v_hat = (HATS[f"{n}_{a}"].symbol for n in "mqV")
    return -(m_hat**2 / 2 + q_hat / 2) / (lam + v_hat)


def _pairing(a: str) -> sp.Expr:
    """The coupling of its overlaps and conjugates."""
    m, q, v = (OVERLAPS[f"{n}_{a}"].symbol for n in "mqV")
    m_hat, q_hat, v_hat = (HATS[f"{n}_{a}"].symbol for n in "mqV")
    return (v * q_hat - q * v_hat) / 2 + m * m_hat


def attention(act: Activation, chi: sp.Expr, count: sp.Expr, masked: bool = False) -> sp.Expr:
    """sigma(chi)_l, ``chi`` an expression in l; zero on absent tokens."""
    argument = TEMPERATURE.symbol * chi + (OFFSET.symbol if act.offset else 0)
    phi, here = act.phi(argument), PRESENT[TOKEN] if masked else sp.S.One
    if not act.normalised:
        return here * phi
    if isinstance(phi, sp.exp):  # in the log domain: nothing overflows
        exponent = phi.args[0] + sp.log(here)
        return sp.exp(exponent - LogSumExp(exponent, TOKEN, count))
    return here * phi / sp.Sum(here * phi, (TOKEN, 1, count))


SETTING = (
    "f(X) = sum_l sigma(chi)_l z_l, chi_l = X_l.k/sqrt(D), z_l = X_l.v/sqrt(D); k, v"
    " minimise\nsum_mu (y_mu - f(X_mu))^2/2 + lam_k |k|^2/2 + lam_v |v|^2/2 over N = alpha"
    " D samples of the data of slr-bayes."
)
NOTES = {
    "f and prox": (
        "f_a[l] = (x_a[l] - omega_a[l])/V_a at the minimiser (prox) of the envelope; div_f"
        " and response are its linear response"
    ),
    "Exact?": ("replica symmetric; expect simulations to agree where the replicon is below 1"),
    "Accuracy": (
        "quasi-Monte Carlo: twice the standard error over scrambles (the replicon's at"
        " fixed overlaps)"
    ),
    "Limits": "L = 1 softmax: ridge regression",
}

SOURCES = (
    "theory.md section 5 (derived for this project)",
    (
        "Statistical Advantage of Softmax Attention: Insights from Single-Location"
        " Regression, arXiv 2509.21936, section 2"
    ),
)


def build(
    activation: str = "softmax",
    rule: str = "spiked",
    normalised: str = "false",
    L: str | None = None,
) -> Model:
    """The model of one ``activation`` and location ``rule``; ``L`` is the text of a length law, or
    None for the control L.
    """
    act = activation_of(activation, normalised == "true")
    law = None if L is None else read_law(L)
    count = LENGTH.symbol if law is None else sp.Integer(law[-1][0])
    every = (TOKEN, 1, count)
    x = {name: q.symbol for name, q in OVERLAPS.items()}
    alpha, lam = quantity("alpha"), {a: q.symbol for a, q in RIDGE.items()}
    length, offset = () if law else (LENGTH,), (OFFSET,) if act.offset else ()
    spike = quantity("nu", infinite=True) if rule == "max" else SPIKE

    def average(body: sp.Expr) -> sp.Expr:
        return TeacherAverage(
            body,
            TOKEN,
            count,
            [LABEL_NOISE],
            [TEACHER["k"], TEACHER["v"], XI["k"], XI["v"]],
            rule,
            spike.symbol,
        )

    def sigma(chi: sp.Expr) -> sp.Expr:
        return attention(act, chi, count, law is not None)

    omega, label = _centres(x), TEACHER["v"][1] + sp.sqrt(NOISE.symbol) * LABEL_NOISE
    residual = label - sp.Sum(sigma(CHI[TOKEN]) * Z[TOKEN], every)
    fields = [(CHI, omega["k"], x["V_k"], "k"), (Z, omega["v"], x["V_v"], "v")]
    envelope = MoreauEnvelope(residual**2 / 2, TOKEN, count, fields)
    return Model(
        name="slr-erm",
        title=_title(activation, rule, L),
        setting=SETTING,
        overlaps=tuple(OVERLAPS.values()),
        conjugates=tuple(HATS.values()),
        controls=(alpha, *length, spike, NOISE, *RIDGE.values(), TEMPERATURE, *offset),
        prior=sp.Add(*(_ridge_term(a, lam[a]) for a in "kv")),
        coupling=sp.Add(*(_pairing(a) for a in "kv")),
        channel=alpha.symbol * average(envelope),
        best="smallest",
        observables=_observables(sigma(omega["k"]), every, average, envelope, x, lam, alpha.symbol),
        starts=_starts(lam, alpha.symbol),
        options={"activation": activation, "rule": rule}
        | ({} if activation in ACTIVATIONS else {"normalised": normalised})
        | ({} if L is None else {"L": L}),
        theory=EmpiricalRisk(
            data=SingleLocation(rule, spike.symbol, law or LENGTH.symbol),
            weights=tuple(Weights(f"m_{a}", f"q_{a}", f"V_{a}") for a in "kv"),
        ),
        criteria=CRITERIA,
        accuracy=1e-2,
        notes=NOTES,
        sources=SOURCES,
    )


def _observables(
    sigma: sp.Expr,
    every: tuple[sp.Expr, ...],
    average: Callable[[sp.Expr], sp.Expr],
    envelope: MoreauEnvelope,
    x: Symbols,
    lam: Symbols,
    alpha: sp.Symbol,
) -> dict[str, Observable]:
    """Test error with the value fields integrated out (theory.md section 3), training error,
    stability.
    """
    mass = average(sp.Sum(sp.KroneckerDelta(TOKEN, 1) * sigma, every))
    risk = 1 + NOISE.symbol - 2 * x["m_v"] * mass + x["q_v"] * average(sp.Sum(sigma**2, every))
    training = 2 * average(AtProx(envelope.loss, envelope))
    t = [
        [alpha * x[f"V_{a}"] ** 2 * average(ForceResponse(envelope, i, j)) for j in (0, 1)]
        for i, a in enumerate("kv")
    ]
    energy = alpha * training / 2 + (lam["k"] * x["q_k"] + lam["v"] * x["q_v"]) / 2
    # Spectral radius of a 2 x 2 matrix with entries >= 0.
    spread = sp.sqrt((t[0][0] - t[1][1]) ** 2 + 4 * t[0][1] * t[1][0])
    replicon = (t[0][0] + t[1][1] + spread) / 2
    return {
        "risk": Observable(risk, "R", "y^2", "risk"),
        "training_loss": Observable(training, r"\mathbb E[r^2]", "y^2", "training_loss"),
        "energy": Observable(energy, "e", "y^2 per D", "energy"),
        "replicon": Observable(replicon, role="replicon"),
        "generalisation_gap": Observable(risk - training, units="y^2"),
        "attention_overlap": Observable(x["m_k"] / sp.sqrt(x["q_k"])),
        "value_overlap": Observable(x["m_v"] / sp.sqrt(x["q_v"])),
        "attention_mass": Observable(mass),
        "V_k_hat_response": Observable(-alpha * average(ForceDivergence(envelope, 0))),
        "V_v_hat_response": Observable(-alpha * average(ForceDivergence(envelope, 1))),
        "basin_changes": Observable(average(BasinChange(envelope))),
        "prox_failures": Observable(average(ProxFailure(envelope)), role="prox_failures"),
    }


CRITERIA = (
    Criterion("prox_failures", "above", 0, "PROX_FAILED", when="first"),
    Criterion("replicon", "above", 1, "RS_UNSTABLE", when="finite"),
    Criterion("V_k_hat", "apart", "V_k_hat_response", "FORMS_DIFFER"),
    Criterion("V_v_hat", "apart", "V_v_hat_response", "FORMS_DIFFER"),
)
"""A minimiser in every sample; replica symmetry stable; both forms of V_hat the same."""


def _starts(lam: dict[str, sp.Expr], alpha: sp.Expr) -> dict[str, dict[str, float | sp.Expr]]:
    """Nearly blind, and near the teacher; with the susceptibility of ridge regression on 1 +
    alpha/10 samples per dimension.

    Without the alpha the first step is so long at large alpha that a susceptibility becomes
    negative.
    """
    uninformed, informed = {}, {}
    for a in "kv":
        uninformed |= {f"m_{a}": 0.05, f"q_{a}": 0.5, f"V_{a}": 1 / (lam[a] + 1 + alpha / 10)}
        informed |= {f"m_{a}": 1.0, f"q_{a}": 1.2, f"V_{a}": 1 / (lam[a] + 1 + alpha / 10)}
    return {"uninformed": uninformed, "informed": informed}


OPTIONS = {"activation": SUPPORTED, "rule": ("spiked", "max"), "normalised": ("false", "true")}
PARSERS = {"activation": expression_option, "L": law_option}
