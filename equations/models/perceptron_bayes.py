r"""The noiseless perceptron with +-1 weights: a textbook first-order transition.

Setting
    y = sign(x.w/sqrt(d)), x ~ N(0, I_d), w in {-1, +1}^d learned from N = alpha d samples by the
    posterior mean.
Overlaps
    V in [0, 1], per d: V = 1 - q, what of a weight is not known (q: overlap of the posterior mean
    with w).
Controls
    alpha > 0.
Free energy
    E log(1 + e^{-2h}) + V q_hat/2 + alpha 2 E[Phi(t) log Phi(t)], h ~ N(q_hat, q_hat), t ~ N(0, (1
    - V)/V), to be maximised. It is the entropy of the weights that fit: log 2 at alpha = 0 and 0 at
    V = 0.
Observables
    q = 1 - V; mmse = V per weight; risk = arcsin(sqrt(V))/pi, the probability of a wrong sign at
    test time.
Exact?
    Nishimori. V = 0 is a fixed point at every alpha; it is a limit (q_hat is infinite there, 1e15
    in floating point).
Accuracy
    1e-9; nodes on the scale sqrt(V), so that V -> 0 is resolved.
Limits
    alpha -> 0: q_hat -> 2 alpha/pi. The free entropies are equal at alpha = 1.244684; V = 0 alone
    remains above 1.492632.
Source
    Gyorgyi, Phys. Rev. A 41, 7097 (1990); Barbier et al., PNAS 116, 5451 (2019), section on the
    binary perceptron.
"""

from __future__ import annotations

import sympy as sp

from ..glm.channels import sign_output
from ..glm.priors import sign_error_term
from ..model import Model, Observable
from ..quantities import Quantity, quantity


def build() -> Model:
    """The model."""
    alpha = quantity("alpha")
    v = Quantity("V", "V", 0, 1, scaling="per d", meaning="unknown part of a weight, 1 - q")
    hat = Quantity("q_hat", r"\hat q", meaning="conjugate of q = 1 - V", scaling="per d")
    return Model(
        name="perceptron-bayes",
        title="Bayes-optimal noiseless perceptron, +-1 weights",
        setting=(
            "y = sign(x.w/sqrt(d)), x ~ N(0, I_d), w in {-1, +1}^d; posterior mean of w from N ="
            " alpha d samples."
        ),
        overlaps=(v,),
        conjugates=(hat,),
        controls=(alpha,),
        prior=sign_error_term(hat.symbol),
        coupling=v.symbol * hat.symbol / 2,
        channel=alpha.symbol * sign_output(v.symbol),
        observables={
            "risk": Observable(sp.asin(sp.sqrt(v.symbol)) / sp.pi, r"\epsilon_g", role="risk"),
            "q": Observable(1 - v.symbol, "q"),
            "mmse": Observable(v.symbol, r"\mathrm{MMSE}"),
        },
        starts={"uninformed": {"V": 1.0}, "informed": {"V": 0.0}},
        notes={
            "Exact?": (
                "Bayes-optimal (Nishimori); V = 0, perfect recovery, is a fixed point at every"
                " alpha, with q_hat infinite (1e15 stands for it)"
            ),
            "Accuracy": "1e-9, nodes on the scale sqrt(V)",
            "Limits": "alpha -> 0: q_hat -> 2 alpha/pi; alpha -> infinity: V = 0",
        },
        sources=(
            (
                "Gyorgyi, Phys. Rev. A 41, 7097 (1990): first-order transition to perfect"
                " generalisation"
            ),
            (
                "Barbier, Krzakala, Macris, Miolane, Zdeborova, PNAS 116, 5451 (2019): binary"
                " perceptron"
            ),
        ),
    )


OPTIONS: dict[str, tuple[str, ...]] = {}
