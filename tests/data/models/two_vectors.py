"""A flow of a Gram matrix: w descends on a quadratic loss against a fixed vector t of length 1."""

from sympy import Matrix

from equations import GradientFlow, Gram, Model, Quantity

overlap = Quantity("o", meaning="w.t/D")
norm = Quantity("n", low=0, meaning="|w|^2/D")
ridge = Quantity("lam", low=0, meaning="ridge strength")


def build():
    o, n, lam = overlap.symbol, norm.symbol, ridge.symbol
    return Model(
        name="two-vectors",
        title="Ridge regression on infinitely many samples, as a flow",
        setting="dw/dt = -D grad J, J = (1 - 2 o + n)/2 + lam n/2, the ridge loss per sample.",
        overlaps=(overlap, norm),
        controls=(ridge,),
        channel=(1 - 2 * o + n) / 2 + lam * n / 2,
        best="smallest",
        observables={"risk": 1 - 2 * o + n},
        starts={"near": {"o": 0.5, "n": 1.0}, "far": {"o": -0.5, "n": 2.0}},
        sources=("ridge regression: w = t/(1 + lam)",),
        theory=GradientFlow(gram=Gram(Matrix([[n, o], [o, 1]]), 1)),
    )
