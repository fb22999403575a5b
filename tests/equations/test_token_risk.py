"""The population risk with cross terms: symbolic limits, and the risk of explicit data in D = 50
dimensions.
"""

import math

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import quad
from scipy.special import erf, expit, softmax
from scipy.stats import norm

from equations.calculus.averages import Average
from equations.calculus.gaussian import close
from equations.models import slr_flow
from equations.models.slr_flow import OVERLAPS, TEACHER
from equations.slr.activations import ACTIVATIONS
from equations.slr.max_rule import TRUE_KEY, location_weight
from replica.lowering.lower import NodeSizes, function

SIGMA = {"linear": lambda c: 1 + c, "erf_odd": erf, "softmax": lambda c: softmax(c, axis=1)}
CROSS = {"m_kv": 0, "m_vk": 0, "q_kv": 0}


def test_without_cross_terms_it_is_the_risk_of_section_3() -> None:
    """1 + Delta - 2 m_v E[sigma_eps] + q_v E[sum sigma^2], for an activation about which nothing is
    known.
    """
    model = slr_flow.build("erf_odd", "spiked")
    symbols = {q.name: q.symbol for q in (*model.overlaps, *model.controls)}
    plain = {
        symbols[k]: v
        for k, v in (
            CROSS | {"rho_kv": 0, "rho_k": 1, "rho_v": 1, "gamma2": 1, "offset": 0}
        ).items()
    }
    x, m, q, v, w, length, nu = (
        sp.Symbol("chi", real=True),
        *(symbols[n] for n in ("m_k", "q_k", "m_v", "q_v", "L", "nu")),
    )
    mean = sp.sqrt(nu) * m

    def average(body, mean):
        return Average(body, x, mean, q, 0, 1)

    square = average(sp.erf(x) ** 2, mean) + (length - 1) * average(sp.erf(x) ** 2, 0)
    expected = 1 + symbols["Delta"] - 2 * v * average(sp.erf(x), mean) + w * square
    assert sp.expand(model.expressions["risk"].subs(plain) - expected) == 0


def test_linear_risk_in_closed_form_is_quadratic_in_the_cross_terms() -> None:
    risk = slr_flow.build("linear", "max")
    expanded = close(risk.observables["risk"].expr)
    assert sp.degree(sp.Poly(expanded, slr_flow.q_kv), slr_flow.q_kv) == 2


def explicit(
    activation: str, rule: str, length: int, nu: float, w: np.ndarray, n: int, seed: int
) -> tuple[float, float]:
    """Mean and standard error of (y - f)^2 over explicit tokens in D dimensions; rows of w are k,
    v, k*, v*.
    """
    rng, dimension = np.random.default_rng(seed), w.shape[1]
    loss = []
    for _ in range(n // 10_000):
        x = rng.standard_normal((10_000, length, dimension))
        if rule == "spiked":
            place = rng.integers(length, size=len(x))
            x[np.arange(len(x)), place] += np.sqrt(nu / dimension) * w[2]
        else:
            keys = x @ w[2] / np.sqrt(dimension)
            place = np.argmax(
                keys if nu == math.inf else nu * keys + rng.gumbel(size=keys.shape), axis=1
            )
        chi, z, target = (x @ w[i] / np.sqrt(dimension) for i in (0, 1, 3))
        loss.append(
            (target[np.arange(len(x)), place] - np.sum(SIGMA[activation](chi) * z, axis=1)) ** 2
        )
    every = np.concatenate(loss)
    return float(every.mean()), float(every.std() / np.sqrt(every.size))


@pytest.mark.parametrize(
    ("activation", "rule", "length", "nu"),
    [
        ("erf_odd", "spiked", 2, 2.0),
        ("softmax", "spiked", 3, 2.0),
        ("erf_odd", "max", 3, 1.0),
        pytest.param("linear", "max", 3, math.inf, marks=pytest.mark.slow),
        pytest.param("erf_odd", "max", 2, 6.0, marks=pytest.mark.slow),
        pytest.param("softmax", "max", 3, math.inf, marks=pytest.mark.slow),
        pytest.param("softmax", "max", 2, math.inf, marks=pytest.mark.slow),
        pytest.param("softmax", "spiked", 2, 1.0, marks=pytest.mark.slow),
    ],
)
def test_risk_against_explicit_data(activation: str, rule: str, length: int, nu: float) -> None:
    dimension = 50
    w = np.random.default_rng(5).standard_normal((4, dimension))
    if rule == "max":
        w[2:] = np.linalg.qr(w[2:].T)[0].T * np.sqrt(dimension)
    w[0] = 0.7 * w[0] + 0.4 * w[2] + 0.4 * w[3]
    w[1] = 0.6 * w[1] + 0.4 * w[3] - 0.3 * w[2] + 0.3 * w[0]
    matrix = w @ w.T / dimension
    model = slr_flow.build(activation, rule)
    own = (
        {"rho_k": matrix[2, 2], "rho_v": matrix[3, 3], "rho_kv": matrix[2, 3]}
        if rule == "spiked"
        else {}
    )
    values = {"L": length, "nu": nu, "Delta": 0.0} | own
    numbers = [values.get(q.name, q.default) for q in model.controls]
    places = {
        q.symbol: matrix[i, j]
        for q in OVERLAPS
        for i in range(4)
        for j in range(4)
        if slr_flow.gram((1, 1, 0)).matrix[i, j] == q.symbol
    }
    assert min(abs(places[q.symbol]) for q in OVERLAPS) > 0.03
    symbols = [*places, *(q.symbol for q in model.controls)]
    rule_ = NodeSizes(gaussian=41, line=121, mellin=161, localised=61)
    risk = float(
        function(symbols, model.theory.rewrite(model.expressions["risk"]), rule_)(
            *places.values(), *numbers
        )
    )
    mean, error = explicit(activation, rule, length, nu, w, 60_000, 3)
    assert abs(risk - mean) < 4 * error
    assert error < 0.04 * mean


@pytest.mark.parametrize("nu", [1.0, 2.0, 5.0, 40.0, math.inf])
def test_location_weight_of_two_tokens(nu: float) -> None:
    symbols = [q.symbol for q in slr_flow.build("erf_odd", "max").controls[:2]]
    at = function([TRUE_KEY, *symbols], location_weight())
    for x in (-1.5, 0.3, 2.0):
        share = (
            norm.cdf(x)
            if nu == math.inf
            else quad(lambda y, x=x: expit(nu * (x - y)) * norm.pdf(y), -9, 9, points=[x])[0]
        )
        assert float(at(x, 2, nu)) == pytest.approx(2 * share, abs=1e-9)


def test_a_normalised_activation_other_than_softmax_has_no_flow_for_the_max_rule() -> None:
    assert ACTIVATIONS["softplus"].normalised
    with pytest.raises(ValueError, match="choose softmax, or an elementwise"):
        slr_flow.build("softplus", "max")
    assert {q.name for q in TEACHER} <= {
        q.name for q in slr_flow.build("softplus", "spiked").controls
    }
