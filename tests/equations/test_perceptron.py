"""perceptron-bayes against published and independently computed numbers, and at its
boundary V = 0.
"""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import quad
from scipy.stats import norm

import replica
from equations.glm.priors import sign_error_term, sign_term
from replica.lowering.lower import function

# alpha, V of the uninformed branch, q_hat, Phi - log 2: state evolution by independent quadrature
# (1e-6 relative).
GOLDEN = [
    (0.2, 0.87760567943, 0.1381824579, -0.134577858),
    (0.5, 0.70691096995, 0.3936697728, -0.321014403),
    (1.0, 0.43928526291, 1.033042185, -0.587038913),
    (1.4, 0.2103009605, 2.148134603, -0.749573811),
    (1.48, 0.13892343817, 2.817100606, -0.773716777),
]


@pytest.mark.parametrize(("alpha", "v", "hat", "phi"), GOLDEN)
def test_state_evolution(alpha: float, v: float, hat: float, phi: float) -> None:
    branch = replica.solve("perceptron-bayes", alpha=alpha).branch("uninformed")
    assert branch.ok
    assert branch.overlaps["V"] == pytest.approx(v, rel=1e-8)
    assert branch.conjugates["q_hat"] == pytest.approx(hat, rel=1e-8)
    assert branch.free_energy - np.log(2) == pytest.approx(phi, abs=2e-9)
    assert branch.observables["q"] == pytest.approx(1 - v, abs=1e-9)
    assert branch.observables["risk"] == pytest.approx(np.arccos(np.sqrt(1 - v)) / np.pi, abs=1e-9)


def test_perfect_recovery_is_a_fixed_point_with_no_entropy() -> None:
    for alpha in (0.2, 1.2, 1.4):
        informed = replica.solve("perceptron-bayes", alpha=alpha).branch("informed")
        assert informed.ok and informed.overlaps["V"] == 0 and informed.spectral_radius == 0
        assert abs(informed.free_energy) < 1e-14 and informed.conjugates["q_hat"] > 1e13


@pytest.mark.parametrize("alpha", [1.55, 1.6, 1.9, 2.2, 2.5, 3.0])
def test_above_the_algorithmic_threshold_both_starts_recover(alpha: float) -> None:
    solution = replica.solve("perceptron-bayes", alpha=alpha)
    assert [b.start for b in solution.branches] == ["uninformed+informed"] and solution.branches[
        0
    ].overlaps["V"] == 0


@pytest.mark.parametrize("v", [1e-12, 1e-6, 1e-3, 0.1, 0.9])
def test_the_channel_is_resolved_however_small_v_is(v: float) -> None:
    """q_hat = 2 alpha E[phi(t)^2/Phi(t)]/V, t ~ N(0, (1 - V)/V)."""
    deviation = np.sqrt((1 - v) / v)

    def density(t):
        return np.exp(2 * norm.logpdf(t) - norm.logcdf(t)) * norm.pdf(t / deviation) / deviation

    exact = 2 / v * quad(density, -40, 10, epsabs=0, epsrel=1e-11, limit=400)[0]
    assert replica.evaluate("perceptron-bayes", {"V": v}, alpha=1)["conjugates"][
        "q_hat"
    ] == pytest.approx(exact, rel=2e-7)


@pytest.mark.parametrize("hat", [0.0, 0.3, 5.0, 40.0])
def test_both_prior_terms_agree(hat: float) -> None:
    h = sp.Symbol("h_", nonnegative=True)
    error, sign = (float(function([h], term(h))(hat)) for term in (sign_error_term, sign_term))
    assert error == pytest.approx(
        sign - hat / 2, abs=1e-8 if hat < 10 else 1e-4
    )  # the plain trapezoid of sign_term is the coarser one


@pytest.mark.parametrize("hat", [0.3, 5.0, 40.0])
def test_the_prior_term_against_adaptive_quadrature(hat: float) -> None:
    h = sp.Symbol("h_", nonnegative=True)
    body = lambda x: np.logaddexp(0, -2 * x) * norm.pdf((x - hat) / np.sqrt(hat)) / np.sqrt(hat)  # noqa: E731
    exact = quad(body, -60, 160, points=[0, hat], epsabs=0, epsrel=1e-12, limit=400)[0]
    assert float(function([h], sign_error_term(h))(hat)) == pytest.approx(exact, rel=1e-9)


def test_small_alpha() -> None:
    branch = replica.solve("perceptron-bayes", alpha=1e-4).branch("uninformed")
    assert branch.conjugates["q_hat"] == pytest.approx(2e-4 / np.pi, rel=1e-3)
