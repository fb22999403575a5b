"""Averages over exchangeable tokens: the Laplace and Mellin routes against brute force, and
Gaussian algebra.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import product

import jax.numpy as jnp
import numpy as np
import pytest
import sympy as sp
from hypothesis import assume, given
from hypothesis import strategies as st

from equations.calculus.averages import (
    LOG_PRIOR,
    Average,
    MellinIntegral,
    SampleAverage,
    TokenAverage,
)
from equations.calculus.gaussian import close, condition, exponential_average, tilt
from equations.calculus.special_functions import LogSumExp
from equations.calculus.tokens import LogTime, NotExchangeable, laplace, mellin, sampled
from equations.models import slr_bayes
from equations.saddle_point import derive
from replica.lowering.lower import SCRAMBLE, Lowered, NodeSizes, function
from solvers import quadrature

l = sp.Symbol("l", integer=True, positive=True)  # noqa: E741
y, x, g = sp.symbols("y x g", real=True)
t = sp.Symbol("t", positive=True)
w = sp.IndexedBase("w")
L = sp.Symbol("L", integer=True, positive=True)
WINDOW = LogTime(8 * t + 4, 45)


def tokens(body: sp.Expr, common: bool = True) -> TokenAverage:
    """E[body], w_1 ~ N(1/2 + y/4, t), other w_l ~ N(0, t), y ~ N(0, 1/2); without y, w_1 ~ N(1/2,
    t).
    """
    shared = [(y, 0, sp.Rational(1, 2))] if common else []
    mean = sp.Rational(1, 2) + (y / 4 if common else 0)
    return TokenAverage(body, l, L, shared, [(w, mean, t)], [(w, 0, t)])


def brute(
    f: Callable[[np.ndarray], np.ndarray],
    length: int,
    variance: float,
    common: bool = True,
    n: int = 48,
) -> float:
    """The same by a tensor Gauss-Hermite rule over (y, w_1..w_L); ``f`` takes w of
    shape (..., L).
    """
    nodes, weights = quadrature.gauss_hermite(n)
    axes = [nodes] * (length + 1)
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    weight = np.ones(grid.shape[:-1])
    for axis in range(length + 1):
        weight = weight * weights.reshape([-1 if i == axis else 1 for i in range(length + 1)])
    fields = np.sqrt(variance) * grid[..., 1:]
    fields[..., 0] += 0.5 + (np.sqrt(0.5) * grid[..., 0] / 4 if common else 0)
    return float(np.sum(weight * f(fields)))


S = sp.Sum(sp.exp(w[l]), (l, 1, L))
BODIES: dict[str, tuple[sp.Expr, Callable[[np.ndarray], np.ndarray]]] = {
    "log sum": (LogSumExp(w[l], l, L), lambda u: np.log(np.exp(u).sum(-1))),
    "planted weight": (sp.exp(w[1]) / S, lambda u: np.exp(u[..., 0]) / np.exp(u).sum(-1)),
    "squared weights": (
        sp.Sum(sp.exp(2 * w[l]), (l, 1, L)) / S**2,
        lambda u: (np.exp(2 * u) / np.exp(u).sum(-1, keepdims=True) ** 2).sum(-1),
    ),
    "weighted field": (
        sp.exp(w[1]) * w[1] / S,
        lambda u: np.exp(u[..., 0]) * u[..., 0] / np.exp(u).sum(-1),
    ),
    "sum of fields": (
        sp.Sum(w[l] * sp.exp(w[l]), (l, 1, L)) / S,
        lambda u: (u * np.exp(u)).sum(-1) / np.exp(u).sum(-1),
    ),
}


@pytest.mark.parametrize("length", [2, 3])
@pytest.mark.parametrize("name", BODIES)
def test_laplace_against_tensor_quadrature(name: str, length: int) -> None:
    body, f = BODIES[name]
    exact = brute(f, length, 0.8, n=48 if length == 2 else 24)
    expr = laplace(tokens(body), WINDOW)
    value = function([L, t], expr, NodeSizes(gaussian=91))(float(length), 0.8)
    assert value == pytest.approx(exact, abs=2e-8)
    assert function([L, t], mellin(expr, WINDOW), NodeSizes(gaussian=91))(
        float(length), 0.8
    ) == pytest.approx(exact, abs=2e-8)


@pytest.mark.parametrize("name", ["log sum", "squared weights"])
def test_one_token(name: str) -> None:
    """L = 1: log S = w_1 and the weight is 1, with F_0^{-1} never in the way."""
    exact = {"log sum": 0.5, "squared weights": 1.0}[name]
    expr = mellin(laplace(tokens(BODIES[name][0]), WINDOW), WINDOW)
    assert function([L, t], expr)(1.0, 0.8) == pytest.approx(exact, abs=1e-9)


CLASSES = ((1, sp.Rational(1, 2)), (2, sp.Rational(1, 4)))


@pytest.mark.parametrize("name", ["log sum", "planted weight", "squared weights"])
def test_classes_of_tokens_against_tensor_quadrature(name: str) -> None:
    """Three tokens of prior 1/2, 1/4, 1/4: the planted one is of either class with
    probability 1/2.
    """
    body, f = BODIES[name]
    with_prior = body.xreplace({w[i]: w[i] + LOG_PRIOR[i] for i in (1, l)})
    average = TokenAverage(with_prior, l, L, [], [(w, sp.Rational(1, 2), t)], [(w, 0, t)], CLASSES)
    orders = np.log([[1 / 2, 1 / 4, 1 / 4], [1 / 4, 1 / 2, 1 / 4]])  # the planted token first
    exact = np.mean([brute(lambda u, a=a: f(u + a), 3, 0.8, common=False, n=24) for a in orders])
    expr = laplace(average, WINDOW)
    for form in (expr, mellin(expr, WINDOW)):
        assert function([L, t], form, NodeSizes(gaussian=91))(3.0, 0.8) == pytest.approx(
            exact, abs=2e-8
        )
    by_samples = function(
        [L, t, SCRAMBLE], sampled(average), NodeSizes(tokens=3, log2_samples=13, scrambles=1)
    )(3.0, 0.8, 0)
    assert by_samples == pytest.approx(exact, abs=2e-4)


def test_many_tokens_against_monte_carlo() -> None:
    """L = 40, fixed seed: within five standard errors."""
    rng = np.random.default_rng(1)
    fields = np.sqrt(0.8) * rng.normal(size=(100_000, 40))
    fields[:, 0] += 0.5 + np.sqrt(0.5) * rng.normal(size=100_000) / 4
    sample = np.log(np.exp(fields).sum(-1))
    value = float(
        function([L, t], mellin(laplace(tokens(BODIES["log sum"][0]), WINDOW), WINDOW))(40.0, 0.8)
    )
    assert abs(value - sample.mean()) < 5 * sample.std() / np.sqrt(len(sample))


def test_sampled_route_agrees() -> None:
    """Explicit tokens, quasi-Monte Carlo: an independent route to the same number."""
    expr = sampled(tokens(BODIES["planted weight"][0]))
    assert isinstance(expr, SampleAverage)
    lowered = Lowered(
        {"value": expr},
        [t],
        [L, SCRAMBLE],
        "test",
        NodeSizes(tokens=3, log2_samples=13, scrambles=2),
    )
    values = [
        float(lowered.bind(jnp.array([0.8]), {L: 3.0, SCRAMBLE: k})(None)["value"]) for k in (0, 1)
    ]
    exact = brute(BODIES["planted weight"][1], 3, 0.8, n=24)
    np.testing.assert_allclose(values, exact, atol=2e-4)
    assert values[0] != values[1]


def test_derivatives_of_the_routes_agree() -> None:
    """d/dt of the Laplace and of the Mellin form, and the difference quotient of brute force."""
    expr = laplace(tokens(BODIES["log sum"][0], common=False), WINDOW)
    h = 1e-4
    exact = (
        brute(BODIES["log sum"][1], 2, 0.8 + h, common=False)
        - brute(BODIES["log sum"][1], 2, 0.8 - h, common=False)
    ) / (2 * h)
    for form in (expr, mellin(expr, WINDOW)):
        assert function([L, t], form.diff(t))(2.0, 0.8) == pytest.approx(exact, abs=1e-7)


REFUSED = {
    "two tokens": w[1] * w[2] / S,
    "another token": sp.exp(w[2]) / S,
    "mixed sum": sp.Sum(sp.exp(w[l]) * w[1], (l, 1, L)) / S,
    "sum times planted": w[1] * sp.Sum(sp.exp(w[l]), (l, 1, L)) ** -1 * sp.Sum(w[l], (l, 1, L)),
    "squared sum": sp.Sum(w[l], (l, 1, L)) ** 2 / S**2,
    "free index": sp.exp(w[l]) / S,
    "no denominator": sp.tanh(w[1]),
    "square root of the sum": sp.exp(w[1]) / sp.sqrt(S),
    "two denominators": 1 / (S * sp.Sum(sp.exp(2 * w[l]), (l, 1, L))),
    "sum from two": sp.exp(w[1]) / sp.Sum(sp.exp(w[l]), (l, 2, L)),
    "shorter sum": sp.exp(w[1]) / sp.Sum(sp.exp(w[l]), (l, 1, L - 1)),
    "shorter log sum": LogSumExp(w[l], l, L - 1),
    "log sum of two tokens": LogSumExp(w[l] * w[1], l, L),
    "product with a log sum": w[1] * LogSumExp(w[l], l, L) / S,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_rule_is_refused(name: str) -> None:
    with pytest.raises(NotExchangeable):
        laplace(tokens(REFUSED[name]), WINDOW)


def test_a_token_average_is_not_differentiated_as_it_stands() -> None:
    node = tokens(BODIES["log sum"][0])
    assert node.free_symbols == {L, t}
    assert node.diff(g) == 0
    with pytest.raises(TypeError, match="laplace"):
        node.diff(t)


def test_log_time_window() -> None:
    """The period keeps the images of the Mellin sum apart; the default of 112 is a floor."""
    window = LogTime(3, 40)
    assert window.lower == -35 and window.period == 112
    assert LogTime(sp.Integer(60), 40).period == sp.Rational(4, 3) * 132
    assert LogTime(t, 40).period.subs(t, 60) == sp.Rational(4, 3) * 132
    assert LogTime(t, 40).lower.subs(t, 3) == -35


@pytest.mark.parametrize("margin", [0, 20])
def test_value_does_not_depend_on_the_window(margin: int) -> None:
    window = LogTime(8 * t + 4 + margin, 45 + margin)
    expr = mellin(laplace(tokens(BODIES["log sum"][0]), window), window)
    reference = function([L, t], mellin(laplace(tokens(BODIES["log sum"][0]), WINDOW), WINDOW))(
        2.0, 0.8
    )
    assert function([L, t], expr, NodeSizes(line=301, mellin=541))(2.0, 0.8) == pytest.approx(
        float(reference), abs=1e-9
    )


# the model ----------------------------------------------------------------------------------------

MODEL = slr_bayes.build()
SYMBOLS = {q.name: q.symbol for q in MODEL.quantities}
AT = {"q_k": 0.35, "q_v": 0.4, "alpha": 1.0, "L": 3.0, "nu": 1.0, "Delta": 0.3}


def _model_window() -> LogTime:
    nu = SYMBOLS["nu"]
    return LogTime(nu + 8 * sp.sqrt(nu), 40)


@pytest.mark.slow
def test_mellin_route_of_the_model_against_tensor_quadrature() -> None:
    """Psi_out and its derivatives in q_k and q_v, with and without the closed-form
    token averages.
    """
    names, plain = list(AT), laplace(MODEL.channel, _model_window())
    unknowns = [SYMBOLS["q_k"], SYMBOLS["q_v"]]
    expressions = {"value": plain, **{str(s): plain.diff(s) for s in unknowns}}
    closed = mellin(plain, _model_window())
    assert closed.has(MellinIntegral)
    fast = {"value": closed, **{str(s): closed.diff(s) for s in unknowns}}
    # the plain route is an array over y, the key, the value and log t: 35^3 * 161 numbers
    results = []
    for route, rule in ((expressions, NodeSizes(gaussian=35, line=161)), (fast, NodeSizes())):
        lowered = Lowered(
            route,
            unknowns,
            [SYMBOLS[n] for n in names if n not in ("q_k", "q_v")],
            "slr-bayes",
            rule,
        )
        values = lowered.bind(
            jnp.array([AT["q_k"], AT["q_v"]]), {SYMBOLS[n]: jnp.asarray(AT[n]) for n in names[2:]}
        )(None)
        results.append({k: float(u) for k, u in values.items()})
    assert results[1] == pytest.approx(results[0], abs=1e-7)


def test_derivation_does_not_grow_with_the_number_of_tokens() -> None:
    """L stays a symbol: the derived equations are the same strings whatever L, and come in under 5
    s.
    """
    started = time.perf_counter()
    equations = derive(slr_bayes.build())
    elapsed = time.perf_counter() - started
    assert elapsed < 5
    sizes = []
    for length in (2, 50, 2000):
        fixed = [e.subs(SYMBOLS["L"], length) for e in equations.values()]
        sizes.append(sum(sp.count_ops(e) for e in fixed))
    assert max(sizes) <= sizes[0] + 10 < 2000
    assert not any(e.has(sp.Sum, TokenAverage) for e in equations.values())


def test_weak_data_limit_of_the_derived_equations() -> None:
    """q = 0: q_k_hat = alpha nu/L and q_v_hat = alpha/(L (1 + Delta)), both derived, none typed."""
    equations = derive(MODEL)
    names = [n for n in AT if n not in ("q_k", "q_v")]
    lowered = Lowered(
        {str(k): e for k, e in list(equations.items())[:2]},
        [SYMBOLS["q_k"], SYMBOLS["q_v"]],
        [SYMBOLS[n] for n in names],
        "slr-bayes",
        NodeSizes(),
    )
    values = lowered.bind(jnp.zeros(2), {SYMBOLS[n]: jnp.asarray(AT[n]) for n in names})(None)
    assert values["q_k_hat"] == pytest.approx(1 / 3, abs=1e-8)
    assert values["q_v_hat"] == pytest.approx(1 / (3 * 1.3), abs=1e-8)


# Gaussian algebra ---------------------------------------------------------------------------------

rationals = st.fractions(-2, 2, max_denominator=8).map(
    lambda f: sp.Rational(f.numerator, f.denominator)
)
variances = st.fractions(0.125, 2, max_denominator=8).map(
    lambda f: sp.Rational(f.numerator, f.denominator)
)
A, B, C, M, V = sp.symbols("A B C M V_", real=True)
QUADRATIC = exponential_average(A * x**2 + B * x + C, x, M, V)
PLAIN = Average(sp.exp(A * x**2 + B * x + C), x, M, V)


# The quadrature stops at 8.5 standard deviations: what e^{a x^2 + b x} moves there limits the
# comparison, so a and b are kept small.
@given(a=st.floats(-3, 0.02), b=st.floats(-1, 1), mean=st.floats(-2, 2), variance=st.floats(0, 2))
def test_average_of_an_exponential_of_a_quadratic(
    a: float, b: float, mean: float, variance: float
) -> None:
    """Closed form = quadrature, for every a x^2 + b x + c that converges comfortably."""
    assume(abs(a) > 1e-3 and 2 * a * variance < 0.5)
    at = (a, b, 0.3, mean, variance)
    value = float(function([A, B, C, M, V], PLAIN, NodeSizes(gaussian=301))(*at))
    assert function([A, B, C, M, V], QUADRATIC)(*at) == pytest.approx(value, rel=1e-9)


@given(b=rationals, c=rationals, mean=rationals, variance=variances)
def test_average_of_an_exponential_of_a_line(
    b: sp.Rational, c: sp.Rational, mean: sp.Rational, variance: sp.Rational
) -> None:
    closed = exponential_average(b * x + c, x, mean, variance)
    assert float(closed) == pytest.approx(
        float(sp.exp(b * mean + b**2 * variance / 2 + c)), rel=1e-13
    )


def test_exponents_without_a_closed_form() -> None:
    assert exponential_average(x**3, x, sp.S.Zero, sp.S.One) is None
    assert exponential_average(sp.sin(x), x, sp.S.Zero, sp.S.One) is None
    with pytest.raises(ValueError, match="diverges"):
        exponential_average(x**2, x, sp.S.Zero, sp.S.One)


def test_close_works_inside_out_and_leaves_the_rest() -> None:
    nested = Average(Average(sp.exp(t * x * y), x, 0, 1), y, 0, sp.Rational(1, 4))
    assert float(close(nested).subs(t, 1)) == pytest.approx(1 / np.sqrt(0.75), rel=1e-14)
    other = Average(sp.tanh(x), x, 0, t)
    assert close(other + Average(t * sp.exp(x), x, 0, 1)) == other + t * sp.exp(sp.Rational(1, 2))


@given(mean=rationals, variance=variances, slope=rationals)
def test_tilt(mean: sp.Rational, variance: sp.Rational, slope: sp.Rational) -> None:
    """E[e^{s x} f] = e^c E'[f] for f = cos(x) + x^2."""
    f = sp.cos(x) + x**2
    c, law = tilt((mean, variance), slope)
    m0, v0 = (np.float64(u) for u in law)
    nodes, weights = quadrature.gauss_hermite(60)
    u = float(mean) + np.sqrt(float(variance)) * nodes
    direct = weights @ (np.exp(float(slope) * u) * (np.cos(u) + u**2))
    tilted = np.exp(float(c)) * (np.cos(m0) * np.exp(-v0 / 2) + m0**2 + v0)
    assert direct == pytest.approx(tilted, rel=1e-10, abs=1e-10)
    assert f.has(x)


