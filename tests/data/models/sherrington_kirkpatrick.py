"""The Sherrington-Kirkpatrick model, replica symmetric: q = E tanh^2(beta (sqrt(q) g + h))."""

from sympy import Symbol

from replica import Average, Model, Quantity, Softplus, conjugate, quantity

q, h = quantity("q"), Quantity("h", "h", 0, default=0.0)
beta = Quantity("beta", r"\beta", 0, open_low=True, information=1)
q_hat = conjugate(q)
g = Symbol("g", real=True)


def build():
    x, hat, b = q.symbol, q_hat.symbol, beta.symbol
    return Model(
        name="sherrington-kirkpatrick",
        title="Sherrington-Kirkpatrick model, replica symmetric",
        setting="H = -sum J_ij s_i s_j - h sum s_i, J_ij of variance 1/N",
        overlaps=(q,),
        conjugates=(q_hat,),
        controls=(beta, h),
        prior=Average(g + Softplus(-2 * g), g, b * h.symbol, hat) - hat / 2,
        coupling=x * hat / 2,
        channel=b**2 * (1 - x**2) / 4,
        best="smallest",
        observables={"overlap": x},
        starts={"uninformed": {"q": 1e-3}, "informed": {"q": 1.0}},
        sources=("Sherrington, Kirkpatrick, Phys. Rev. Lett. 35, 1792 (1975)",),
    )
