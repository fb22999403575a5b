"""Rank-one matrix estimation: Gaussian, Rademacher or sparse Rademacher signals of variance one;
weak recovery at snr = 1, first-order for a share of entries below about .09.
"""

from sympy import Symbol, log, sqrt

from replica import (
    Average,
    Model,
    Quantity,
    Softplus,
    conjugate,
    gaussian_term,
    quantity,
    sign_term,
)

OPTIONS = {"prior": ("sparse", "rademacher", "gaussian")}
snr, q = quantity("snr"), quantity("q")
rho = Quantity("rho", r"\rho", 0, 1, open_low=True, open_high=True)
q_hat = conjugate(q)
g = Symbol("g", real=True)


def sparse(hat):
    """x = 0, or +-1/sqrt(rho) with probability rho: E log of 1 - rho + rho exp(-hat/(2 rho))
    cosh(g/sqrt(rho)), g of mean hat x and variance hat.
    """
    r = rho.symbol
    size = g / sqrt(r)
    evidence = log(r / (1 - r)) - hat / (2 * r) + size + Softplus(-2 * size) - log(2)
    term = log(1 - r) + Softplus(evidence)
    return (1 - r) * Average(term, g, 0, hat) + r * Average(term, g, hat / sqrt(r), hat)


def build(prior="sparse"):
    terms = {"sparse": sparse, "rademacher": sign_term, "gaussian": gaussian_term}
    return Model(
        name="spiked-matrix",
        title=f"Rank-one matrix estimation, {prior} signal",
        setting="Y = sqrt(snr/d) x x^T + Gaussian noise, E x_i^2 = 1; Bayes-optimal estimate of x",
        overlaps=(q,),
        conjugates=(q_hat,),
        controls=(snr, rho) if prior == "sparse" else (snr,),
        prior=terms[prior](q_hat.symbol),
        coupling=-q.symbol * q_hat.symbol / 2,
        channel=snr.symbol * q.symbol**2 / 4,
        observables={"mse": 1 - q.symbol**2},
        starts={"uninformed": {"q": 1e-3}, "informed": {"q": 1.0}},
        sources=("Lesieur, Krzakala, Zdeborova, J. Stat. Mech. (2017) 073403",),
    )
