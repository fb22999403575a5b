"""Ridge regression on a noisy linear teacher: closed forms (tests/true_values.py)."""

from replica import Y, Z, convex_erm, normal, quantity

Delta = quantity("Delta", open_low=True)


def build():
    return convex_erm(
        (Y - Z) ** 2 / 2, teacher=normal(Y, Z, Delta.symbol), controls=(Delta,), name="ridge"
    )
