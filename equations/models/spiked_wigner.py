r"""Rank-one matrix estimation with a +-1 signal.

Setting
    Y = sqrt(snr/d) x x^T + symmetric Gaussian noise, x in {-1, +1}^d; the Bayes-optimal estimate of
    x.
Overlaps
    q in [0, 1], per d: overlap of the estimate with the signal.
Controls
    snr > 0.
Free energy
    snr q^2/4 - q q_hat/2 - q_hat/2 + E log 2cosh(q_hat + sqrt(q_hat) g) per d, to be maximised.
Observables
    mse = 1 - q^2 per matrix element (units of (x_i x_j)^2).
Exact?
    Nishimori. q = 0 is always a fixed point; it loses stability at snr = 1.
Accuracy
    trapezoid, 1e-12.
Limits
    q = 0 for snr < 1; 1 - q ~ e^{-snr/2} at large snr.
Source
    Lesieur, Krzakala, Zdeborova, J. Stat. Mech. (2017) 073403, section 3 (their Delta is 1/snr).
"""

from __future__ import annotations

import sympy as sp

from ..glm.priors import overlap_coupling, sign_term
from ..model import Model, Observable
from ..quantities import conjugate, quantity


def build() -> Model:
    """The model."""
    snr, q = quantity("snr"), quantity("q")
    hat = conjugate(q)
    return Model(
        name="spiked-wigner",
        title="Rank-one matrix estimation (spiked Wigner, +-1 prior)",
        setting=(
            "Y = sqrt(snr/d) x x^T + Gaussian noise, x in {-1, +1}^d; Bayes-optimal estimate of x."
        ),
        overlaps=(q,),
        conjugates=(hat,),
        controls=(snr,),
        prior=sign_term(hat.symbol),
        coupling=overlap_coupling((q,), (hat,)),
        channel=snr.symbol * q.symbol**2 / 4,
        observables={"mse": Observable(sp.S.One - q.symbol**2, r"\mathrm{MSE}")},
        starts={"uninformed": {"q": 1e-3}, "informed": {"q": 1.0}},
        notes={
            "Exact?": "Bayes-optimal (Nishimori)",
            "Accuracy": "trapezoid, 1e-12",
            "Limits": "q = 0 for snr < 1",
        },
        sources=(
            (
                "Lesieur, Krzakala, Zdeborova, J. Stat. Mech. (2017) 073403, section 3 (their Delta"
                " is 1/snr)"
            ),
        ),
    )


OPTIONS: dict[str, tuple[str, ...]] = {}
