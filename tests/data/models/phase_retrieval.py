"""Noiseless real phase retrieval: y = |z|, a Gaussian signal."""

from sympy import Abs, Eq

from replica import X, Y, Z, bayes_glm, normal


def build():
    return bayes_glm(normal(X), Eq(Y, Abs(Z)), name="phase-retrieval")
