"""Priors, channels and losses as a user writes them: what is read off them, and what is refused."""

from __future__ import annotations

from itertools import pairwise

import jax
import numpy as np
import pytest
import sympy as sp
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import xlogy
from scipy.stats import norm

from equations import ModelError, Softplus, X, Y, Z, bayes_glm, convex_erm, derive, normal
from equations.calculus.discontinuities import all_breakpoints, one_sided
from equations.calculus.scalar_envelope import ProxSlope, ProxValue, ScalarEnvelope
from equations.glm.channels import output_term
from equations.glm.densities import components, mirrored, moments, probabilities, steps
from equations.glm.priors import mixture_error_term
from replica.lowering.lower import function

K = sp.Symbol("K", positive=True)
HALF, TENTH = sp.Rational(1, 2), sp.Rational(1, 10)
HERMITE = [
    a / (1 if i == 0 else np.sqrt(2 * np.pi))
    for i, a in enumerate(np.polynomial.hermite_e.hermegauss(60))
]
RHO = sp.Symbol("rho", positive=True)


def test_a_prior_is_read_into_its_components() -> None:
    prior = (1 - RHO) * sp.DiracDelta(X) + RHO * sp.exp(-((sp.Symbol("x") - 2) ** 2) / 8) / sp.sqrt(
        8 * sp.pi
    )  # an x of the user's own
    assert set(components(prior)) == {(1 - RHO, 0, 0), (RHO, 2, 4)}
    assert moments(components(prior)) == (2 * RHO, 8 * RHO)
    assert components(HALF * sp.DiracDelta(X - 1) + HALF * sp.DiracDelta(2 * X + 2) * 2) == (
        (HALF, 1, 0),
        (HALF, -1, 0),
    )


@pytest.mark.parametrize("q_hat", [0.0, 0.3, 4.0, 60.0])
def test_the_prior_term_is_the_mean_log_evidence(q_hat: float) -> None:
    """E log int dP(x) exp(-q_hat x^2/2 + h x) - q_hat E[x^2]/2 for three components of different
    kinds, by adaptive quadrature.
    """
    parts = [(0.5, 0.0, 0.0), (0.3, 1.0, 0.5), (0.2, -2.0, 0.0)]
    prior = sum(
        w * (normal(X, m, v) if v else sp.DiracDelta(X - m))
        for w, m, v in [tuple(sp.nsimplify(n) for n in p) for p in parts]
    )

    def evidence(h: float) -> float:
        logs = [
            np.log(w)
            - np.log1p(q_hat * v) / 2
            + (v * h * h + 2 * m * h - q_hat * m * m) / (2 * (1 + q_hat * v))
            for w, m, v in parts
        ]
        return float(np.logaddexp.reduce(logs))

    exact = 0.0
    for w, m, v in parts:
        deviation = np.sqrt(q_hat + q_hat**2 * v)
        body = lambda g, m=m, deviation=deviation: evidence(q_hat * m + deviation * g) * norm.pdf(g)  # noqa: E731
        exact += w * (quad(body, -12, 12, epsabs=1e-13, limit=400)[0] - q_hat * (m * m + v) / 2)
    h = sp.Symbol("h_", nonnegative=True)
    assert float(function([h], mixture_error_term(components(prior), h))(q_hat)) == pytest.approx(
        exact, abs=1e-9
    )


def test_the_slope_of_the_prior_term_is_the_posterior_variance() -> None:
    """-2 d(term)/d q_hat = E Var(x|h): stationarity and the Nishimori form agree, also where V is
    1e-9.
    """
    h, share = sp.Symbol("h_", nonnegative=True), 0.2
    term = mixture_error_term(
        components((1 - sp.Rational(1, 5)) * sp.DiracDelta(X) + sp.Rational(1, 5) * normal(X)), h
    )
    derived = function([h], -2 * term.diff(h))
    for strength in (0.5, 20.0, 1e9):
        precision = 1 + strength

        def variance(
            field: float, precision: float = precision, strength: float = strength
        ) -> float:
            odds = np.log(share / (1 - share)) - np.log(precision) / 2 + field**2 / (2 * precision)
            active = 1 / (1 + np.exp(-odds)) if odds > -700 else 0.0
            mean = field / precision
            return active * (1 / precision + mean**2) - (active * mean) ** 2

        total = 0.0
        for weight, deviation in (
            (1 - share, np.sqrt(strength)),
            (share, np.sqrt(strength * precision)),
        ):
            ends = [
                0.0,
                *(s * np.sqrt(strength) * k for k in (1, 3, 5, 8, 20) for s in (1, -1)),
                12 * deviation,
                -12 * deviation,
            ]
            ends = sorted(e for e in ends if abs(e) <= 12 * deviation)

            def body(field, deviation=deviation):
                return variance(field) * norm.pdf(field / deviation) / deviation

            total += weight * sum(
                quad(body, a, b, epsabs=0, epsrel=1e-10, limit=200)[0] for a, b in pairwise(ends)
            )
        assert float(derived(strength)) == pytest.approx(total, rel=1e-7)


