"""A Bayes-optimal model whose name says nothing of it: learning signs from noisy projections."""

from sympy import DiracDelta

from equations import X, Y, Z, bayes_glm, normal, quantity

Delta = quantity("Delta", open_low=True)


def build():
    return bayes_glm(
        prior=DiracDelta(X - 1) / 2 + DiracDelta(X + 1) / 2,
        channel=normal(Y, Z, Delta.symbol),
        controls=(Delta,),
        name="hidden-signs",
        title="Signs seen through noisy projections",
    )
