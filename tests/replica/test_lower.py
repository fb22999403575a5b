"""Symbols to arrays: values under jit and vmap, and errors at lowering that name the node and the
model.
"""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special as special
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from equations.calculus.averages import Average, LineIntegral, TokenAverage
from equations.calculus.special_functions import LogSumExp
from replica.errors import LoweringError
from replica.lowering.lower import Lowered, NodeSizes, function

x, a, b, z = sp.symbols("x a b z", real=True)
l = sp.Symbol("l", integer=True, positive=True)  # noqa: E741
POINTS = np.array([-1.5, 0.0, 0.7])


# special functions --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "exact", "tolerance"),
    [
        (sp.erf, special.erf, 1e-14),
        (sp.erfc, special.erfc, 1e-14),
        (sp.loggamma, special.gammaln, 1e-14),
        (sp.gamma, special.gamma, 1e-13),
    ],
    ids=["erf", "erfc", "loggamma", "gamma"],
)
def test_special_functions_on_arrays(f: type, exact: object, tolerance: float) -> None:
    """As they are, under jit and under vmap; loggamma of a negative number is log |Gamma|, as
    gammaln has it.
    """
    value = function([x], f(x))
    points = POINTS[POINTS != 0] if f is sp.gamma else POINTS  # Gamma(0) is a pole; scipy has inf
    for call in (value, jax.jit(value), jax.vmap(value)):
        np.testing.assert_allclose(call(points), exact(points), rtol=tolerance)  # type: ignore[operator]


@given(st.floats(-4.5, 60).filter(lambda u: abs(u - round(u)) > 1e-3 or u > 0.5))
def test_gamma_and_its_logarithm(u: float) -> None:
    assert function([x], sp.gamma(x))(u) == pytest.approx(special.gamma(u), rel=1e-12)
    assert function([x], sp.loggamma(x))(u) == pytest.approx(
        special.gammaln(u), rel=1e-11, abs=1e-14
    )


@pytest.mark.parametrize(
    ("expr", "point", "exact"),
    [
        (sp.erfinv(x), 0.3, special.erfinv(0.3)),
        (sp.digamma(x), 1.5, special.digamma(1.5)),
        (sp.loggamma(x).diff(x), 1.5, special.digamma(1.5)),
        (sp.polygamma(1, x), 1.5, special.polygamma(1, 1.5)),
        (sp.digamma(x).diff(x, 2), 2.5, special.polygamma(2, 2.5)),
        (sp.gamma(x).diff(x), 2.5, special.gamma(2.5) * special.digamma(2.5)),
        (sp.erfinv(x).diff(x), 0.3, np.sqrt(np.pi) / 2 * np.exp(special.erfinv(0.3) ** 2)),
    ],
    ids=str,
)
def test_special_functions_with_a_value(expr: sp.Expr, point: float, exact: float) -> None:
    value = function([x], expr)
    assert value(point) == pytest.approx(exact, rel=1e-12)
    np.testing.assert_allclose(jax.jit(value)(jnp.full(3, point)), np.full(3, exact), rtol=1e-12)


@pytest.mark.parametrize(
    "f",
    [
        sp.sin,
        sp.cos,
        sp.tan,
        sp.asin,
        sp.acos,
        sp.atan,
        sp.sinh,
        sp.cosh,
        sp.tanh,
        sp.asinh,
        sp.atanh,
        sp.sech,
        sp.exp,
        sp.log,
        sp.sign,
        sp.Heaviside,
        sp.Abs,
    ],
)
def test_every_plain_row_is_the_sympy_function(f: type) -> None:
    """A row bound to the wrong function would show here."""
    points = np.array([0.2, 0.55, 0.9])
    np.testing.assert_allclose(
        function([x], f(x))(points), [float(f(sp.Float(p, 30))) for p in points], rtol=1e-14
    )


# named errors, raised when lowering ---------------------------------------------------------------

