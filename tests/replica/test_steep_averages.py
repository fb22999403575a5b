"""Averages of narrow steps without a named focus: errors cover the truth, and 1e-8 is reached."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.special
import sympy as sp
from scipy.integrate import quad

from equations.calculus.steepness import steep_places
from replica import Average, Logistic, LogNdtr
from replica.lowering.lower import function, value_and_error

a, c, x, y = sp.symbols("a c x y", real=True)
STEPS = {
    "tanh": (sp.tanh, np.tanh),
    "tanh^2": (lambda u: sp.tanh(u) ** 2, lambda u: np.tanh(u) ** 2),
    "erf": (sp.erf, scipy.special.erf),
    "logistic": (Logistic, scipy.special.expit),
}
SLOPES = np.geomspace(1e-3, 1e6, 7)
SPREAD = 0.1
"""The share of the inner variable in the argument of nested averages."""


def by_pieces(of: object, slope: float, centre: float, spread: float) -> float:
    """E f(slope (spread g - centre)) by adaptive quadrature between break points."""

    def integrand(g: float) -> float:
        weight = np.exp(-(g**2) / 2) / np.sqrt(2 * np.pi)
        return of(slope * (spread * g - centre)) * weight  # type: ignore[operator]

    steps = (-300, -30, -5, 0, 5, 30, 300)
    places = [(centre + k / slope) / spread for k in steps]
    inside = sorted({p for p in places if -11 < p < 11} | {0.0})
    edges = [-11, *inside, 11]
    pairs = pairwise(edges)
    return sum(quad(integrand, *pair, epsabs=1e-14, epsrel=1e-13, limit=300)[0] for pair in pairs)


@pytest.mark.parametrize("seed", [1, pytest.param(None, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("is_nested", [False, True])
def test_a_step_of_any_slope_is_resolved_and_its_error_covers(
    name: str, is_nested: bool, seed: int | None
) -> None:
    symbolic, numeric = STEPS[name]
    inner = a * (SPREAD * y + x - c) if is_nested else a * (x - c)
    expr = Average(symbolic(inner), x)
    expr = Average(expr, y) if is_nested else expr
    spread = np.sqrt(1 + SPREAD**2) if is_nested else 1.0
    centres = np.random.default_rng(seed).uniform(-3, 3, len(SLOPES))
    value, error = (np.asarray(v) for v in value_and_error([a, c], expr, [SLOPES, centres]))
    true = [by_pieces(numeric, *pair, spread) for pair in zip(SLOPES, centres, strict=True)]
    wrong = np.abs(value - true)
    assert np.all(wrong <= error), (centres, wrong, error)
    assert np.all(error <= 1e-8), (centres, error)


def test_a_ratio_of_tails_is_resolved() -> None:
    body = sp.exp(-((a * x) ** 2) - sp.log(2 * sp.pi) - LogNdtr(a * x))
    value, error = value_and_error([a], Average(body, x), [40.0])

    def integrand(g: float) -> float:
        exponent = -((40 * g) ** 2) - np.log(2 * np.pi) - scipy.special.log_ndtr(40 * g)
        return np.exp(exponent - g**2 / 2) / np.sqrt(2 * np.pi)

    true = quad(integrand, -1, 1, points=[-0.1, 0, 0.1], epsabs=1e-15, limit=300)[0]
    assert abs(float(value) - true) <= float(error) <= 1e-10


def test_wide_steps_keep_the_equidistant_nodes() -> None:
    """Bit for bit: the same without the step in sight."""
    wide = float(function([a], Average(sp.tanh(a * x + 1), x))(1.5))
    nodes = np.linspace(-8.5, 8.5, 71)
    weights = np.exp(-(nodes**2) / 2)
    assert wide == pytest.approx(
        np.sum(weights * np.tanh(1.5 * nodes + 1)) / weights.sum(), abs=1e-15
    )


def test_an_average_inside_softens_a_step() -> None:
    inner = Average(sp.tanh(a * x + 3 * y), y, 0, 2)
    (place,) = steep_places(inner, x)
    assert (place.slope, place.offset, place.square) == (a, 0, 19)


@pytest.mark.parametrize("of", [sp.tanh(x).diff(x), 1 - sp.tanh(x) ** 2, sp.sech(x) ** 2])
def test_what_is_one_minus_nearly_one(of: sp.Expr) -> None:
    assert float(function([x], of)(25.0)) == pytest.approx(7.714999391855e-22, rel=1e-12)
    assert float(function([x], 1 - Logistic(x))(40.0)) == pytest.approx(np.exp(-40), rel=1e-12)
