r"""Bayes-optimal inference in the generalized linear models that everybody in the field knows.

Setting
    y ~ P(y|z), z = F x, F_ij ~ N(0, 1/N), N components x_i ~ P(x), alpha N labels; the posterior
    mean of x. Channels: linear (z + noise of variance Delta), sign, probit (the sign of z + noise),
    abs (real phase retrieval), relu, door (the sign of |z| - K), logistic. Priors: gaussian
    (variance 1), rademacher (+-1), binary (+1 with probability rho, else -1), gauss_bernoulli
    (N(0, 1) with probability rho, else 0).
Overlaps
    V >= 0, per component: mean squared error of the posterior mean; q = E[x^2] - V, its overlap
    with x.
Controls
    alpha > 0; rho (binary, gauss_bernoulli), Delta (linear, probit), K (door).
Free energy
    Psi_P(q_hat) - q q_hat/2 + alpha Psi_out(q) per component, to be maximised.
Observables
    mmse = V; q; generalisation_error: of a label that was not seen, E (y - <y>)^2 for linear, abs
    and relu, the probability of a wrong sign for sign, probit and logistic (for door there is
    none yet).
Exact?
    Nishimori.
Accuracy
    1e-9, nodes on the scale sqrt(V).
Limits
    abs, gaussian: V = 1 below alpha = 1/2 (weak recovery), V = 0 from 1.128471 on; alpha_IT = 1.
Source
    Barbier, Krzakala, Macris, Miolane, Zdeborova, PNAS 116, 5451 (2019); Aubin, Loureiro, Baker,
    Krzakala, Zdeborova, MSML 107, 55 (2020) for the priors.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import sympy as sp

from ..calculus.averages import Average
from ..calculus.special_functions import Rounded, Width
from ..glm.bayes_optimal import V, bayes_glm
from ..glm.channels import OMEGA
from ..glm.densities import X, components, moments, normal
from ..glm.outputs import OUTPUTS, wrong_guesses
from ..model import Model, Observable
from ..quantities import Quantity

RHO = Quantity(
    "rho",
    r"\rho",
    0,
    1,
    open_low=True,
    open_high=True,
    meaning="share of the prior",
    information=-1,
)
BESIDE = 1e-10
"""The informed start where a continuous signal is seen through steps: V = 0 is a fixed point there,
but never a stable one.
"""
STANDARD = sp.Symbol("t", real=True)


class Prior(NamedTuple):
    """P(x) and the control in it."""

    density: sp.Expr
    controls: tuple[Quantity, ...] = ()
    is_discrete: bool = False


PRIORS = {
    "gaussian": Prior(normal(X)),
    "rademacher": Prior((sp.DiracDelta(X - 1) + sp.DiracDelta(X + 1)) / 2, is_discrete=True),
    "binary": Prior(
        RHO.symbol * sp.DiracDelta(X - 1) + (1 - RHO.symbol) * sp.DiracDelta(X + 1), (RHO,), True
    ),
    "gauss_bernoulli": Prior((1 - RHO.symbol) * sp.DiracDelta(X) + RHO.symbol * normal(X), (RHO,)),
}


def build(prior: str = "gaussian", channel: str = "sign") -> Model:
    """The model of one ``prior`` and one ``channel``."""
    law, output = PRIORS[prior], OUTPUTS[channel]
    _, second = moments(components(law.density))
    unseen = generalisation_error(channel, second)
    measured = {} if unseen is None else {"generalisation_error": unseen}
    model = bayes_glm(
        law.density,
        output.channel,
        (*law.controls, *output.controls),
        name="glm-bayes",
        title=f"Bayes-optimal generalized linear model ({prior} prior, {channel} channel)",
        observables={"q": Observable(second - V, "q", role="overlap"), **measured},
        options={"prior": prior, "channel": channel},
        sources=(
            (
                "Barbier, Krzakala, Macris, Miolane, Zdeborova, PNAS 116, 5451 (2019): generalized"
                " linear models"
            ),
        ),
    )
    if law.is_discrete or not output.is_step:
        return model
    return replace(model, starts={**model.starts, "informed": {"V": BESIDE}})


def generalisation_error(channel: str, second: sp.Expr) -> Observable | None:
    """The error of the best guess of a label that was not seen, given the posterior of z, N(omega,
    V); None where there is none yet.

    Parameters
    ----------
    channel : str
    second : expression
        E[x^2].

    Returns
    -------
    Observable or None
    """
    known, width = Rounded(second - V), Width(V)
    law = OMEGA, 0, known, 0, sp.sqrt(width)
    ratio = OMEGA / sp.sqrt(width)
    noise = OUTPUTS[channel].noise
    if channel in ("sign", "probit"):
        # The guess is the sign of omega; at V = 0 rounding may not leave the range of acos.
        error = sp.asin(sp.sqrt((V + noise) / (second + noise))) / sp.pi
        return Observable(error, r"\epsilon_g")
    if channel == "logistic":
        return Observable(wrong_guesses(known, V), r"\epsilon_g")
    if channel == "linear":
        return Observable(noise + V, r"\epsilon_g")
    # The variance of y under the posterior of z, from its first two moments.
    bell, above = sp.exp(-(ratio**2) / 2) / sp.sqrt(2 * sp.pi), sp.erfc(-ratio / sp.sqrt(2)) / 2
    if channel == "abs":
        guess = 2 * sp.sqrt(width) * bell + OMEGA * sp.erf(ratio / sp.sqrt(2))
        return Observable(V + Average(OMEGA**2 - guess**2, *law), r"\epsilon_g")
    if channel == "relu":
        guess = sp.sqrt(width) * bell + OMEGA * above
        square = (OMEGA**2 + V) * above + OMEGA * sp.sqrt(width) * bell
        return Observable(Average(square - guess**2, *law), r"\epsilon_g")
    return None


OPTIONS = {"prior": tuple(PRIORS), "channel": ("sign", *(c for c in OUTPUTS if c != "sign"))}