@pytest.mark.parametrize(
    ("channel", "z_out"),
    [
        (sp.Eq(Y, sp.sign(Z)), lambda w, v: [norm.cdf(s * w / np.sqrt(v)) for s in (1, -1)]),
        pytest.param(
            sp.Eq(Y, sp.sign(sp.Abs(Z) - sp.Rational(7, 10))),
            lambda w, v: [
                p := norm.cdf((0.7 - w) / np.sqrt(v)) - norm.cdf((-0.7 - w) / np.sqrt(v)),
                1 - p,
            ],
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {1: sp.erfc(-Z) / 2, 0: sp.erfc(Z) / 2},
            lambda w, v: [norm.cdf(s * w / np.sqrt(v + 0.5)) for s in (1, -1)],
            marks=pytest.mark.slow,
        ),
        (
            {1: 1 / (1 + sp.exp(-Z)), -1: sp.exp(-Z) / (1 + sp.exp(-Z))},
            lambda w, v: [
                HERMITE[1] @ (1 / (1 + np.exp(-s * (w + np.sqrt(v) * HERMITE[0])))) for s in (1, -1)
            ],
        ),
        pytest.param(
            {
                y: sp.Piecewise(
                    (TENTH if y < 0 else 1 - TENTH, Z > 1), (1 - TENTH if y < 0 else TENTH, True)
                )
                for y in (1, -1)
            },
            lambda w, v: [p := 0.1 + 0.8 * norm.cdf((w - 1) / np.sqrt(v)), 1 - p],
            marks=pytest.mark.slow,
        ),
    ],
    ids=["sign", "door", "probit", "logistic", "flips"],
)
def test_the_output_term_and_its_slope(channel, z_out) -> None:
    """sum_y E[Z log Z] by adaptive quadrature, and -2 d/dV of it in the Nishimori form sum_y
    E[(dZ/d omega)^2/Z].
    """
    unknown, variance, step = sp.Symbol("V_", nonnegative=True), 0.3, 1e-4
    deviation = np.sqrt(1 - variance)

    def integral(body) -> float:
        pieces = [-9, -0.7 / deviation, 0, 0.7 / deviation, 1 / deviation, 9]
        return sum(
            quad(lambda g: body(deviation * g) * norm.pdf(g), a, b, epsabs=1e-11)[0]
            for a, b in pairwise(pieces)
        )

    exact = integral(lambda w: sum(xlogy(p, p) for p in z_out(w, variance)))

    def squared_force(w: float) -> float:
        sides = (z_out(w + s * step, variance) for s in (1, -1, 0))
        return sum(
            ((a - b) / (2 * step)) ** 2 / max(p, 1e-30) for a, b, p in zip(*sides, strict=True)
        )

    force = integral(squared_force)
    term = output_term(channel, unknown, sp.S.One)
    assert float(function([unknown], term)(variance)) == pytest.approx(exact, abs=1e-8)
    assert float(function([unknown], -2 * term.diff(unknown))(variance)) == pytest.approx(
        force, abs=2e-6
    )


def test_functions_that_are_constant_between_jumps() -> None:
    assert steps(sp.sign(sp.Abs(Z) - K)) == ((-sp.oo, -K, 1), (-K, K, -1), (K, sp.oo, 1))
    assert steps(sp.Abs(Z)) is None and steps(sp.sign(Z)) == ((-sp.oo, 0, -1), (0, sp.oo, 1))
    assert steps(sp.sin(Z)) is None and steps(sp.Heaviside(Z - K) * Z) is None
    assert mirrored(sp.Heaviside(Z - 1), 1 - sp.Heaviside(Z + 1)) and not mirrored(
        sp.Heaviside(Z - 1), sp.Heaviside(Z)
    )
    assert probabilities(sp.Eq(Y, sp.sign(Z))).keys() == {1, -1}


