r"""Curves of 50 points beside the same equations typed by hand: point by point with
``scipy.integrate.quad``, as a script would, and on all points at once in vectorised numpy, as
somebody would who has done it before. One branch each; ours with errors, statuses and stability.

Perceptron (+-1 weights), V = 1 - q:
    q_hat = 2 alpha/V E[phi(u)^2/Phi(u)], u = sqrt(q/V) xi;  q = E tanh(q_hat + sqrt(q_hat) xi)
Compressed sensing (Gauss-Bernoulli):
    q_hat = alpha/(Delta + V);  V = E[posterior variance] of x + xi/sqrt(q_hat)
Logistic regression (labels sign(z), ridge), omega = sqrt(q) xi, g = (prox - omega)/V:
    E over y = +-1 with weight Phi(y m omega/sqrt(q (q - m^2)));  a = E g'(omega), b = E g^2,
    c = E[g at the teacher];  V = 1/(lam - alpha a), m = alpha V c, q = V^2 alpha b + m^2

    python benchmarks/by_hand.py        # a few minutes, most of them of quad
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.integrate import quad
from scipy.special import expit, log_ndtr, ndtr
from table import HEADER, Row

import replica

MODELS = Path(__file__).parent.parent / "tests" / "data" / "models"
POINTS = 50
QUAD_POINTS = 5
"""Of the 50, evenly spread: the others would cost the same."""
TOL = 1e-8
RHO, DELTA, LAM = 0.2, 1e-2, 0.1
CUT = 8.5
SQRT_2PI = np.sqrt(2 * np.pi)


def gaussian(x: float | np.ndarray) -> float | np.ndarray:
    """Standard normal density."""
    return np.exp(-(x**2) / 2) / SQRT_2PI


def nodes(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Equidistant nodes of a Gaussian average, as a row, and their weights."""
    x = np.linspace(-CUT, CUT, n)
    weights = gaussian(x)
    return x[None, :], weights / weights.sum()


def mean(f: Callable[[float], float]) -> float:
    """E f(xi) by adaptive quadrature."""
    return quad(lambda x: f(x) * gaussian(x), -CUT, CUT, epsabs=1e-10, epsrel=1e-10, limit=200)[0]


def iterated(update: Callable, x: np.ndarray, tol: float = TOL) -> np.ndarray:
    """Plain iteration; arrays of points stop together."""
    for _ in range(10_000):
        new = update(x)
        if np.max(np.abs(new - x)) <= tol:
            return new
        x = new
    raise RuntimeError("no convergence")


# the perceptron ----------------------------------------------------------------------------------


def perceptron_quad(alpha: float) -> float:
    """V of the uninformed branch."""

    def update(v: float) -> float:
        ratio = np.sqrt((1 - v) / v)

        def inverse(x: float) -> float:
            u = ratio * x
            return np.exp(2 * (-(u**2) / 2 - np.log(SQRT_2PI)) - log_ndtr(u))

        q_hat = 2 * alpha / v * mean(inverse)
        return 1 - mean(lambda x: np.tanh(q_hat + np.sqrt(q_hat) * x))

    return float(iterated(update, 1.0))


def perceptron_numpy(alpha: np.ndarray) -> np.ndarray:
    """The same on all points at once."""
    x, weights = nodes(101)

    def update(v: np.ndarray) -> np.ndarray:
        u = np.sqrt((1 - v) / v)[:, None] * x
        inverse = np.exp(-(u**2) - np.log(2 * np.pi) - log_ndtr(u)) @ weights
        q_hat = (2 * alpha / v * inverse)[:, None]
        return 1 - np.tanh(q_hat + np.sqrt(q_hat) * x) @ weights

    return iterated(update, np.ones_like(alpha))


# compressed sensing ------------------------------------------------------------------------------


def posterior_variance(h: float | np.ndarray, q_hat: float | np.ndarray) -> float | np.ndarray:
    """Of a Gauss-Bernoulli entry seen at field h = q_hat x + sqrt(q_hat) noise."""
    log_odds = np.log(RHO / (1 - RHO)) - np.log1p(q_hat) / 2 + h**2 / (2 * (1 + q_hat))
    active, value = expit(log_odds), h / (1 + q_hat)
    return active * (1 / (1 + q_hat) + value**2) - (active * value) ** 2


def sensing_quad(alpha: float) -> float:
    """V of the uninformed branch."""

    def update(v: float) -> float:
        q_hat = alpha / (DELTA + v)
        zero, present = np.sqrt(q_hat), np.sqrt(q_hat * (1 + q_hat))
        low = mean(lambda x: posterior_variance(zero * x, q_hat))
        high = mean(lambda x: posterior_variance(present * x, q_hat))
        return (1 - RHO) * low + RHO * high

    return float(iterated(update, RHO))


def sensing_numpy(alpha: np.ndarray) -> np.ndarray:
    """The same on all points at once."""
    x, weights = nodes(201)

    def update(v: np.ndarray) -> np.ndarray:
        q_hat = (alpha / (DELTA + v))[:, None]
        low = posterior_variance(np.sqrt(q_hat) * x, q_hat) @ weights
        high = posterior_variance(np.sqrt(q_hat * (1 + q_hat)) * x, q_hat) @ weights
        return (1 - RHO) * low + RHO * high

    return iterated(update, np.full_like(alpha, RHO))


# logistic regression -----------------------------------------------------------------------------


def residual(omega: float | np.ndarray, width: float | np.ndarray) -> tuple:
    """g = (prox - omega)/V and g' of the loss log(1 + e^-z), by Newton's method."""
    z = omega + width / 2
    for _ in range(100):
        p = expit(-z)
        step = (z - omega - width * p) / (1 + width * p * (1 - p))
        z = z - step
        if np.max(np.abs(step)) < 1e-13:
            break
    p = expit(-z)
    curvature = p * (1 - p)
    return p, -curvature / (1 + width * curvature)