@given(mean=rationals, variance=variances, noise=variances, observed=rationals)
def test_condition(
    mean: sp.Rational, variance: sp.Rational, noise: sp.Rational, observed: sp.Rational
) -> None:
    """Law of y = x + sqrt(noise) g, and moments of x given y, by direct integrals over x."""
    given_law, (label_mean, label_variance) = condition((mean, variance), observed, noise)
    nodes, weights = quadrature.gauss_legendre(400)
    deviation = float(sp.sqrt(variance))
    u = float(mean) + 12 * deviation * (2 * nodes - 1)
    gauss = lambda r, s: np.exp(-(r**2) / (2 * s)) / np.sqrt(2 * np.pi * s)  # noqa: E731
    joint = (
        24
        * deviation
        * weights
        * gauss(u - float(mean), float(variance))
        * gauss(float(observed) - u, float(noise))
    )
    assert joint.sum() == pytest.approx(
        gauss(float(observed - label_mean), float(label_variance)), rel=1e-9
    )
    first = joint @ u / joint.sum()
    assert first == pytest.approx(float(given_law[0]), rel=1e-9, abs=1e-9)
    assert joint @ (u - first) ** 2 / joint.sum() == pytest.approx(float(given_law[1]), rel=1e-8)


def test_brute_force_knows_its_own_moments() -> None:
    """The reference itself: E w_1 = 1/2, Var of the others = t."""
    assert brute(lambda u: u[..., 0], 2, 0.8, n=12) == pytest.approx(0.5, rel=1e-12)
    assert brute(lambda u: u[..., 1] ** 2, 2, 0.8, n=12) == pytest.approx(0.8, rel=1e-12)
    assert all(
        brute(lambda u, i=i, j=j: u[..., i] * 0 + 1.0, 2, 0.8, n=4) == pytest.approx(1)
        for i, j in product(range(2), repeat=2)
    )
