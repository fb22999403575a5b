"""Continuous labels whose densities bend or jump in z: noise that is not smooth, |z| and max(z, 0)
with noise.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import quad
from scipy.special import erf
from scipy.stats import norm

from equations import ModelError, X, Y, Z, bayes_glm, normal
from equations.glm.channels import output_term
from equations.glm.pieces import terms_of
from replica.lowering.lower import function, value_and_error

HALF, TENTH = sp.Rational(1, 2), sp.Rational(1, 10)
LEGENDRE = np.polynomial.legendre.leggauss(80)
UNKNOWN = sp.Symbol("V_", positive=True)
NOISE = sp.Symbol("Delta", positive=True)
B = sp.Symbol("b", positive=True)


class Case(NamedTuple):
    """A density in symbols and in numbers, where it bends in z, and its reach in y."""

    symbols: sp.Expr
    numbers: Callable[[Any, Any], Any]
    bends: tuple[float, ...] = ()
    reach: float = 8.0


NOISES = {
    "laplace": Case(
        sp.exp(-sp.Abs(Y - Z) / HALF), lambda u, z: np.exp(-2 * np.abs(u - z)), (0,), 25
    ),
    "pinball": Case(
        2 * sp.exp(-sp.Max(3 * (Y - Z), 6 * (Z - Y))),
        lambda u, z: 2 * np.exp(-np.maximum(3 * (u - z), 6 * (z - u))),
        (0,),
        15,
    ),
    "uniform": Case(
        sp.Heaviside(1 - sp.Abs(Y - Z)) / 2, lambda u, z: (np.abs(u - z) < 1) / 2, (-1, 1), 8
    ),
    "truncated": Case(
        sp.Heaviside(1 - sp.Abs(Y - Z)) * normal(Y, Z, HALF) / sp.erf(1),
        lambda u, z: (np.abs(u - z) < 1) * norm.pdf(u, z, np.sqrt(0.5)) / erf(1),
        (-1, 1),
        8,
    ),
    "contaminated": Case(
        (1 - TENTH) * normal(Y, Z, 0.25) + TENTH * normal(Y, Z, 4),
        lambda u, z: 0.9 * norm.pdf(u, z, 0.5) + 0.1 * norm.pdf(u, z, 2),
        (),
        20,
    ),
}
OUTPUTS = {
    "abs": Case(
        normal(Y, sp.Abs(Z), TENTH), lambda y, z: norm.pdf(y, np.abs(z), np.sqrt(0.1)), (0,)
    ),
    "relu": Case(
        normal(Y, sp.Max(Z, 0), TENTH), lambda y, z: norm.pdf(y, np.maximum(z, 0), 0.1**0.5), (0,)
    ),
    "leaky": Case(
        normal(Y, sp.Max(Z, Z * TENTH), TENTH),
        lambda y, z: norm.pdf(y, np.maximum(z, z / 10), np.sqrt(0.1)),
        (0,),
    ),
}


def unknown_mean(
    of: Callable[[Any], Any], mean: Any, deviation: float, bends: Any
) -> tuple[Any, Any]:
    """E f(z) and dE f/d mean for z ~ N(mean, deviation^2), by Gauss-Legendre between the bends."""
    low, high = mean - 9 * deviation, mean + 9 * deviation
    cuts = [np.clip(bend, low, high) for bend in bends]
    edges = [low, *cuts, high]
    value, slope = 0.0, 0.0
    for a, b in pairwise(edges):
        z = a + (b - a) * (LEGENDRE[0][:, None, None] + 1) / 2
        g = (z - mean) / deviation
        f = (b - a) / 2 * of(z) * norm.pdf(g) / deviation
        value = value + np.einsum("i,i...", LEGENDRE[1], f)
        slope = slope + np.einsum("i,i...", LEGENDRE[1], f * g) / deviation
    return value, slope


def psi_and_force(case: Case, v: float, is_noise: bool) -> tuple[float, float]:
    """E int dy Z log Z and E int dy (dZ/d omega)^2/Z on grids."""
    y = np.linspace(-case.reach, case.reach, 8001 if is_noise else 601)
    omega = np.zeros((1, 1)) if is_noise else np.linspace(-8, 8, 121)[:, None] * np.sqrt(1 - v)
    weight = norm.pdf(omega / np.sqrt(1 - v))
    bends = [y - place if is_noise else np.full_like(y, place) for place in case.bends]
    z_out, slope = unknown_mean(lambda z: case.numbers(y, z), omega, np.sqrt(v), sorted_(bends))
    seen = z_out > 1e-290
    safe = np.where(seen, z_out, 1.0)
    parts = safe * np.log(safe), np.where(seen, slope**2 / safe, 0.0)
    step = y[1] - y[0]
    psi, force = (np.sum(weight * part) * step / np.sum(weight) for part in parts)
    return float(psi), float(force)


def sorted_(bends: list[Any]) -> list[Any]:
    return list(np.sort(np.stack(bends), axis=0)) if bends else []


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "with_slope"),
    [
        ("laplace", True),
        ("relu", False),
        *(pytest.param(n, True, marks=SLOW) for n in NOISES if n != "laplace"),
        *(pytest.param(n, True, marks=SLOW) for n in ("relu", "abs", "leaky")),
    ],
)
def test_the_output_term_and_its_slope(name: str, with_slope: bool) -> None:
    case = (NOISES | OUTPUTS)[name]
    term = output_term(case.symbols, UNKNOWN, sp.S.One)
    unknowns = np.array([0.04, 0.7])
    psi, error = value_and_error([UNKNOWN], term, [unknowns])
    exact = np.array([psi_and_force(case, v, name in NOISES) for v in unknowns]).T
    assert np.max(error) < 1e-10
    assert np.asarray(psi) == pytest.approx(exact[0], abs=2e-6)
    if with_slope:
        force = -2 * np.asarray(function([UNKNOWN], term.diff(UNKNOWN))(unknowns))
        assert force == pytest.approx(exact[1], rel=2e-5, abs=2e-6)


def test_laplace_noise_on_every_scale() -> None:
    """By adaptive quadrature between places on the scale of sqrt(V)."""
    variances = np.array([1e-10, 1e-4, 0.3, 50.0])
    term = output_term(NOISES["laplace"].symbols, UNKNOWN, sp.S(100))
    values, errors = (np.asarray(v) for v in value_and_error([UNKNOWN], term, [variances]))
    exact = np.array([laplace_psi(v) for v in variances])
    assert np.all(np.abs(values - exact) <= errors + 1e-12)
    assert np.max(errors) < 1e-9


def laplace_psi(variance: float) -> float:
    spread = np.sqrt(variance)

    def log_z(u: float) -> float:
        sides = (s * -2 * u + norm.logcdf((s * u - 2 * variance) / spread) for s in (1, -1))
        return float(np.logaddexp(*sides)) + 2 * variance

    places = [k * spread for k in (1, 5, 20)]
    ends = sorted({0.0, *places, *(-p for p in places), -25 - 9 * spread, 25 + 9 * spread})
    return sum(
        quad(lambda u: np.exp(log_z(u)) * log_z(u), a, b, epsabs=1e-13, limit=300)[0]
        for a, b in pairwise(ends)
    )


def test_a_density_is_read_between_its_bends() -> None:
    laplace = terms_of(sp.exp(-sp.Abs(Y - Z) / B) / (2 * B))
    assert laplace is not None
    assert [(t.low, t.high, sp.expand(t.exponent * B)) for t in laplace] == [
        (-sp.oo, Y, Z - Y),
        (Y, sp.oo, Y - Z),
    ]
    folded = terms_of(normal(Y, sp.Abs(Z), NOISE))
    assert folded is not None
    assert [(t.low, t.high) for t in folded] == [(-sp.oo, 0), (0, sp.oo)]
    assert terms_of(1 / (1 + (Y - Z) ** 2) / sp.pi) is None


@pytest.mark.parametrize(
    ("density", "sentence"),
    [
        (sp.exp(-sp.Abs(Y - sp.Abs(Z))) / 2, "changes with y"),
        (1 / (1 + sp.Abs(Y - Z)) ** 2 / 2, r"sum of exponentials of what is quadratic in z"),
        (sp.exp(-((Y - sp.Abs(Z)) ** 2)), r"has the total 1.772 at z = -1.400"),
        (sp.exp(-sp.Abs(Y - Z) / B) / 2, r"has the total 0.5 at"),
    ],
    ids=["order", "tail", "total", "control"],
)
def test_what_cannot_be_averaged_is_named(density: sp.Expr, sentence: str) -> None:
    with pytest.raises(ModelError, match=sentence):
        bayes_glm(normal(X), density)
