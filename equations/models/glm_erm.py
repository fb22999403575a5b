r"""Empirical risk in a generalized linear model: the usual losses, penalties and teachers.

Setting
    y ~ P(y|z*), z* = x.w*/sqrt(D), x ~ N(0, I_D), w* ~ N(0, I_D); w minimises sum_mu l(y_mu,
    x_mu.w/sqrt(D)) + r(w) over alpha D samples. Teachers: linear (z* + noise of variance Delta),
    sign, probit (the sign of z* + noise), logistic. Losses: square, absolute, huber, quantile of y
    - z; square, logistic, hinge for labels +-1. Penalties: ridge lam |w|^2/2, l1 lam |w|_1,
    elastic_net lam (l1_ratio |w|_1 + (1 - l1_ratio) |w|^2/2).
Overlaps
    m = w.w*/D, q = |w|^2/D, V the susceptibility; per D.
Controls
    alpha, lam > 0; Delta (linear, probit), l1_ratio (elastic_net), huber_bound, quantile.
Free energy
    The minimised objective per D, see ``convex_erm``.
Observables
    risk: mean loss on new samples (of the square loss (y - z)^2/2); generalisation_error: for a
    linear teacher the excess square error E (z - z*)^2 = 1 - 2m + q, for labels +-1 the probability
    of a wrong sign;
    training_loss; angle between w and w* over pi; cosine; replicon.
Exact?
    Convex: one solution, exact.
Accuracy
    1e-9; averages are cut where the minimiser bends.
Limits
    square, ridge: lam V (1 + V) + (alpha - 1) V = 1 (Marchenko-Pastur).
Source
    Aubin, Krzakala, Lu, Zdeborova, NeurIPS 2020, arXiv 2006.06560; Thrampoulidis, Abbasi, Hassibi,
    IEEE Trans. Inf. Theory 64, 5592 (2018) for losses of y - z.
"""

from __future__ import annotations

from typing import NamedTuple

import sympy as sp

from ..glm.convex_erm import M, Q, convex_erm
from ..glm.densities import Y, Z
from ..glm.outputs import OUTPUTS, wrong_guesses
from ..glm.penalties import PENALTIES
from ..model import Model, Observable
from ..quantities import Quantity

BOUND = Quantity(
    "huber_bound", "b", 0, open_low=True, default=1.0, meaning="where the Huber loss turns linear"
)
LEVEL = Quantity(
    "quantile", r"\tau", 0, 1, open_low=True, open_high=True, default=0.5, meaning="level"
)


class Loss(NamedTuple):
    """l(y, z), whether it needs labels +-1 (None: it takes both), and its controls."""

    expr: sp.Expr
    is_binary: bool | None
    controls: tuple[Quantity, ...] = ()


TEACHERS = {name: OUTPUTS[name] for name in ("linear", "sign", "probit", "logistic")}
D, B, TAU = Y - Z, BOUND.symbol, LEVEL.symbol
LOSSES = {
    "square": Loss(D**2 / 2, None),
    "logistic": Loss(sp.log(1 + sp.exp(-Y * Z)), True),
    "hinge": Loss(sp.Max(0, 1 - Y * Z), True),
    "huber": Loss(
        sp.Piecewise((B * (D - B / 2), D > B), (B * (-D - B / 2), D < -B), (D**2 / 2, True)),
        False,
        (BOUND,),
    ),
    "absolute": Loss(sp.Abs(D), False),
    "quantile": Loss(sp.Max(TAU * D, (TAU - 1) * D), False, (LEVEL,)),
}


def build(teacher: str = "linear", loss: str = "square", penalty: str = "ridge") -> Model:
    """The model of one ``teacher``, ``loss`` and ``penalty``."""
    data, cost = TEACHERS[teacher], LOSSES[loss]
    if cost.is_binary not in (None, data.is_binary):
        fitting = [n for n, c in LOSSES.items() if c.is_binary in (None, data.is_binary)]
        kind = "labels +-1" if data.is_binary else "continuous labels"
        raise ValueError(
            f"glm-erm: the loss {loss} is not for the {kind} of the teacher {teacher}: choose"
            f" {', '.join(fitting)}"
        )
    m, q = M.symbol, Q.symbol
    # The sign of z is right with the probability of a pair of Gaussians of this correlation.
    correlation = m / sp.sqrt(q * (1 + data.noise))
    angle = sp.acos(m / sp.sqrt(q)) / sp.pi
    error = sp.acos(correlation) / sp.pi if data.is_binary else 1 - 2 * m + q
    if teacher == "logistic":  # of z, the student's field tells this part
        error = wrong_guesses(m**2 / q, 1 - m**2 / q)
    measured = {
        "angle": Observable(angle, r"\theta/\pi"),
        "generalisation_error": Observable(error, r"\epsilon_g"),
    }
    return convex_erm(
        cost.expr,
        data.channel,
        (*data.controls, *cost.controls),
        name="glm-erm",
        title=f"Empirical risk, {loss} loss, {penalty} penalty, {teacher} teacher",
        penalty=penalty,
        observables=measured,
        options={"teacher": teacher, "loss": loss, "penalty": penalty},
        sources=("Aubin, Krzakala, Lu, Zdeborova, NeurIPS 2020, arXiv 2006.06560",),
    )


OPTIONS = {
    "teacher": tuple(TEACHERS),
    "loss": tuple(LOSSES),
    "penalty": tuple(PENALTIES),
}