def logistic_quad(alpha: float) -> np.ndarray:
    """m, q, V."""

    def update(x: np.ndarray) -> np.ndarray:
        m, q, width = x
        slope, spread = m / np.sqrt(q * (q - m**2)), np.sqrt(q)
        # Labels +-1 are mirror images: twice the average of y = +1.
        chance = lambda g: ndtr(slope * spread * g)  # noqa: E731
        density = lambda g: gaussian(slope * spread * g)  # noqa: E731
        b = 2 * mean(lambda g: chance(g) * residual(spread * g, width)[0] ** 2)
        a = 2 * mean(lambda g: chance(g) * residual(spread * g, width)[1])
        c = 2 * mean(lambda g: density(g) * residual(spread * g, width)[0])
        return assembled(alpha, a, b, c / np.sqrt(1 - m**2 / q))

    return iterated(update, np.array([0.1, 0.5, 1.0]))


def assembled(alpha: float | np.ndarray, a: float, b: float, c: float) -> np.ndarray:
    """m, q, V of the averages; c is the part of the force along the teacher."""
    width = 1 / (LAM - alpha * a)
    m = alpha * width * c
    return np.array([m, alpha * width**2 * b + m**2, width])


def logistic_numpy(alpha: np.ndarray) -> np.ndarray:
    """The same on all points at once."""
    g, weights = nodes(101)

    def update(x: np.ndarray) -> np.ndarray:
        m, q, width = (part[:, None] for part in x)
        u = m / np.sqrt(q - m**2) * g
        force, slope = residual(np.sqrt(q) * g, width)
        chance = ndtr(u)
        b, a = 2 * (chance * force**2) @ weights, 2 * (chance * slope) @ weights
        c = 2 * (gaussian(u) * force) @ weights / np.sqrt(1 - x[0] ** 2 / x[1])
        return assembled(alpha, a, b, c)

    start = np.array([0.1, 0.5, 1.0])[:, None] * np.ones_like(alpha)
    return iterated(update, start)


# the table ---------------------------------------------------------------------------------------


class Curve(NamedTuple):
    """One curve: what it is called, our model, and the two ways by hand."""

    name: str
    model: str
    alphas: np.ndarray
    controls: dict[str, float]
    start: str | None
    overlaps: tuple[str, ...]
    by_quad: Callable[[float], float | np.ndarray]
    by_numpy: Callable[[np.ndarray], np.ndarray]


CURVES = (
    Curve(
        "sign perceptron, +-1 weights",
        "perceptron-bayes",
        np.linspace(0.2, 1.4, POINTS),
        {},
        "uninformed",
        ("V",),
        perceptron_quad,
        perceptron_numpy,
    ),
    Curve(
        "compressed sensing, Gauss-Bernoulli",
        str(MODELS / "compressed_sensing.py"),
        np.linspace(0.3, 0.9, POINTS),
        {"rho": RHO, "Delta": DELTA},
        "uninformed",
        ("V",),
        sensing_quad,
        sensing_numpy,
    ),
    Curve(
        "logistic regression, ridge",
        str(MODELS / "classification.py"),
        np.linspace(0.5, 5.0, POINTS),
        {"lam": LAM},
        None,
        ("m", "q", "V"),
        logistic_quad,
        logistic_numpy,
    ),
)


def timed(call: Callable) -> tuple:
    """The result, and CPU seconds of this process."""
    begun = time.process_time()
    result = call()
    return result, time.process_time() - begun


def ours(curve: Curve, warm: bool = True) -> tuple[np.ndarray, float, float]:
    """Overlaps (overlap, point), CPU seconds, and the largest error that is stated."""

    def call() -> object:
        return replica.sweep(
            curve.model, over={"alpha": curve.alphas}, progress=False, **curve.controls
        )

    dataset, seconds = timed(call)
    if warm:
        dataset, seconds = min((timed(call) for _ in range(3)), key=lambda pair: pair[1])
    branch = dataset.sel(branch=curve.start) if curve.start else dataset.isel(branch=0)
    values = np.stack([branch[name].values for name in curve.overlaps])
    stated = max(float(branch[f"error_{name}"].max()) for name in curve.overlaps)
    return values, seconds, stated


def rows() -> Iterator[Row]:
    """Each curve: the first call, then warm beside the two ways by hand."""
    for curve in CURVES:
        values, first, stated = ours(curve, warm=False)
        yield Row(f"{curve.name}: {POINTS} points, first call", first, stated)
        values, seconds, stated = ours(curve)
        some = np.linspace(0, POINTS - 1, QUAD_POINTS).astype(int)
        typed, slow = timed(lambda c=curve, at=some: [c.by_quad(c.alphas[i]) for i in at])
        off = np.abs(np.array(typed).reshape(QUAD_POINTS, -1).T - values[:, some]).max()
        yield Row(
            f"{curve.name}: {POINTS} points, all branches",
            seconds,
            stated,
            "typed by hand, scipy.integrate.quad",
            slow * POINTS / QUAD_POINTS,
            float(off),
            f"from {QUAD_POINTS} of the points",
        )
        typed, fast = min(
            (timed(lambda c=curve: c.by_numpy(c.alphas)) for _ in range(3)), key=lambda p: p[1]
        )
        off = np.abs(np.reshape(typed, values.shape) - values).max()
        yield Row("the same", seconds, stated, "typed by hand, vectorised numpy", fast, float(off))


if __name__ == "__main__":
    print(HEADER)
    for row in rows():
        print(row.line(), flush=True)
