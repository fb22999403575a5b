"""Unevaluated averages: derivative rules, integration by parts, deltas, scoping and names."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from equations.calculus.averages import (
    Average,
    LineIntegral,
    MellinIntegral,
    SampleAverage,
    TokenAverage,
    by_parts,
)
from equations.calculus.special_functions import LogNdtr, LogSumExp, Softplus
from replica.errors import LoweringError
from replica.lowering.lower import function

x, y, t, a = sp.symbols("x y t a", real=True)
m, v = sp.Symbol("m", real=True), sp.Symbol("v", nonnegative=True)
BODIES = {
    "polynomial": x**4 + t * x**3,
    "tanh": sp.tanh(x + t),
    "softplus": Softplus(t * x),
    "log Phi": LogNdtr(x * t - 1),
    "product": sp.sin(x) * sp.exp(-t * x**2 / 5),
}


def at(expr: sp.Expr, **values: float) -> float:
    """A number for an expression in t, m, v, a."""
    symbols = sorted(expr.free_symbols, key=str)
    return float(function(symbols, expr)(*(values[str(s)] for s in symbols)))


# derivatives --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BODIES)
def test_price_rule_is_the_derivative_of_the_value(name: str) -> None:
    """A law that moves with t in mean and variance: derived = central difference =
    reparametrised.
    """
    law = Average(BODIES[name], x, sp.sin(t) / 2, 1 + t**2)
    derived, other = law.diff(t), law.standardised().diff(t)
    value = function([t], law)
    for point in (-0.6, 0.3, 1.1):
        h = 1e-5
        difference = (float(value(point + h)) - float(value(point - h))) / (2 * h)
        assert at(derived, t=point) == pytest.approx(difference, rel=1e-7, abs=1e-8)
        assert at(derived, t=point) == pytest.approx(at(other, t=point), rel=1e-8, abs=1e-9)


def test_second_derivative_mixes_mean_and_variance() -> None:
    """E exp(a x) = exp(a m + a^2 v/2): every mixed derivative is known."""
    average, closed = Average(sp.exp(a * x), x, m, v), sp.exp(a * m + a**2 * v / 2)
    where = {"a": 0.7, "m": -0.3, "v": 1.3}
    for symbols in ((m, v), (v, v), (a, v), (a, a), (m, m)):
        exact = float(closed.diff(*symbols).subs({a: 0.7, m: -0.3, v: 1.3}))
        assert at(average.diff(*symbols), **where) == pytest.approx(exact, rel=1e-12)


def test_derivative_at_zero_variance_is_finite() -> None:
    """d/dv E f = f''/2 at v = 0, where the reparametrised derivative is 0/0."""
    average = Average(sp.tanh(x), x, m, v)
    exact = float(sp.tanh(m).diff(m, 2).subs(m, 0.4)) / 2
    assert at(average.diff(v), m=0.4, v=0.0) == pytest.approx(exact, rel=1e-13)
    assert not np.isfinite(at(average.standardised().diff(v), m=0.4, v=0.0))


def test_zero_variance_is_the_value_at_the_mean() -> None:
    assert Average(sp.tanh(x), x, m, 0) == sp.tanh(m)
    assert at(Average(sp.tanh(x), x, m, v), m=0.4, v=0.0) == pytest.approx(np.tanh(0.4), rel=1e-14)


@pytest.mark.parametrize(
    ("body", "mean", "exact"),
    [
        (sp.Max(0, x), 1.0, 1.0),
        (sp.Heaviside(x), -2.0, 0.0),
        (sp.Heaviside(x), 0.0, 0.5),
        (sp.Abs(x - 1), 0.0, 1.0),
    ],
)
def test_zero_variance_with_a_kink(body: sp.Expr, mean: float, exact: float) -> None:
    assert at(Average(body, x, m, v), m=mean, v=0.0) == pytest.approx(exact, abs=1e-12)


def test_zero_variance_with_a_focus() -> None:
    assert at(Average(sp.exp(x), x, m, v, 0, sp.Rational(1, 10)), m=0.4, v=0.0) == pytest.approx(
        np.exp(0.4), rel=1e-12
    )


def test_focus_of_infinite_width_is_no_feature() -> None:
    """A feature of width 1/a at a = 0 must not give nan."""
    width = sp.Symbol("w", positive=True)
    value = function([width], Average(sp.exp(x / 2), x, 0, 1, 0, width))
    assert value(jnp.inf) == pytest.approx(np.exp(1 / 8), rel=1e-12)


def test_derivative_with_respect_to_a_stranger_or_the_bound_variable_is_zero() -> None:
    average = Average(x**2 * sp.exp(a * x), x, m, v)
    assert average.diff(y) == 0
    assert average.diff(x) == 0
    assert Average(x**4, x, 0, 1).diff(a) == 0


def test_derivative_of_a_constant_body_collapses() -> None:
    assert Average(a * x, x, 0, 1).diff(a, 2) == 0
    assert Average(a, x, m, v) == a


# integration by parts -----------------------------------------------------------------------------


@given(
    coefficients=st.lists(st.integers(-3, 3), min_size=1, max_size=4),
    mean=st.sampled_from([sp.S.Zero, sp.Rational(1, 2), sp.Rational(-3, 4)]),
    variance=st.sampled_from([sp.Rational(1, 3), sp.S.One, sp.S(2)]),
    factor=st.sampled_from([sp.S.One, sp.exp(x / 2), sp.erf(x), sp.exp(-(x**2))]),
)
def test_by_parts_keeps_the_value(
    coefficients: list[int], mean: sp.Expr, variance: sp.Expr, factor: sp.Expr
) -> None:
    """E[(x - m) f] = v E[f'] for polynomials times exp, erf and a Gaussian."""
    polynomial = sum(c * x**k for k, c in enumerate(coefficients))
    average = Average((x - mean) * polynomial * factor, x, mean, variance)
    if average == 0:
        return
    moved = by_parts(average)
    value = at(average)
    assert at(sp.sympify(moved)) == pytest.approx(value, rel=1e-10, abs=1e-10)


def test_by_parts_takes_the_factor_away() -> None:
    assert by_parts(Average(x * sp.tanh(x), x, 0, v)) == v * Average(sp.tanh(x).diff(x), x, 0, v)


@pytest.mark.parametrize("body", [sp.exp(x), x + 1, sp.Abs(x), sp.log(2 + x**2)])
def test_by_parts_leaves_other_averages_alone(body: sp.Expr) -> None:
    average = Average(body, x, 0, 1)
    assert by_parts(average) == average


# deltas -------------------------------------------------------------------------------------------


def test_derivative_of_a_step() -> None:
    """d/da E[H(Z - a)] = -phi(a); autodiff through nodes gives 0."""
    step = Average(sp.Heaviside(x - a), x, 0, 1)
    assert at(step.diff(a), a=0.3) == pytest.approx(-0.3813878154605241, abs=1e-15)


@given(root=st.floats(-2, 2), mean=st.floats(-1, 1), variance=st.floats(0.2, 3))
def test_step_derivatives_with_respect_to_the_law(
    root: float, mean: float, variance: float
) -> None:
    """E[H(x - a)] = Phi((m - a)/sqrt v), in m, in v (a derivative of the delta) and in both."""
    average = Average(sp.Heaviside(x - a), x, m, v)
    closed = (1 + sp.erf((m - a) / sp.sqrt(2 * v))) / 2
    for symbols in ((m,), (v,), (m, v), (m, m)):
        exact = float(closed.diff(*symbols).subs({a: root, m: mean, v: variance}))
        assert at(average.diff(*symbols), a=root, m=mean, v=variance) == pytest.approx(
            exact, rel=1e-10, abs=1e-12
        )


def test_second_derivative_of_max() -> None:
    """d^2/da^2 E[max(0, Z - a)] = phi(a)."""
    relu = Average(sp.Max(0, x - a), x, 0, 1)
    assert at(relu.diff(a, 2), a=0.3) == pytest.approx(0.3813878154605241, abs=1e-14)
    assert at(Average(sp.Max(0, x), x, m, v).diff(v), m=0.0, v=1.0) == pytest.approx(
        0.5 / np.sqrt(2 * np.pi), rel=1e-14
    )


def test_a_scaled_delta_and_a_product() -> None:
    """delta(a x + b) carries 1/|a|; the rest of the body is taken at the root."""
    body = sp.exp(x) * sp.DiracDelta(-2 * x + 1)
    exact = np.exp(0.5) * np.exp(-0.125) / np.sqrt(2 * np.pi) / 2
    assert float(Average(body, x, 0, 1)) == pytest.approx(exact, rel=1e-14)
    assert float(Average(sp.sign(x).diff(x) * x**2, x, 1, 1)) == 0.0


def test_a_delta_that_cannot_be_integrated_says_so() -> None:
    with pytest.raises(ValueError, match="by parts"):
        Average(sp.DiracDelta(x**2 - 1), x, 0, 1)


# scoping ------------------------------------------------------------------------------------------


def test_bound_variable_is_not_replaced() -> None:
    for node in (
        Average(sp.exp(x * a), x, m, v),
        LineIntegral(sp.exp(-(x**2) * a), x, -9, 9),
        MellinIntegral(sp.exp(-x * a), x, sp.Rational(-1, 4), 112),
        LogSumExp(a * x, x, 3),
        SampleAverage(a * x, x, 3, [], []),
        TokenAverage(LogSumExp(a * x, x, 3), x, 3, [], [], []),
    ):
        assert node.subs(x, 7) == node
        assert x not in node.free_symbols
        assert a in node.free_symbols and a not in node.subs(a, 2).free_symbols


def test_parameters_outside_the_binder_are_replaced() -> None:
    """The mean may contain a symbol of the bound variable's name: that one is visible."""
    assert Average(sp.exp(x), x, x, 1).subs(x, 2) == Average(sp.exp(x), x, 2, 1)


@pytest.mark.parametrize("make", [lambda b: Average(b, x, 0, 1), lambda b: LogSumExp(b, x, 3)])
def test_bound_variable_captures_nothing(make: object) -> None:
    """E_x[f(x, a)] at a = x is a function of x, not E[f(x, x)]."""
    node = make(sp.sin(x * a))  # type: ignore[operator]
    moved = node.subs(a, x)
    assert moved.free_symbols == {x}
    assert function([x], moved)(0.7) == pytest.approx(float(function([a], node)(0.7)), abs=1e-14)


def test_an_inner_average_hides_the_outer_variable() -> None:
    inner = Average(x**2, x, m, v)
    assert Average(inner, x, 0, 1) == inner


def test_a_symbol_may_be_bound_here_and_free_there() -> None:
    value = function([x, a], Average(sp.exp(a * x), x, 0, 1) + x + Average(x**2, x, 0, a))
    assert value(5.0, 0.5) == pytest.approx(np.exp(0.125) + 5.5, rel=1e-13)


def test_one_variable_bound_twice_is_refused() -> None:
    """The inner law sees the outer x, so the two cannot share an axis."""
    with pytest.raises(LoweringError, match="bound twice"):
        function([a], Average(Average(a * x**2, x, 0, 1) * sp.exp(x), x, 0, 1))(1.0)


def test_a_kink_of_an_inner_variable_is_smooth_outside() -> None:
    """E_x E_y H(x + y - a) = Phi(-a/sqrt 2)."""
    value = function([a], Average(Average(sp.Heaviside(x + y - a), y, 0, 1), x, 0, 1))
    assert value(0.3) == pytest.approx((1 + float(sp.erf(-0.15))) / 2, rel=1e-12)


# names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["lambda", "beta", "E", "S", "I", "N", "exp", "\\hat q", "gamma", "pi", "zeta"]
)
def test_any_name_is_a_plain_symbol(name: str) -> None:
    """Value, derivative and exp() itself round-trip through lowering under names that SymPy also
    uses.
    """
    s = sp.Symbol(name, real=True)
    expr = Average(sp.exp(s * x), x, s, 1) + sp.exp(s)
    closed = lambda u: np.exp(1.5 * u**2) + np.exp(u)  # noqa: E731
    slope = lambda u: 3 * u * np.exp(1.5 * u**2) + np.exp(u)  # noqa: E731
    assert function([s], expr)(0.3) == pytest.approx(closed(0.3), rel=1e-13)
    assert function([s], expr.diff(s))(0.3) == pytest.approx(slope(0.3), rel=1e-13)


def test_printing_shows_the_law() -> None:
    average = Average(sp.tanh(x), x, m, v)
    assert str(average) == "E[tanh(x); x ~ N(m, v)]"
    assert r"\mathbb E_{x\sim\mathcal N(m,v)}" in sp.latex(average)
    assert sp.latex(average**2).endswith("^{2}")


def test_autodiff_agrees_with_the_rule() -> None:
    """jax.grad of the lowered value, an independent route to the same derivative."""
    average = Average(sp.tanh(x * a), x, m, v)
    value = function([a, m, v], average)
    grads = jax.grad(lambda *z: value(*z), argnums=(0, 1, 2))(0.8, 0.3, 1.2)
    for symbol, grad in zip((a, m, v), grads, strict=True):
        assert at(average.diff(symbol), a=0.8, m=0.3, v=1.2) == pytest.approx(
            float(grad), rel=1e-11
        )
