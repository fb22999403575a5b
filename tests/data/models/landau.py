"""A branch with known folds: x = c x + a x^3 - b x^5 + d x^7, born at x = 0 where c = 1."""

from replica import Model, Quantity, conjugate

x = Quantity("x", "x", 0, 1)
hat = conjugate(x)
c = Quantity("c", "c", 0, information=1)
a, b, d = (Quantity(name, name, default=0.0) for name in "abd")


def build():
    s, t = x.symbol, hat.symbol
    channel = c.symbol * s**2 / 2 + a.symbol * s**4 / 4 - b.symbol * s**6 / 6
    return Model(
        name="landau",
        title="Landau polynomial",
        setting="Phi = -x^2/2 + c x^2/2 + a x^4/4 - b x^6/6 + d x^8/8",
        overlaps=(x,),
        conjugates=(hat,),
        controls=(c, a, b, d),
        prior=t**2 / 2,
        coupling=-s * t,
        channel=channel + d.symbol * s**8 / 8,
        observables={"order": s},
        starts={"uninformed": {"x": 0.0}, "informed": {"x": 0.7}},
        sources=(),
    )
