"""A Gaussian signal, a noisy linear channel: closed forms (tests/true_values.py)."""

from replica import X, Y, Z, bayes_glm, normal, quantity

Delta = quantity("Delta", open_low=True)


def build():
    return bayes_glm(
        normal(X), normal(Y, Z, Delta.symbol), controls=(Delta,), name="gaussian-signal"
    )
