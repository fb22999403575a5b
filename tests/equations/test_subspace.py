"""subspace: the derived closed forms against quadrature of the averages, and the algebra of the
boundary.
"""

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from equations import MODELS, Average, derive
from equations.calculus.gaussian import close
from equations.models import subspace as physics

X = sp.Symbol("x", real=True)
MODEL = MODELS["subspace"].build()
SIGNALS, SHARES, TEMPERATURES = st.floats(0.05, 4), st.floats(0.02, 0.98), st.floats(0.3, 2)


def at(expr: sp.Expr, **values: float) -> float:
    symbols = {s.name: s for s in expr.free_symbols}
    return float(
        expr.subs({symbols[k]: v for k, v in values.items() if k in symbols}).replace(
            physics.Logistic, lambda x: 1 / (1 + sp.exp(-x))
        )
    )


def moment(power: int, degree: int, theta: float, r: float, beta: float, rho: float) -> float:
    """E[e^{power beta h} h^degree] over all tokens, by quadrature."""

    def integrand(h: float) -> float:
        law = r * np.exp(-((h - theta * rho) ** 2) / 2) + (1 - r) * np.exp(-(h**2) / 2)
        return h**degree * np.exp(power * beta * h) * law / np.sqrt(2 * np.pi)

    return quad(
        integrand,
        -30,
        40,
        epsabs=1e-13,
        epsrel=1e-12,
        limit=500,
        points=[0.0, power * beta, power * beta + theta * rho],
    )[0]


@pytest.mark.parametrize(
    "theta, r, beta, rho", [(1.0, 0.1, 1.0, 0.5), (2.5, 0.6, 0.7, -0.8), (0.3, 0.9, 1.6, 0.0)]
)
def test_closed_forms_against_quadrature(theta: float, r: float, beta: float, rho: float) -> None:
    """J from |E[e^{beta h} x]/E[e^{beta h}]|^2, by one-dimensional integrals; T from E[e^{2 beta
    h}].
    """
    point = {"theta": theta, "r": r, "beta": beta, "rho": rho}
    partition = moment(1, 0, **point)
    mass = r * np.exp(beta * theta * rho + beta**2 / 2) / partition
    direct = (moment(1, 1, **point) / partition) ** 2 + (1 - rho**2) * theta**2 * mass**2
    assert at(physics.closed(physics.objective()), **point) == pytest.approx(direct, rel=1e-9)
    assert at(physics.closed(physics.attention_mass()), **point) == pytest.approx(mass, rel=1e-9)
    assert at(physics.closed(physics.crowding()), **point) == pytest.approx(
        moment(2, 0, **point) / partition**2, rel=1e-9
    )


def test_the_objective_is_the_papers_at_beta_one() -> None:
    a, rho, theta, beta = physics.MASS, physics.rho, physics.theta, physics.beta
    assert (
        sp.expand(
            physics.in_mass(physics.objective())
            - (beta**2 + 2 * beta * theta * rho * a + theta**2 * a**2)
        )
        == 0
    )
    bracket = 1 + beta * theta * rho * (1 - a) + theta**2 * a * (1 - a)
    assert sp.expand(physics.mass_slope(physics.objective()) - 2 * beta * theta * a * bracket) == 0


def test_two_routes_to_the_derivative() -> None:
    """dJ/drho of the closed form (derive), through the mass (with Price's theorem for da/drho), and
    by finite differences.
    """
    (derivative,) = derive(MODEL).values()
    objective = MODEL.theory.rewrite(MODEL.channel)
    for point in (
        {"theta": 1.3, "r": 0.2, "beta": 0.8, "rho": 0.4},
        {"theta": 3.0, "r": 0.7, "beta": 1.0, "rho": -0.9},
    ):
        expected = at(derivative, **point)
        assert at(MODEL.expressions["objective_derivative"], **point) == pytest.approx(
            expected, rel=1e-12
        )
        above, below = (
            at(objective, **point | {"rho": point["rho"] + step}) for step in (1e-5, -1e-5)
        )
        assert (above - below) / 2e-5 == pytest.approx(expected, rel=1e-8)


@settings(max_examples=20)
@given(theta=SIGNALS, r=SHARES, beta=TEMPERATURES)
def test_boundary_share_separates_the_signs_of_the_slope_at_minus_xi(
    theta: float, r: float, beta: float
) -> None:
    boundary = (
        float(physics.boundary_share().subs({physics.theta: theta, physics.beta: beta}))
        if beta * theta > 1
        else 0.0
    )
    if abs(r - boundary) < 1e-6:
        return
    slope = at(MODEL.expressions["objective_derivative"], theta=theta, r=r, beta=beta, rho=-1.0)
    assert (slope < 0) == (r < boundary)


def test_polynomial_times_exponential_is_closed() -> None:
    m, v, s = 0.3, 1.7, 0.6
    closed = close(Average((X**3 - 2 * X + 1) * sp.exp(s * X), X, m, v))
    direct = quad(
        lambda x: (
            (x**3 - 2 * x + 1) * np.exp(s * x - (x - m) ** 2 / (2 * v)) / np.sqrt(2 * np.pi * v)
        ),
        -20,
        25,
        epsabs=1e-12,
    )[0]
    assert float(closed) == pytest.approx(direct, rel=1e-9)
    assert close(Average(X**4, X, 0, 1)) == 3
    assert close(Average(sp.tanh(X) * sp.exp(X), X, 0, 1)).has(Average)
    assert close(Average(X * sp.exp(X**2 / 8), X, 0, 1)).has(Average)
