"""Compressed sensing: the Bayes-optimal estimate of a sparse signal from y = F x + noise."""

from sympy import DiracDelta

from equations import Quantity, X, Y, Z, bayes_glm, normal, quantity

rho = Quantity("rho", r"\rho", 0, 1, open_low=True, open_high=True, meaning="share of entries that are not zero", information=-1)
Delta = quantity("Delta", open_low=True)


def build():
    return bayes_glm(
        prior=(1 - rho.symbol) * DiracDelta(X) + rho.symbol * normal(X),
        channel=normal(Y, Z, Delta.symbol),
        controls=(rho, Delta),
        name="compressed-sensing",
        title="Bayes-optimal compressed sensing, Gauss-Bernoulli prior",
        sources=("Krzakala, Mezard, Sausset, Sun, Zdeborova, Phys. Rev. X 2, 021005 (2012)",),
    )


def simulate(controls, D, generator):
    """Approximate message passing on one instance of D entries."""
    import numpy as np

    alpha, share, noise = (controls[name] for name in ("alpha", "rho", "Delta"))
    signal = generator.normal(size=D) * (generator.random(D) < share)
    matrix = generator.normal(size=(round(alpha * D), D)) / np.sqrt(D)
    y = matrix @ signal + np.sqrt(noise) * generator.normal(size=len(matrix))
    x, variance, g = np.zeros(D), share, np.zeros(len(y))
    for _ in range(100):
        omega = matrix @ x - variance * g
        g = (y - omega) / (noise + variance)
        strength = alpha / (noise + variance)
        field = strength * x + matrix.T @ g
        mean = field / (1 + strength)
        odds = share / (1 - share) / np.sqrt(1 + strength) * np.exp(np.minimum(field * mean / 2, 500))
        active = odds / (1 + odds)
        x = active * mean
        variance = np.mean(active * (1 / (1 + strength) + mean**2) - x**2)
    return {"mmse": np.mean((x - signal) ** 2)}
