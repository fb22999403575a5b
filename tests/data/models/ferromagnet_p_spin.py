"""The p-spin ferromagnet in a field: m = tanh(beta (m^(p-1) + h)); first-order for p >= 3."""

from replica import Model, Quantity, Softplus, conjugate

OPTIONS = {"p": ("3", "4", "2")}
m, h = Quantity("m", "m", 0, 1), Quantity("h", "h", 0, default=0.0)
beta = Quantity("beta", r"\beta", 0, open_low=True, information=1)
m_hat = conjugate(m)


def build(p="3"):
    x, field, power = m.symbol, m_hat.symbol, int(p)
    return Model(
        name="p-spin-ferromagnet",
        title=f"Ferromagnet of {p} spins",
        setting="H = -N m^p/p - h N m, m = sum s_i/N, s_i = +-1",
        overlaps=(m,),
        conjugates=(m_hat,),
        controls=(beta, h),
        prior=field + Softplus(-2 * field),
        coupling=-x * field,
        channel=beta.symbol * (x**power / power + h.symbol * x),
        observables={"magnetisation": x},
        starts={"uninformed": {"m": 0.0}, "informed": {"m": 0.999}},
        sources=(),
    )