def test_kinks_of_a_loss() -> None:
    size = sp.Abs(Y - Z)
    huber = sp.Piecewise((size**2 / 2, size < K), (K * (size - K / 2), True))
    assert set(all_breakpoints(huber, Z)) == {Y, Y + K, Y - K}
    assert [one_sided(huber.diff(Z), Z, Y + K, side) for side in (-1, 1)] == [K, K]
    assert [one_sided(sp.Max(0, 1 - Z).diff(Z), Z, sp.S.One, side) for side in (-1, 1)] == [-1, 0]


LOSSES = {
    "logistic": (Softplus(-Z), lambda z: np.logaddexp(0, -z)),
    "hinge": (sp.Max(0, 1 - Z), lambda z: np.maximum(0, 1 - z)),
    "huber": (
        sp.Piecewise((Z**2 / 2, sp.Abs(Z) < 1), (sp.Abs(Z) - HALF, True)),
        lambda z: np.where(abs(z) < 1, z * z / 2, abs(z) - 0.5),
    ),
    "exponential": (sp.exp(-Z), lambda z: np.exp(-z)),
}


@pytest.mark.parametrize(
    "name",
    [
        "logistic",
        "hinge",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("huber", "exponential")),
    ],
)
def test_the_envelope_its_minimiser_and_the_envelope_theorem(name: str) -> None:
    """Against a scalar minimiser of SciPy; derivatives against finite differences."""
    loss, plain = LOSSES[name]
    w, v = sp.Symbol("omega", real=True), sp.Symbol("V", positive=True)
    envelope, minimiser = ScalarEnvelope(Z, loss, w, v), ProxValue(Z, Z, loss, w, v)
    value, found, slope = (
        jax.jit(function([w, v], e)) for e in (envelope, minimiser, ProxSlope(Z, loss, w, v))
    )
    in_omega, in_width = (jax.jit(function([w, v], envelope.diff(t))) for t in (w, v))
    centres, widths = (
        a.ravel() for a in np.meshgrid([-7.3, -1.1, 0.2, 0.93, 2.6], [0.05, 1.7, 40.0])
    )
    exact = [
        minimize_scalar(
            lambda z, c=c, v=v: (z - c) ** 2 / (2 * v) + plain(z), bracket=(c - 1, c + 1), tol=1e-12
        )
        for c, v in zip(centres, widths, strict=True)
    ]
    np.testing.assert_allclose(
        value(centres, widths), [e.fun for e in exact], rtol=1e-10, atol=1e-11
    )
    np.testing.assert_allclose(found(centres, widths), [e.x for e in exact], atol=1e-6, rtol=1e-6)
    step = 1e-5
    ahead, behind = (
        (value(centres + s * step, widths), found(centres + s * step, widths)) for s in (1, -1)
    )
    np.testing.assert_allclose(
        in_omega(centres, widths), (ahead[0] - behind[0]) / (2 * step), atol=1e-6, rtol=1e-6
    )
    np.testing.assert_allclose(
        slope(centres, widths), (ahead[1] - behind[1]) / (2 * step), atol=1e-6
    )
    ahead, behind = (value(centres, widths * (1 + s * step)) for s in (1, -1))
    np.testing.assert_allclose(
        in_width(centres, widths), (ahead - behind) / (2 * step * widths), atol=1e-6, rtol=1e-6
    )
    strange = found(np.full(15, 0.0), np.full(15, -1.0)), found(np.full(15, 1e8), np.ones(15))
    assert np.isnan(strange[0]).all() and np.isfinite(strange[1]).all(), (
        "no envelope at negative width"
    )


def test_a_minimiser_of_what_is_not_convex_is_nan() -> None:
    w, v = sp.Symbol("omega", real=True), sp.Symbol("V", positive=True)
    found = function([w, v], ProxValue(Z, Z, -(Z**2), w, v))
    assert np.isnan(float(found(1.0, 3.0)))


