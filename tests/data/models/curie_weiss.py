"""The Curie-Weiss magnet: m = tanh(beta (m + h)), m in [-1, 1]; continuous at beta = 1 without a
field, first-order in the field below T = 1.
"""

from replica import Model, Quantity, Softplus, conjugate

OPTIONS = {"by": ("beta", "T")}
m, h = Quantity("m", "m", -1, 1), Quantity("h", "h", default=0.0, information=1)
beta = Quantity("beta", r"\beta", 0, open_low=True, information=1)
T = Quantity("T", "T", 0, open_low=True, information=-1)
m_hat = conjugate(m)


def build(by="beta"):
    control, inverse = (beta, beta.symbol) if by == "beta" else (T, 1 / T.symbol)
    x, field = m.symbol, m_hat.symbol
    return Model(
        name="curie-weiss",
        title="Curie-Weiss magnet",
        setting="H = -(sum s_i)^2/(2N) - h sum s_i, s_i = +-1",
        overlaps=(m,),
        conjugates=(m_hat,),
        controls=(control, h),
        prior=field + Softplus(-2 * field),
        coupling=-x * field,
        channel=inverse * (x**2 / 2 + h.symbol * x),
        observables={"magnetisation": x},
        starts={"uninformed": {"m": 0.0}, "informed": {"m": 0.999}},
        sources=(),
    )
