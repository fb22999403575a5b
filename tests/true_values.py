"""Numbers known by another way, with which stated errors are compared (test_honesty.py).

    python tests/true_values.py        writes tests/data/true_values.csv

Closed forms, or roots of one equation with integrals by mpmath, in 30 digits: nothing here uses the
package. A row is a family, its model, controls, the name of a number and its value.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import NamedTuple

from mpmath import (
    asin,
    cosh,
    exp,
    findroot,
    linspace,
    log,
    log1p,
    mp,
    mpf,
    ncdf,
    npdf,
    pi,
    quad,
    sqrt,
    tanh,
)

FILE = Path(__file__).parent / "data" / "true_values.csv"
DIGITS, REACH = 30, 12
Controls = Mapping[str, float]
Values = dict[str, mpf]


class Family(NamedTuple):
    """A model whose numbers are known: its name or file, the start that leads there, the numbers at
    given controls, and the settings of the table.
    """

    model: str
    start: str
    numbers: Callable[..., Values]
    settings: tuple[Controls, ...]


def grid(**axes: tuple[float, ...]) -> tuple[Controls, ...]:
    """All combinations."""
    return tuple(dict(zip(axes, values, strict=True)) for values in product(*axes.values()))


def gaussian_mean(f: Callable[[mpf], mpf]) -> mpf:
    """E f(z), z ~ N(0, 1)."""
    return quad(lambda z: f(z) * npdf(z), linspace(-REACH, REACH, 2 * REACH + 1))


def ridge(alpha: mpf, lam: mpf, Delta: mpf) -> Values:
    """lam V^2 + (lam + alpha - 1) V = 1; m and q are linear then."""
    b = lam + alpha - 1
    v = 2 / (b + sqrt(b * b + 4 * lam))  # without cancellation for alpha > 1
    m_hat = alpha / (1 + v)
    m, share = m_hat * v, alpha * (v / (1 + v)) ** 2
    q = (share * (1 - 2 * m + Delta) + m * m) / (1 - share)
    risk = (1 - 2 * m + q + Delta) / 2
    return {"V": v, "m": m, "q": q, "risk": risk, "cosine": m / sqrt(q), "m_hat": m_hat}


def gaussian_signal(alpha: mpf, Delta: mpf) -> Values:
    """V (Delta + V) + alpha V = Delta + V."""
    b = Delta + alpha - 1
    v = 2 * Delta / (b + sqrt(b * b + 4 * Delta))
    hat = alpha / (Delta + v)
    phi = -log1p(hat) / 2 + v * hat / 2 - alpha / 2 * (log(2 * pi * (Delta + v)) + 1)
    return {"V": v, "q_hat": hat, "free_entropy": phi, "q": 1 - v}


def spiked_wigner(snr: mpf) -> Values:
    """q = E tanh h, h ~ N(snr q, snr q)."""

    def field(q: mpf) -> Callable[[mpf], mpf]:
        return lambda z: snr * q + sqrt(snr * q) * z

    def image(q: mpf) -> mpf:
        h = field(q)
        return gaussian_mean(lambda z: tanh(h(z)))

    q = mpf(0)
    if snr > 1:
        first = (snr - 1) / snr**2 if snr < 1.5 else 1 - exp(-snr / 2)
        q = findroot(lambda x: image(x) / x - 1, first)
    h = field(q)
    entropy = gaussian_mean(lambda z: log(2 * cosh(h(z))))
    phi = entropy - snr * q / 2 - snr * q * q / 4
    return {"q": q, "q_hat": snr * q, "mse": 1 - q * q, "free_entropy": phi}


def perceptron(alpha: mpf) -> Values:
    """V = E (1 - tanh h)^2, h ~ N(q_hat, q_hat); q_hat = 2 alpha E[phi(t)^2/Phi(t)]/V."""

    def conjugate(v: mpf) -> mpf:
        s = sqrt((1 - v) / v)
        return 2 * alpha * gaussian_mean(lambda z: npdf(s * z) ** 2 / ncdf(s * z)) / v

    def image(hat: mpf) -> mpf:
        return gaussian_mean(lambda z: (1 - tanh(hat + sqrt(hat) * z)) ** 2)

    v = mpf(1)
    for _ in range(15):  # towards the branch, from where the root is found
        v = image(conjugate(v))
    v = findroot(lambda x: image(conjugate(x)) - x, (v, v * mpf("0.9999")))
    hat, s = conjugate(v), sqrt((1 - v) / v)
    prior = gaussian_mean(lambda z: log1p(exp(-2 * (hat + sqrt(hat) * z))))
    channel = gaussian_mean(lambda z: ncdf(s * z) * log(ncdf(s * z)))
    phi = prior + v * hat / 2 + 2 * alpha * channel
    return {"V": v, "q_hat": hat, "free_entropy": phi, "risk": asin(sqrt(v)) / pi}


def easy_perceptron(alpha: mpf) -> Values:
    """Nothing is unknown."""
    return {"V": mpf(0), "risk": mpf(0), "mmse": mpf(0), "free_entropy": mpf(0)}


LOW, HIGH = (0.01, 0.5, 0.9, 0.999), (1.001, 1.01, 1.1, 1.5, 2.0, 3.0, 6.0, 12.0, 30.0)
FAMILIES: dict[str, Family] = {
    "ridge": Family(
        "ridge.py",
        "blind",
        ridge,
        grid(alpha=(0.3, 1.0, 2.0, 10.0), lam=(1e-4, 0.1, 10.0), Delta=(1e-3, 0.5, 20.0)),
    ),
    "gaussian_signal": Family(
        "gaussian_signal.py",
        "uninformed",
        gaussian_signal,
        grid(alpha=(0.2, 1.0, 1.5, 5.0), Delta=(1e-10, 1e-5, 1e-2, 1.0, 100.0)),
    ),
    "spiked_wigner": Family("spiked-wigner", "uninformed", spiked_wigner, grid(snr=(*LOW, *HIGH))),
    "perceptron": Family(
        "perceptron-bayes",
        "uninformed",
        perceptron,
        grid(alpha=(0.05, 0.2, 0.5, 1.0, 1.2, 1.4, 1.48)),
    ),
    "easy_perceptron": Family(
        "perceptron-bayes",
        "uninformed",
        easy_perceptron,
        grid(alpha=(1.55, 1.6, 1.9, 2.2, 2.5, 4.0)),
    ),
}


def numbers(family: Family, controls: Controls) -> Values:
    """The true numbers at these controls, which are exact in binary."""
    with mp.workdps(DIGITS):
        return family.numbers(**{name: mpf(value) for name, value in controls.items()})


def rows() -> Iterator[tuple[str, str, str, str, str]]:
    """Family, model, controls, name and value."""
    for name, family in FAMILIES.items():
        for controls in family.settings:
            text = " ".join(f"{key}={value!r}" for key, value in controls.items())
            for of, value in numbers(family, controls).items():
                yield name, family.model, text, of, mp.nstr(value, 20, strip_zeros=False)


if __name__ == "__main__":
    with FILE.open("w", newline="", encoding="ascii") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("family", "model", "controls", "of", "value"))
        table.writerows(rows())
