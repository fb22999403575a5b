"""Compressed sensing without noise: a sparse signal from y = F x."""

from sympy import DiracDelta, Eq

from replica import Quantity, X, Y, Z, bayes_glm, normal

rho = Quantity("rho", r"\rho", 0, 1, open_low=True, open_high=True, information=-1)


def build():
    prior = (1 - rho.symbol) * DiracDelta(X) + rho.symbol * normal(X)
    return bayes_glm(prior, Eq(Y, Z), (rho,), name="noiseless-sensing")
