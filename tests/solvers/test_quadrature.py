"""Node sets, and one promise: the reported error of an average never understates the true one."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
import scipy.special as special
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from equations.calculus.averages import Average, LineIntegral, MellinIntegral
from equations.calculus.special_functions import InverseMills, LogCosh, LogNdtr
from replica.errors import LoweringError
from replica.lowering.lower import NodeSizes, function, value_and_error
from solvers import quadrature

x, a, q = sp.symbols("x a q", real=True)
z = sp.Symbol("z")
m, v = sp.Symbol("m", real=True), sp.Symbol("v", nonnegative=True)


# node sets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 71, 400, 1000])
def test_gauss_hermite_weights(n: int) -> None:
    points, weights = quadrature.gauss_hermite(n)
    assert np.all(np.isfinite(points)) and np.all(np.isfinite(weights))
    assert weights.sum() == pytest.approx(1, abs=1e-14)
    if n > 1:
        assert weights @ points**2 == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("n", [71, 113, 400, 1000])
@pytest.mark.parametrize("even", [False, True])
def test_trapezoid_weights(n: int, even: bool) -> None:
    points, weights = quadrature.trapezoid_gaussian(n, even)
    assert weights.sum() == pytest.approx(1, abs=1e-14)
    np.testing.assert_allclose([weights @ points**2, weights @ points**4], [1, 3], rtol=1e-12)
    if even:
        assert points[0] == 0 and len(points) == n // 2 + 1
        full = quadrature.trapezoid_gaussian(n)
        assert weights @ np.cosh(points) == pytest.approx(
            full.weights @ np.cosh(full.points), rel=1e-14
        )


@pytest.mark.parametrize("n", [64, 400, 1000])
def test_unit_interval_rules(n: int) -> None:
    points, weights = quadrature.gauss_legendre(n)
    np.testing.assert_allclose(
        [weights.sum(), weights @ points, weights @ points**5], [1, 1 / 2, 1 / 6], rtol=1e-12
    )
    points, weights = quadrature.unit_trapezoid(n)
    assert weights @ np.exp(-((points - 0.5) ** 2) * 400) == pytest.approx(
        np.sqrt(np.pi) / 20, rel=1e-12
    )


@given(degree=st.integers(0, 12), n=st.integers(7, 40))
def test_gauss_hermite_is_exact_for_polynomials(degree: int, n: int) -> None:
    points, weights = quadrature.gauss_hermite(n)
    exact = 0.0 if degree % 2 else float(special.factorial2(max(degree - 1, 1)))
    scale = weights @ np.abs(points) ** degree
    assert weights @ points**degree == pytest.approx(exact, rel=1e-11, abs=1e-12 * scale)


def test_sobol_points_are_gaussian_and_reproducible() -> None:
    points = quadrature.sobol_gaussian(3, 12, 2, seed=7)
    assert points.shape == (2, 4096, 3) and np.all(np.isfinite(points))
    np.testing.assert_allclose(points.mean(axis=1), 0, atol=2e-3)
    np.testing.assert_allclose(points.var(axis=1), 1, atol=5e-3)
    np.testing.assert_array_equal(points, quadrature.sobol_gaussian(3, 12, 2, seed=7))
    assert not np.array_equal(points[0], points[1])


# moments through the lowering ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "focus",
    [(), (0, sp.Rational(1, 100)), (sp.Rational(7, 10), 3)],
    ids=["plain", "narrow", "wide"],
)
def test_moments_at_mean_and_variance(focus: tuple[sp.Expr, ...]) -> None:
    """1, 2.99, 26.3401: a mix-up of variance and deviation, or a sqrt(2), shows here."""
    one = function(
        [m, v],
        Average(1 + 0 * x + sp.Symbol("eps", real=True) * x, x, m, v, *focus).subs(
            sp.Symbol("eps", real=True), 0
        ),
    )(0.7, 2.5)
    assert one == 1
    cosine = function(
        [m, v], Average(sp.cos(x) ** 2, x, m, v, *focus) + Average(sp.sin(x) ** 2, x, m, v, *focus)
    )(0.7, 2.5)
    assert cosine == pytest.approx(1, abs=1e-12)
    for power, exact in ((1, 0.7), (2, 2.99), (4, 26.3401)):
        assert function([m, v], Average(x**power, x, m, v, *focus))(0.7, 2.5) == pytest.approx(
            exact, rel=1e-12
        )


@given(mean=st.floats(-3, 3), variance=st.floats(0, 4), kink=st.floats(-10, 10))
def test_panels_reproduce_moments(mean: float, variance: float, kink: float) -> None:
    """E[x^2 H(x - a)] + E[x^2 H(a - x)] = m^2 + v wherever the kink lies."""
    halves = Average(x**2 * sp.Heaviside(x - a), x, m, v) + Average(
        x**2 * sp.Heaviside(a - x), x, m, v
    )
    assert function([a, m, v], halves)(kink, mean, variance) == pytest.approx(
        mean**2 + variance, rel=1e-12, abs=1e-14
    )


# Mellin -------------------------------------------------------------------------------------------


@given(real=st.floats(-0.95, 8).filter(lambda r: abs(r) > 1e-2), imaginary=st.floats(-20, 20))
def test_complex_gamma(real: float, imaginary: float) -> None:
    u = complex(real, imaginary)
    assert complex(quadrature.complex_gamma(np.asarray(u))) == pytest.approx(
        complex(special.gamma(u)), rel=1e-13
    )


@pytest.mark.parametrize("point", [-6.0, -1.0, 0.0, 1.0, 2.5])
@pytest.mark.parametrize("rule", [NodeSizes(), NodeSizes().shifted()], ids=["first", "second"])
@pytest.mark.parametrize("period", [112, 250])
def test_mellin_inverts_the_gamma_function(point: float, rule: NodeSizes, period: int) -> None:
    """exp(-e^u) - 1 = (1/2 pi i) int dz Gamma(z) e^{-z u} on Re z = -1/4; with a long period the
    nodes reach as far up the contour as with a short one.
    """
    integral = MellinIntegral(sp.exp(-z * a), z, sp.Rational(-1, 4), period)
    assert function([a], integral, rule)(point) == pytest.approx(
        np.expm1(-np.exp(point)), abs=1e-12
    )


def test_mellin_averages_a_double_exponential() -> None:
    """E exp(-e^{a + g}) by e^{-z a + z^2/2} under the contour, and by a Gaussian average."""
    closed = 1 + MellinIntegral(sp.exp(-z * a + z**2 / 2), z, sp.Rational(-1, 4), 112)
    direct = Average(sp.exp(-sp.exp(a + x)), x, 0, 1)
    for point in (-4.0, -1.0, 0.5):
        assert function([a], closed)(point) == pytest.approx(
            float(function([a], direct)(point)), abs=1e-11
        )


def test_line_integral() -> None:
    value = function([a], LineIntegral(sp.exp(-(x**2) / 2) * sp.cos(a * x), x, -9 - a**2, 9))
    assert value(0.8) == pytest.approx(np.sqrt(2 * np.pi) * np.exp(-0.32), rel=1e-13)


# the promise --------------------------------------------------------------------------------------


def gaussian_mean(f: object, *breaks: float) -> float:
    """E f(Z) by mpmath at 40 digits."""
    with mp.workdps(40):
        edges = sorted({-40, -8, -2, 0, 2, 8, 40, *breaks})
        return float(mp.quad(lambda t: mp.npdf(t) * f(t), edges))  # type: ignore[operator]


PERCEPTRON = (
    2
    / (1 - q)
    * Average(
        InverseMills(sp.sqrt(q / (1 - q)) * x) ** 2 * sp.exp(LogNdtr(sp.sqrt(q / (1 - q)) * x)),
        x,
        0,
        1,
        0,
        sp.sqrt((1 - q) / q),
    )
)
PLAIN = Average(PERCEPTRON.atoms(Average).pop().body, x, 0, 1) * 2 / (1 - q)
# name: expression, its symbol, its value, the exact average
EXACT = {
    "step": (Average(sp.Heaviside(x - a), x, 0, 1), a, 0.3, 0.3820885778110474),
    "relu": (Average(sp.Max(0, x - a), x, 0, 1), a, 0.3, 0.26676124211720986),
    "two kinks": (
        Average(sp.Max(0, x - a) * sp.Heaviside(2 - x), x, 0, 1),
        a,
        0.3,
        gaussian_mean(lambda t: max(0, t - mp.mpf("0.3")) * (t < 2), 0.3, 2),
    ),
    "fourth moment": (Average(a * x**4, x, 0, 1), a, 1.0, 3.0),
    "exponential": (Average(sp.exp(a * x), x, 0, 1), a, 1.3, float(np.exp(1.3**2 / 2))),
    "log 2 cosh": (
        Average(sp.log(2) + LogCosh(3 + a * x), x, 0, 1),
        a,
        2.0,
        gaussian_mean(lambda t: mp.log(2 * mp.cosh(3 + 2 * t)), -1.5),
    ),
    "shifted log 2 cosh": (
        Average(sp.log(2) + LogCosh(x), x, 3, a**2),
        a,
        2.0,
        gaussian_mean(lambda t: mp.log(2 * mp.cosh(3 + 2 * t)), -1.5),
    ),
    "tanh squared": (
        Average(sp.tanh(a * x) ** 2, x, 0, 1),
        a,
        1.5,
        gaussian_mean(lambda t: mp.tanh(1.5 * t) ** 2),
    ),
    "cosine": (Average(sp.cos(a * x), x, 0, 1), a, 4.0, float(np.exp(-8))),
    "log Phi": (
        Average(LogNdtr(a * x), x, 0, 1),
        a,
        2.0,
        gaussian_mean(lambda t: mp.log(mp.ncdf(2 * t))),
    ),
    "perceptron .5": (PERCEPTRON, q, 0.5, 0.961075916149821),
    "perceptron .9": (PERCEPTRON, q, 0.9, 2.25347864999614),
    "perceptron .99": (PERCEPTRON, q, 0.99, 7.19847755129717),
    "perceptron .999": (PERCEPTRON, q, 0.999, 22.7863377589772),
}
# Averages that the plain rule does not resolve: the error must cover that too.
HARD = {
    "cut exponential": (Average(sp.exp(a * x), x, 0, 1), a, 5.0, float(np.exp(12.5))),
    "half an exponential": (Average(sp.exp(a * x), x, 0, 1), a, 8.5, float(np.exp(8.5**2 / 2))),
    "cut exponential with a kink": (
        Average(sp.exp(a * x) * sp.Heaviside(x), x, 0, 1),
        a,
        6.0,
        float(np.exp(18) * special.ndtr(6)),
    ),
    "narrow perceptron .99": (PLAIN, q, 0.99, 7.19847755129717),
    "narrow perceptron .999": (PLAIN, q, 0.999, 22.7863377589772),
    "steep tanh": (
        Average(sp.tanh(a * x + 1) ** 2, x, 0, 1),
        a,
        40.0,
        gaussian_mean(lambda t: mp.tanh(40 * t + 1) ** 2, -0.025, -0.5, 0.5, -0.1, 0.1),
    ),
    "fast cosine": (Average(sp.cos(a * x), x, 0, 1), a, 20.0, float(np.exp(-200))),
}

# Known failures: so far from resolved that the error understates the truth. It must still be far
# above any tolerance (the result is reported as unresolved), and the truth within the factor given.
UNDERSTATED = {
    "exponential beyond the cut": (
        Average(sp.exp(a * x), x, 0, 1),
        a,
        11.0,
        float(np.exp(60.5)),
        9.0,
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_reported_error_covers_the_true_one(name: str) -> None:
    expr, symbol, point, exact = EXACT[name]
    value, error = value_and_error([symbol], expr, [point])
    assert abs(float(value) - exact) <= float(error)
    assert float(error) < 1e-8 * max(1.0, abs(exact))


@pytest.mark.parametrize("name", HARD)
def test_reported_error_admits_what_is_not_resolved(name: str) -> None:
    expr, symbol, point, exact = HARD[name]
    value, error = value_and_error([symbol], expr, [point])
    assert abs(float(value) - exact) <= float(error)


@pytest.mark.parametrize("name", UNDERSTATED)
def test_known_failures_are_flagged(name: str) -> None:
    expr, symbol, point, exact, factor = UNDERSTATED[name]
    value, error = value_and_error([symbol], expr, [point])
    assert float(error) > 1e-2 * abs(float(value))
    assert float(error) < abs(float(value) - exact) < factor * float(error)


def test_a_kink_that_cannot_be_located_is_refused() -> None:
    """A step at the zeros of x^3 - a would be off by 2e-2 with an error estimate of 2e-3."""
    with pytest.raises(LoweringError, match="linear in x"):
        function([a], Average(sp.Heaviside(x**3 - a), x, 0, 1))


@given(mean=st.floats(-2, 2), variance=st.floats(0.0, 4.0), slope=st.floats(-2, 2))
def test_reported_error_covers_the_true_one_at_random(
    mean: float, variance: float, slope: float
) -> None:
    average = Average(sp.exp(a * x) + sp.cos(a * x), x, m, v)
    value, error = value_and_error([a, m, v], average, [slope, mean, variance])
    exact = np.exp(slope * mean + slope**2 * variance / 2) + np.cos(slope * mean) * np.exp(
        -(slope**2) * variance / 2
    )
    assert abs(float(value) - exact) <= float(error)


def test_errors_come_per_point() -> None:
    value, error = value_and_error(
        [a], Average(sp.exp(a * x), x, 0, 1), [np.array([0.1, 5.0, 11.0])]
    )
    assert value.shape == error.shape == (3,)
    assert error[0] < 1e-12 and error[2] > 1e-6 * value[2]