REFUSED = {
    "polylog": (sp.polylog(2, x), "no lowering for polylog"),
    "delta": (sp.DiracDelta(x), "no lowering for DiracDelta.*by parts"),
    "slope of sign": (sp.sign(x).diff(x), "DiracDelta.*by parts"),
    "second derivative of max": (sp.Max(0, x).diff(x, 2), "DiracDelta.*by parts"),
    "unknown function": (sp.Function("mystery")(x), "no lowering for mystery"),
    "derivative": (sp.Derivative(sp.Function("f")(x), x), "no lowering for"),
    "integral": (sp.Integral(sp.exp(-(x**2)), (x, 0, 1)), "no lowering for Integral"),
    "infinity": (sp.zoo * x, "no lowering for ComplexInfinity"),
    "partial Piecewise": (sp.Piecewise((1, x > 0)), "not total"),
    "tokens": (TokenAverage(LogSumExp(x * l, l, 3), l, 3, [], [], []), "rewritten"),
    "inside an average": (Average(sp.zeta(1 + z**2), z, 0, x), "no lowering for zeta"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_when_lowering(name: str) -> None:
    """The error comes before the first call and names the node, the model and the place."""
    expr, message = REFUSED[name]
    with pytest.raises(LoweringError, match=message) as refused:
        Lowered({"risk": expr}, [x], [], "my-model", NodeSizes())
    assert "my-model" in str(refused.value) and "risk" in str(refused.value)
    with pytest.raises(LoweringError, match=message):
        function([x], expr)


def test_undeclared_symbol_is_named() -> None:
    with pytest.raises(LoweringError, match=r"my-model: b in risk is neither"):
        Lowered({"risk": a + b}, [a], [], "my-model", NodeSizes())


def test_two_symbols_of_one_name_are_refused() -> None:
    for other in (sp.Symbol("a"), sp.Symbol("a", positive=True)):
        with pytest.raises(LoweringError, match="two symbols named a"):
            function([a, other], a + other**2)
        with pytest.raises(LoweringError, match="my-model: two symbols named a"):
            Lowered({"first": a, "second": other}, [a, other], [], "my-model", NodeSizes())


def test_a_symbolic_array_size_is_named() -> None:
    count = sp.Symbol("L", integer=True, positive=True)
    with pytest.raises(LoweringError, match="array size"):
        function([count], LogSumExp(l * count, l, count))(3.0)


@pytest.mark.parametrize("limits", [(l, 0, 3), (l, 2, 5)])
def test_sums_that_do_not_start_at_one_are_refused(limits: tuple[object, ...]) -> None:
    with pytest.raises(LoweringError, match="from 1"):
        function([a], sp.Sum(sp.sin(a * l), limits))(0.3)


# Piecewise ----------------------------------------------------------------------------------------


def test_piecewise() -> None:
    window = sp.Piecewise((1, (x > -1) & (x < 1)), (0, True))
    np.testing.assert_array_equal(function([x], window)(POINTS), [0, 1, 1])


def test_piecewise_takes_the_first_condition_that_holds() -> None:
    steps = sp.Piecewise((1, x < -1), (2, x < 0.5), (3, x < 5), (4, True))
    np.testing.assert_array_equal(
        function([x], steps)(np.array([-2.0, 0.0, 0.7, 9.0])), [1, 2, 3, 4]
    )
    either = sp.Piecewise((1, (x < -1) | sp.Ne(x, x) | ~(x <= 0.5)), (0, True))
    np.testing.assert_array_equal(function([x], either)(POINTS), [1, 0, 1])


def test_piecewise_under_an_average_is_exact() -> None:
    """P(-1 < Z < 1) with the edges of the window as edges of the panels."""
    window = Average(sp.Piecewise((1, (z > -a) & (z < a)), (0, True)), z, 0, 1)
    assert function([a], window)(1.0) == pytest.approx(special.erf(1 / np.sqrt(2)), abs=1e-14)


# shapes -------------------------------------------------------------------------------------------


def test_constant_derivative_has_the_shape_of_the_points() -> None:
    slope = function([x], (2 * x + 1).diff(x))
    for call in (slope, jax.jit(slope), jax.vmap(slope)):
        np.testing.assert_array_equal(call(np.linspace(0, 1, 10)), np.full(10, 2.0))
    assert function([x], 2)(0.0).shape == ()


def test_arrays_broadcast_against_each_other() -> None:
    value = function([a, b], a + 10 * b)(np.arange(3.0)[:, None], np.arange(4.0))
    np.testing.assert_array_equal(value, np.arange(3.0)[:, None] + 10 * np.arange(4.0))


def test_float64_is_delivered() -> None:
    assert function([x], sp.exp(x))(np.float32(0.1)).dtype == jnp.float64


# arithmetic ---------------------------------------------------------------------------------------


def test_small_differences_do_not_cancel() -> None:
    assert function([x], sp.exp(x) - 1)(1e-18) == 1e-18
    assert function([x], 1 - sp.exp(x))(1e-18) == -1e-18
    assert function([x], sp.log(1 + x))(1e-18) == 1e-18


def test_powers() -> None:
    n = sp.Symbol("n", real=True)
    assert function([x, n], x**n + x**-2 + x ** sp.Rational(-3, 2) + x ** sp.Rational(1, 3))(
        2.0, 1.7
    ) == pytest.approx(2**1.7 + 0.25 + 2**-1.5 + 2 ** (1 / 3), rel=1e-15)
    assert function([x], x**3)(-2.0) == -8


# indexed sums -------------------------------------------------------------------------------------


@pytest.mark.parametrize("terms", [100, 1600])
def test_long_sums_stay_an_array_axis(terms: int) -> None:
    """Value, derivative and second derivative, compiled, in under 5 s whatever the
    number of terms.
    """
    started = time.perf_counter()
    total = sp.Sum(sp.tanh(a * l / terms) / terms, (l, 1, terms))
    values = [
        jax.jit(function([a], e))(0.8)
        for e in (total, total.diff(a), LogSumExp(sp.sin(a * l), l, terms).diff(a))
    ]
    elapsed = time.perf_counter() - started
    u = np.arange(1, terms + 1) / terms
    weights = np.exp(np.sin(0.8 * terms * u))
    exact = [
        np.mean(np.tanh(0.8 * u)),
        np.mean(u / np.cosh(0.8 * u) ** 2),
        np.sum(weights * np.cos(0.8 * terms * u) * terms * u) / weights.sum(),
    ]
    np.testing.assert_allclose(values, exact, rtol=1e-11)
    assert elapsed < 5


def test_one_index_over_two_ranges() -> None:
    """Two sums side by side may share an index; nested ones over different ranges may not."""
    apart = sp.Sum(a * l, (l, 1, 3)) + sp.Sum(a * l**2, (l, 1, 4))
    assert function([a], apart)(1.0) == 36
    nested = sp.Sum(sp.exp(a * l) * LogSumExp(a * l, l, 4), (l, 1, 3))
    with pytest.raises(LoweringError, match="bound twice"):
        function([a], nested)(0.5)
    double = LogSumExp(a * l, l, 3) * sp.Sum(sp.exp(a * l), (l, 1, 3))
    s = np.exp(0.5 * np.arange(1, 4)).sum()
    assert function([a], double)(0.5) == pytest.approx(np.log(s) * s, rel=1e-14)


# binding ------------------------------------------------------------------------------------------

BODIES = [
    Average(sp.Heaviside(z - a) * sp.exp(z), z, 0, 1),
    Average(sp.Max(0, z - a) * sp.cos(z), z, 0, b**2),
    Average(sp.tanh(z) * sp.exp(b * z), z, a, 1),
    Average(sp.tanh(z / 3) ** 2, z, 0, 1, a, sp.Rational(1, 10)),
    LineIntegral(sp.exp(-(z**2)) * sp.cos(a * z), z, -9 - a**2, 9),
    Average(Average(sp.Heaviside(z + x - a) * sp.exp(x), x, 0, 1) * sp.exp(z / 2), z, 0, b**2),
    sp.Sum(sp.exp(-l * b) * a, (l, 1, 5)) + b,
]


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
@pytest.mark.parametrize("unknown", [a, b], ids=str)
def test_values_cached_at_binding_do_not_leak(body: sp.Expr, unknown: sp.Symbol) -> None:
    """bind(x0)(x1) = bind(x1)(x1): what is cached at x0 must not depend on the unknown."""
    (control,) = {a, b} - {unknown}
    lowered = Lowered({"value": body}, [unknown], [control], "test", NodeSizes())
    fixed = {control: jnp.asarray(0.9)}
    moved = lowered.bind(jnp.array([0.3]), fixed)(jnp.array([1.1]))["value"]
    assert moved == pytest.approx(
        float(lowered.bind(jnp.array([1.1]), fixed)(None)["value"]), rel=1e-13
    )


def test_lowering_composes_with_grad_and_vmap() -> None:
    value = function([a, b], Average(sp.exp(a * z), z, b, 1))
    np.testing.assert_allclose(
        jax.vmap(jax.grad(value), in_axes=(0, None))(jnp.array([0.1, 0.5]), 0.2),
        [(0.2 + u) * np.exp(0.2 * u + u * u / 2) for u in (0.1, 0.5)],
        rtol=1e-12,
    )
