"""A flow in one overlap: a query on the sphere ascends an objective of its alignment c."""

from equations import Model, Quantity, SphereFlow, quantity

c = Quantity("c", low=-1, high=1, meaning="alignment of the query with the signal")
snr = quantity("snr")


def build():
    objective = snr.symbol * c.symbol**2 / 2 + c.symbol / 4
    return Model(
        name="query-on-a-sphere",
        title="Alignment of a query that ascends a quadratic objective",
        setting="dc/dt = (1 - c^2) d/dc (snr c^2/2 + c/4).",
        overlaps=(c,),
        controls=(snr,),
        channel=objective,
        observables={"squared": c.symbol**2},
        starts={"opposite": {"c": -1.0}, "aligned": {"c": 1.0}},
        sources=("made for a test: zeros of the force at c = -1/(4 snr)",),
        theory=SphereFlow(),
    )
