"""Two branches that cross while both move: x = c/2 and x = 1 - c/2 meet at c = 1."""

from replica import Model, Quantity, conjugate

x = Quantity("x", "x", 0, 1)
hat = conjugate(x)
c = Quantity("c", "c", 0, information=1)


def build():
    s, t, k = x.symbol, hat.symbol, c.symbol
    # F - x = (x - c/2)(x - 1 + c/2), of which this is an integral.
    gain = s**3 / 3 - s**2 / 2 + k / 2 * (1 - k / 2) * s
    return Model(
        name="two-lines",
        title="Two branches that cross",
        setting="Phi = x^3/3 - x^2/2 + (c/2)(1 - c/2) x",
        overlaps=(x,),
        conjugates=(hat,),
        controls=(c,),
        prior=t**2 / 2,
        coupling=-s * t,
        channel=s**2 / 2 + gain,
        observables={"order": s},
        starts={"uninformed": {"x": 0.0}, "informed": {"x": 0.45}},
        sources=(),
    )
