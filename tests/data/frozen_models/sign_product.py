"""A model written from its free energy: y = sign(z1 z2) of two hidden directions, Bayes-optimal, both learned equally well."""

from sympy import Symbol, exp, log, sqrt

from equations import Average, LogNdtr, Model, Rounded, Softplus, Width, conjugate, quantity

alpha, q = quantity("alpha"), quantity("q")
q_hat = conjugate(q)
u, v = Symbol("u", real=True), Symbol("v", real=True)


def build():
    width, known = Width(1 - q.symbol), Rounded(q.symbol)
    a, b = u / sqrt(width), v / sqrt(width)
    same, opposite = LogNdtr(a) + LogNdtr(b), LogNdtr(-a) + LogNdtr(-b)
    log_z = same + Softplus(opposite - same)  # log of the probability of y = 1
    near = (0, sqrt(width))  # nodes are placed on this scale: the posterior of z varies on it
    entropy = 2 * Average(Average(exp(log_z) * log_z, v, 0, known, *near), u, 0, known, *near)  # y = -1 is the same with v -> -v
    return Model(
        name="sign-product",
        title="Learning the sign of a product of two projections",
        setting="y = sign(z1 z2), z_a = x.w_a/sqrt(D); posterior mean of w_1 and w_2 from alpha D samples, overlap matrix q I.",
        overlaps=(q,),
        conjugates=(q_hat,),
        controls=(alpha,),
        prior=q_hat.symbol - log(1 + q_hat.symbol),
        coupling=-q.symbol * q_hat.symbol,
        channel=alpha.symbol * entropy,
        observables={"risk": 1 - q.symbol},
        starts={"uninformed": {"q": 1e-3}, "informed": {"q": 0.95}},
        sources=("Troiani et al., arXiv 2405.15480: multi-index models",),
    )