def test_ridge_regression_in_closed_form() -> None:
    """V_hat = alpha/(1 + V), m_hat = V_hat, q_hat = alpha (1 + Delta - 2 m + q)/(1 + V)^2."""
    equations = derive(convex_erm((Y - Z) ** 2 / 2, normal(Y, Z, 1)))
    names = {str(s): s for s in equations}
    at = dict(alpha=2.0, m=0.4, q=0.7, V=0.9, lam=0.5)
    arguments = sorted(
        set().union(*(equations[names[n]].free_symbols for n in ("m_hat", "q_hat", "V_hat"))),
        key=str,
    )
    value = {
        n: float(function(arguments, equations[names[n]])(*(at[str(s)] for s in arguments)))
        for n in ("m_hat", "q_hat", "V_hat")
    }
    assert value["V_hat"] == pytest.approx(2 / 1.9, rel=1e-9) and value["m_hat"] == pytest.approx(
        2 / 1.9, rel=1e-9
    )
    assert value["q_hat"] == pytest.approx(2 * (2 - 0.8 + 0.7) / 1.9**2, rel=1e-9)


CUBIC = sp.exp(-(sp.Abs(Y - Z) ** 3)) / (2 * sp.gamma(sp.Rational(4, 3)))


def poisson(rate: sp.Expr, values: int) -> dict[int, sp.Expr]:
    """Labels that count, the first of them."""
    return {n: rate**n * sp.exp(-rate) / sp.factorial(n) for n in range(values)}


REFUSED = {
    "counts": (
        lambda: bayes_glm(normal(X), poisson(sp.exp(Z), 36)),
        r"add up to 0\.\d+ at z = 3\.\d+, not to 1 \(0\.000\d is missing on average\)",
    ),
    "weights": (
        lambda: bayes_glm(HALF * normal(X) + sp.DiracDelta(X), normal(Y, Z)),
        "total weight 3/2",
    ),
    "prior": (lambda: bayes_glm(sp.exp(-sp.Abs(X)) / 2, normal(Y, Z)), "cannot read the term"),
    "no y": (lambda: bayes_glm(normal(X), normal(X, Z)), "does not contain y"),
    "probabilities": (
        lambda: bayes_glm(normal(X), {1: sp.Heaviside(Z), -1: sp.Heaviside(Z)}),
        "at z = -7/5 that is 0, not 1",
    ),
    "kink": (
        lambda: bayes_glm(normal(X), CUBIC),
        r"jumps or bends in z, at Abs\(y - z\)",
    ),
    "no integral": (
        lambda: bayes_glm(normal(X), 1 / (1 + (Y - Z) ** 2) / sp.pi),
        r"give support=\(low, high\)",
    ),
    "noiseless": (
        lambda: bayes_glm(normal(X), sp.Eq(Y, Z**3)),
        r"no closed output for y = z\*\*3 without noise",
    ),
    "order": (
        lambda: bayes_glm(normal(X), sp.Eq(Y, sp.sign(Z) * sp.sign(Z - sp.Symbol("a", real=True)))),
        "cannot tell the order",
    ),
    "undeclared": (
        lambda: bayes_glm((1 - RHO) * sp.DiracDelta(X) + RHO * normal(X), normal(Y, Z)),
        "contains rho, which is not",
    ),
    "not convex": (
        lambda: convex_erm((Y - Z**2) ** 2, normal(Y, Z)),
        "not convex in z: its second derivative is -",
    ),
    "absolute": (
        lambda: convex_erm(sp.Abs(Y - Z) + Z**2 / 2, normal(Y, Z)),
        "jumps at z = y: for continuous labels it must be continuous",
    ),
    "no z": (lambda: convex_erm(Y**2, normal(Y, Z)), "does not contain z"),
    "teacher": (lambda: convex_erm((Y - Z) ** 2, sp.exp(Z - Y)), "cannot average over the teacher"),
}


def test_counts_that_are_written_far_enough_are_read() -> None:
    model = bayes_glm(normal(X), poisson(sp.exp(Z / 4) / 2, 18))
    assert [q.name for q in model.overlaps] == ["V"]


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_named(name: str) -> None:
    build, message = REFUSED[name]
    with pytest.raises(ModelError, match=message):
        build()
