"""Functions that must not overflow: recognition, derivatives, tails and NaN, against mpmath."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from hypothesis import example, given
from hypothesis import strategies as st

from equations.calculus.special_functions import (
    IntervalDensity,
    InverseMills,
    LogAdd,
    LogCosh,
    LogInterval,
    Logistic,
    LogNdtr,
    LogSumExp,
    MillsGap,
    Softplus,
    TruncatedVariance,
    UnitPower,
    stabilise,
)
from replica.lowering.functions import FUNCTIONS
from replica.lowering.lower import Lowered, NodeSizes, function

x, y, b = sp.symbols("x y b", real=True)
c = sp.Symbol("c", positive=True)
l = sp.Symbol("l", integer=True, positive=True)  # noqa: E741
w = sp.IndexedBase("w")
L = sp.Symbol("L", integer=True, positive=True)


def mills(t: float) -> tuple[mp.mpf, mp.mpf, mp.mpf, mp.mpf]:
    """log Phi, m, g, v at 40 digits or more (from the series below -1000)."""
    with mp.workdps(250):
        z = mp.mpf(float(t))
        if z > -1000:
            phi, cdf = mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi), mp.erfc(-z / mp.sqrt(2)) / 2
            m, log_cdf = phi / cdf, mp.log(cdf)
        else:
            term, total = mp.mpf(1), mp.mpf(1)
            for n in range(1, 12):
                term *= -(2 * n - 1) / z**2
                total += term
            m = -z / total
            log_cdf = -z * z / 2 - mp.log(2 * mp.pi) / 2 - mp.log(m)
        return log_cdf, m, z + m, 1 - m * (z + m)


def relative(value: float, exact: mp.mpf) -> float:
    return float(abs(mp.mpf(float(value)) / exact - 1))


# recognition --------------------------------------------------------------------------------------

RECOGNISED = {
    "log erfc": (sp.log(sp.erfc(x)), sp.log(2) + LogNdtr(-sp.sqrt(2) * x)),
    "log erfc / 2": (sp.log(sp.erfc(-x / sp.sqrt(2)) / 2), LogNdtr(x)),
    "log(1 + erf)": (sp.log(1 + sp.erf(x)), sp.log(2) + LogNdtr(sp.sqrt(2) * x)),
    "log(1 - erf)": (sp.log(1 - sp.erf(x + y)), sp.log(2) + LogNdtr(-sp.sqrt(2) * (x + y))),
    "log (1 + erf)/2": (sp.log((1 + sp.erf(x / sp.sqrt(2))) / 2), LogNdtr(x)),
    "log(1 + e^x)": (sp.log(1 + sp.exp(x)), Softplus(x)),
    "log(1 + e^(x+y))": (sp.log(1 + sp.exp(x + y)), Softplus(x + y)),
    "log(1 + 2 e^x)": (sp.log(1 + 2 * sp.exp(x)), Softplus(x + sp.log(2))),
    "log 3(1 + e^-x)": (sp.log(3 + 3 * sp.exp(-x)), sp.log(3) + Softplus(-x)),
    "log of the logistic": (sp.log(1 / (1 + sp.exp(-x))), -Softplus(-x)),
    "log cosh": (sp.log(sp.cosh(x)), LogCosh(x)),
    "log 2 cosh": (sp.log(2 * sp.cosh(x)), sp.log(2) + LogCosh(x)),
    "log c cosh": (sp.log(c * sp.cosh(x)), sp.log(c) + LogCosh(x)),
    "log sum exp": (sp.log(sp.Sum(sp.exp(x * w[l]), (l, 1, L))), LogSumExp(x * w[l], l, L)),
    "log c sum exp": (
        sp.log(c * sp.Sum(sp.exp(w[l]), (l, 1, L))),
        sp.log(c) + LogSumExp(w[l], l, L),
    ),
    "two factors": (
        sp.log(sp.cosh(x) * sp.erfc(y)),
        LogCosh(x) + sp.log(2) + LogNdtr(-sp.sqrt(2) * y),
    ),
    "inside": (
        y * sp.log(sp.cosh(x)) ** 2 + sp.exp(sp.log(1 + sp.exp(y))),
        y * LogCosh(x) ** 2 + 1 + sp.exp(y),
    ),
}


@pytest.mark.parametrize("name", RECOGNISED)
def test_stabilise_recognises(name: str) -> None:
    raw, stable = RECOGNISED[name]
    assert sp.expand(stabilise(raw) - stable) == 0


@pytest.mark.parametrize(
    "raw",
    [
        sp.log(1 + x**2),
        sp.log(x),
        sp.log(c * x),
        sp.log(1 + 2 * sp.erf(x)),
        sp.log(2 + sp.exp(x) * y),
        sp.log(sp.Sum(sp.exp(w[l]), (l, 2, L))),
    ],
)
def test_stabilise_leaves_the_rest_alone(raw: sp.Expr) -> None:
    assert stabilise(raw) == raw


@pytest.mark.parametrize("name", [k for k in RECOGNISED if "sum" not in k])
def test_stabilised_value_is_the_raw_value(name: str) -> None:
    raw, _ = RECOGNISED[name]
    point = {x: 0.37, y: -0.81, c: 1.7}
    assert float(function([x, y, c], stabilise(raw))(*point.values())) == pytest.approx(
        float(raw.subs(point)), rel=1e-13
    )


# derivatives --------------------------------------------------------------------------------------

DEFINITIONS: dict[type, Callable[[mp.mpf], mp.mpf]] = {
    LogNdtr: lambda z: mp.log(mp.ncdf(z)),
    InverseMills: lambda z: mp.npdf(z) / mp.ncdf(z),
    MillsGap: lambda z: z + mp.npdf(z) / mp.ncdf(z),
    TruncatedVariance: lambda z: 1 - mp.npdf(z) / mp.ncdf(z) * (z + mp.npdf(z) / mp.ncdf(z)),
    Softplus: lambda z: mp.log(1 + mp.exp(z)),
    Logistic: lambda z: 1 / (1 + mp.exp(-z)),
    LogCosh: lambda z: mp.log(mp.cosh(z)),
}


@pytest.mark.parametrize("order", [0, 1, 2, 3])
@pytest.mark.parametrize("f", DEFINITIONS, ids=lambda f: f.__name__)
def test_derivatives_against_mpmath(f: type, order: int) -> None:
    lowered = function([x], f(x).diff(x, order) if order else f(x))
    with mp.workdps(40):
        for point in (-6.3, -2.0, -0.4, 0.9, 3.7):
            exact = (
                mp.diff(DEFINITIONS[f], point, order) if order else DEFINITIONS[f](mp.mpf(point))
            )
            assert float(lowered(point)) == pytest.approx(float(exact), rel=2e-10, abs=1e-13)


def test_unit_power() -> None:
    value = function([x, y], UnitPower(x, y))
    assert value(0.3, 5.0) == pytest.approx(0.3**5, rel=1e-14)
    assert value(-1e-17, 3.0) == pytest.approx(0, abs=1e-40)
    assert function([x, y], UnitPower(x, y).diff(x))(0.3, 5.0) == pytest.approx(
        5 * 0.3**4, rel=1e-14
    )
    assert function([x, y], UnitPower(x, y).diff(y))(0.3, 5.0) == pytest.approx(
        np.log(0.3) * 0.3**5, rel=1e-14
    )
    assert function([x, y], UnitPower(x, y).diff(x))(0.0, 0.0) == 0


# tails --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("point", "first", "second"),
    [
        (-5, 5.1865039671258421, -0.96730356538288777),
        (-40, 40.024968847207264, -0.99937733162140861),
        (-1e4, 10000.0001, -0.99999999),
        (-1e8, 1e8, -1.0),
    ],
)
def test_log_ndtr_in_the_tail(point: float, first: float, second: float) -> None:
    log_cdf = LogNdtr(x)
    assert function([x], log_cdf.diff(x))(point) == pytest.approx(first, rel=1e-12)
    assert function([x], log_cdf.diff(x, 2))(point) == pytest.approx(second, rel=1e-13)


def test_third_derivative_of_log_ndtr() -> None:
    assert function([x], LogNdtr(x).diff(x, 3))(-20.0) == pytest.approx(2.42726578936e-4, rel=1e-11)


def test_the_whole_chain_from_the_raw_logarithm() -> None:
    """log erfc is stabilised at lowering and before differentiation."""
    raw = sp.log(sp.erfc(-x / sp.sqrt(2)) / 2)
    assert function([x], raw)(-1e4) == pytest.approx(float(mills(-1e4)[0]), rel=1e-15)
    assert function([x], stabilise(raw).diff(x))(-1e8) == pytest.approx(1e8, rel=1e-14)


@pytest.mark.parametrize(
    ("index", "f"), [(0, LogNdtr), (1, InverseMills), (2, MillsGap), (3, TruncatedVariance)]
)
def test_mills_functions_everywhere(index: int, f: type) -> None:
    """1e-12 relative from -1e8 to 30, around every switch of formula included."""
    points = np.concatenate(
        [
            -np.logspace(8, 0, 60),
            np.linspace(-14, -10, 81),
            np.linspace(-5.5, -3.5, 81),
            np.linspace(-3.5, 30, 80),
            [-12.0, -4.0],
        ]
    )
    values = np.asarray(function([x], f(x))(points))
    errors = {float(p): relative(u, mills(p)[index]) for p, u in zip(points, values, strict=True)}
    worst = max(errors, key=lambda p: errors[p])
    assert errors[worst] < 1e-12, (worst, errors[worst])


@given(st.floats(-1e8, 30))
def test_mills_functions_at_random(point: float) -> None:
    _, m, g, v = mills(point)
    for f, exact in ((InverseMills, m), (MillsGap, g), (TruncatedVariance, v)):
        assert relative(float(FUNCTIONS[f](jnp.asarray(point))), exact) < 1e-12


def test_mills_functions_at_infinity() -> None:
    ends = jnp.array([-jnp.inf, jnp.inf])
    np.testing.assert_array_equal(FUNCTIONS[InverseMills](ends), [np.inf, 0])
    np.testing.assert_array_equal(FUNCTIONS[MillsGap](ends), [0, np.inf])
    np.testing.assert_array_equal(FUNCTIONS[TruncatedVariance](ends), [0, 1])


def test_softplus() -> None:
    value, slope = function([x], sp.log(1 + sp.exp(x))), function([x], Softplus(x).diff(x))
    np.testing.assert_array_equal(value(np.array([1000.0, -1000.0])), [1000, 0])
    np.testing.assert_allclose(slope(np.array([0.0, 1000.0, -1000.0])), [0.5, 1, 0], atol=1e-300)
    assert jax.grad(value)(0.0) == 0.5


def test_log_cosh_does_not_overflow() -> None:
    value = function([x], sp.log(sp.cosh(x)))
    np.testing.assert_allclose(
        value(np.array([-1e8, 0.0, 1e4])),
        [1e8 - np.log(2), 0, 1e4 - np.log(2)],
        rtol=1e-15,
        atol=1e-16,
    )
    np.testing.assert_array_equal(
        function([x], LogCosh(x).diff(x))(np.array([-1e8, 0.0, 1e4])), [-1, 0, 1]
    )


FIELDS = np.array([-1047.0, -981.0, 1891.0])


def test_softmax_of_extreme_fields() -> None:
    """d/d field of log sum exp is the softmax (0, 0, 1); its own derivative is finite."""
    fields = sp.symbols("f1:4", real=True)
    body = sum(f * sp.KroneckerDelta(l, i + 1) for i, f in enumerate(fields))
    total = LogSumExp(body, l, 3)
    assert function(fields, total)(*FIELDS) == 1891
    softmax = [float(function(fields, total.diff(f))(*FIELDS)) for f in fields]
    np.testing.assert_array_equal(softmax, [0, 0, 1])
    curvature = [
        float(function(fields, total.diff(f).diff(g))(*FIELDS)) for f in fields for g in fields
    ]
    np.testing.assert_allclose(curvature, np.zeros(9), atol=1e-300)


def test_softmax_over_an_indexed_array() -> None:
    """The same through an array of tokens: d/db log sum exp(w + b w) = sum softmax w."""
    log_sum = LogSumExp((1 + b) * w[l], l, 3)
    lowered = Lowered(
        {"value": log_sum, "slope": log_sum.diff(b)}, [b], [w.label], "softmax", NodeSizes()
    )

    def at(scale: float, fields: np.ndarray) -> dict[str, jax.Array]:
        return lowered.bind(jnp.array([scale]), {w[l]: jnp.asarray(fields)})(None)

    extreme = at(0.0, FIELDS)
    assert extreme["value"] == 1891 and extreme["slope"] == 1891
    moderate = np.array([0.3, -1.2, 0.8])
    weights = np.exp(1.5 * moderate) / np.exp(1.5 * moderate).sum()
    assert at(0.5, moderate)["slope"] == pytest.approx(weights @ moderate, rel=1e-14)
    assert np.isfinite(
        jax.grad(
            lambda u: lowered.bind(jnp.array([u]), {w[l]: jnp.asarray(FIELDS)})(None)["slope"]
        )(0.0)
    )


def test_log_sum_exp_does_not_differentiate_its_length() -> None:
    with pytest.raises(TypeError, match="number of terms"):
        LogSumExp(x * w[l], l, L).diff(L)


# NaN ----------------------------------------------------------------------------------------------


def _one_float(row: Callable[..., jax.Array]) -> bool:
    try:
        with jax.enable_x64(True):
            return np.issubdtype(np.asarray(row(jnp.asarray(0.5))).dtype, np.floating)
    except TypeError:
        return False


ROWS = [f for f, row in FUNCTIONS.items() if _one_float(row)]


def test_the_rows_of_one_float_are_found() -> None:
    assert {sp.exp, sp.erf, sp.sign, sp.Heaviside, sp.gamma, LogNdtr, LogCosh, Softplus} <= set(
        ROWS
    )


@pytest.mark.parametrize("f", ROWS, ids=lambda f: f.__name__)
def test_nan_in_nan_out(f: type) -> None:
    for row in (FUNCTIONS[f], jax.jit(FUNCTIONS[f]), jax.vmap(FUNCTIONS[f])):
        out = row(jnp.array([1.5 if f is sp.acosh else 0.5, jnp.nan]))
        assert np.isnan(out[1]) and not np.isnan(out[0])


@pytest.mark.parametrize(
    "expr",
    [
        sp.sign(x),
        sp.Heaviside(x),
        sp.Max(0, x),
        sp.Min(0, x),
        sp.Abs(x),
        UnitPower(x, 3),
        sp.Heaviside(x) * 0.0 + x,
    ],
)
def test_nan_through_lowering(expr: sp.Expr) -> None:
    assert np.isnan(function([x], expr)(np.nan))


# intervals and sums in the log domain -------------------------------------------------------------


@given(st.floats(-1e4, 1e4), st.floats(-3.0, 4.0))
@example(31.0, -3.0)
@example(-1759.0, -0.4)
def test_density_at_an_end_of_an_interval(a: float, log_length: float) -> None:
    b = a + 10.0**log_length
    low, high = (-b, -a) if a + b > 0 else (a, b)
    with mp.workdps(60):
        inside = (mp.erfc(-mp.mpf(high) / mp.sqrt(2)) - mp.erfc(-mp.mpf(low) / mp.sqrt(2))) / 2
        density = mp.npdf(mp.mpf(a)) / inside
        spread = 1 + 1 / min(1.0, (b - a) * (1 + abs(a)))
        if density > 1e-300:  # below there are no normal numbers
            value = function([x, y], IntervalDensity(x, y))(a, b)
            # The exponent (b^2 - a^2)/2 is known to rounding.
            assert relative(value, density) < 1e-14 * spread + 1e-15 * abs(float(mp.log(density)))
        log_inside = function([x, y], LogInterval(x, y))(a, b)
        exact = mp.log(inside)
        assert abs(float(log_inside) - exact) < 1e-14 * (abs(exact) + spread)


def test_derivatives_of_intervals_and_sums() -> None:
    at = {x: 0.3, y: 1.1}
    with mp.workdps(40):
        plain = sp.log((sp.erf(y / sp.sqrt(2)) - sp.erf(x / sp.sqrt(2))) / 2)
        both = sp.log(sp.exp(x) + sp.exp(y))
        for stable, written in ((LogInterval(x, y), plain), (LogAdd(x, y), both)):
            for order in ((x,), (y,), (x, y), (x, x), (y, y)):
                value = function([x, y], stable.diff(*order))(0.3, 1.1)
                assert value == pytest.approx(float(written.diff(*order).subs(at)), rel=1e-12)


@given(st.floats(-1e15, 1e15), st.floats(-1e15, 1e15))
def test_a_sum_in_the_log_domain_keeps_the_larger_term(a: float, b: float) -> None:
    value = function([x, y], LogAdd(x, y))(a, b)
    assert value == pytest.approx(float(np.logaddexp(a, b)), rel=1e-15, abs=1e-15)
    slope = function([x, y], LogAdd(x, y).diff(x))(a, b)
    assert slope == pytest.approx(float(mp.mpf(1) / (1 + mp.exp(mp.mpf(b) - mp.mpf(a)))), abs=1e-15)
