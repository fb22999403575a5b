"""Empirical risk with the usual losses and penalties: published values, equations written by hand
with another quadrature, and fits at finite size.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import replica
from replica import InputError, Y, Z
from replica.models import resolve
from replica.sweeps.search import Objective

KNOWN = {
    "ridge": (
        {"alpha": 2.0, "lam": 0.1, "Delta": 0.5},
        {"V": 0.84428877, "m": 0.91557112, "q": 1.20419957},
        1e-8,
    ),
    "logistic": (
        {"teacher": "sign", "loss": "logistic", "alpha": 2.0, "lam": 0.1},
        {"q": 4.14580362, "m": 1.72031309, "V": 3.97654579},
        1e-7,
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_values(name: str) -> None:
    given, overlaps, precision = KNOWN[name]
    branch = replica.solve("glm-erm", **given).branches[0]
    assert branch.ok
    for overlap, value in overlaps.items():
        assert branch.overlaps[overlap] == pytest.approx(value, abs=precision)


def soft(h: Any, edge: float) -> Any:
    return np.sign(h) * np.maximum(np.abs(h) - edge, 0)


@pytest.mark.parametrize(
    ("penalty", "ratio"), [("l1", 1.0), pytest.param("elastic_net", 0.4, marks=pytest.mark.slow)]
)
def test_sparse_fits(penalty: str, ratio: float) -> None:
    """The square loss: E over the field of a weight, by quadrature of the soft threshold."""
    alpha, lam, noise = 0.8, 0.1, 0.1
    extra = {} if penalty == "l1" else {"l1_ratio": ratio}
    branch = replica.solve(
        "glm-erm", penalty=penalty, alpha=alpha, lam=lam, Delta=noise, **extra
    ).branches[0]
    m, q, V = (branch.overlaps[x] for x in ("m", "q", "V"))
    V_hat = m_hat = alpha / (1 + V)
    q_hat = alpha * (1 + noise - 2 * m + q) / (1 + V) ** 2
    s, stiffness, edge = np.hypot(m_hat, np.sqrt(q_hat)), V_hat + lam * (1 - ratio), lam * ratio

    def mean(body: Any) -> float:
        inside = lambda g: body(s * g) * norm.pdf(g)  # noqa: E731
        return quad(inside, -12, 12, points=[-edge / s, edge / s], epsabs=1e-13)[0]

    share = mean(lambda h: float(abs(h) > edge))
    assert m == pytest.approx(
        mean(lambda h: h * soft(h, edge)) * m_hat / s**2 / stiffness, abs=1e-8
    )
    assert q == pytest.approx(mean(lambda h: soft(h, edge) ** 2) / stiffness**2, abs=1e-8)
    assert pytest.approx(share / stiffness, abs=1e-8) == V
    assert branch.observables["active_share"] == pytest.approx(share, abs=1e-8)
    if penalty == "l1":  # the excess of the half square
        assert branch.observables["risk"] - noise / 2 == pytest.approx(0.2495, abs=5e-5)


@pytest.mark.slow
def test_lasso_against_fits() -> None:
    """Coordinate descent on 12 samples of D = 400."""
    D, alpha, lam, noise = 400, 0.8, 0.1, 0.1
    branch = replica.solve("glm-erm", penalty="l1", alpha=alpha, lam=lam, Delta=noise).branches[0]
    rng, found = np.random.default_rng(3), []
    for _ in range(12):
        teacher, x = rng.normal(size=D), rng.normal(size=(int(alpha * D), D)) / np.sqrt(D)
        y = x @ teacher + np.sqrt(noise) * rng.normal(size=len(x))
        w, squares = np.zeros(D), np.sum(x**2, axis=0)
        rest = y - x @ w
        for _ in range(600):
            for j in range(D):
                new = soft(x[:, j] @ rest + squares[j] * w[j], lam) / squares[j]
                rest += x[:, j] * (w[j] - new)
                w[j] = new
        found.append([w @ teacher / D, w @ w / D, np.mean(w != 0)])
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(12)
    theory = [branch.overlaps["m"], branch.overlaps["q"], branch.observables["active_share"]]
    assert np.all(np.abs(mean - theory) < 4 * error)


def test_the_replicon_of_ridge_is_that_of_an_elastic_net_without_l1() -> None:
    given = {"teacher": "sign", "loss": "hinge", "alpha": 2.0, "lam": 0.5}
    ridge = replica.solve("glm-erm", **given).branches[0]
    nearly = replica.solve("glm-erm", penalty="elastic_net", l1_ratio=1e-7, **given).branches[0]
    for name in ("risk", "replicon", "generalisation_error"):
        assert nearly.observables[name] == pytest.approx(ridge.observables[name], abs=1e-5)
    assert ridge.observables["replicon"] == pytest.approx(0.649128, abs=1e-6)


def test_from_the_command_line(command) -> None:
    given = [f"--set={x}" for x in ("teacher=sign", "loss=logistic", "alpha=1", "lam=.1")]
    code, out, _ = command("solve", "glm-erm", *given, "--json")
    branch = json.loads(out)["branches"][0]
    assert code == 0 and branch["overlaps"] == pytest.approx(
        {"m": 1.0564, "q": 2.3174, "V": 5.8950}, abs=5e-5
    )
    assert branch["observables"]["generalisation_error"] == pytest.approx(0.2559, abs=5e-5)
    code, _, err = command("solve", "glm-erm", "--set=loss=hinge", "--set=alpha=1", "--set=lam=1")
    assert code == 2 and "choose square, huber, absolute, quantile" in err
    code, _, err = command("solve", "glm-erm", *given, "--set=Delta=1")
    assert code == 2 and "no control 'Delta'" in err


def test_contradicting_options_are_one_sentence() -> None:
    with pytest.raises(InputError, match="labels"):
        replica.solve("glm-erm", teacher="logistic", loss="absolute", alpha=1.0, lam=1.0)


@pytest.mark.parametrize(
    ("alpha", "noise"),
    [(0.5, 0.01), (2.0, 0.5), *(pytest.param(a, 3.0, marks=pytest.mark.slow) for a in (1, 4, 10))],
)
def test_the_best_ridge_is_the_variance_of_the_noise(alpha: float, noise: float) -> None:
    """The prior is Gaussian, so that this ridge is Bayes-optimal; its error covers the distance."""
    best = replica.optimise("glm-erm", over=["lam"], alpha=alpha, Delta=noise)
    assert best.status is replica.Status.SUCCESSFUL
    assert abs(best.at["lam"] - noise) <= best.error_at["lam"] <= 1e-4 * noise
    bayes = replica.solve("glm-bayes", channel="linear", alpha=alpha, Delta=noise).branches[0]
    assert best.value == pytest.approx((bayes.overlaps["V"] + noise) / 2, rel=1e-9)


def test_the_gradient_is_that_of_the_solved_fixed_point() -> None:
    """Implicit differentiation of a test error against differences of solutions."""
    given = {"teacher": "sign", "loss": "logistic", "alpha": 3.0}
    model, values = resolve("glm-erm", given, partial=["lam"])
    start = np.array(list(replica.solve(model, lam=0.1, **values).branches[0].overlaps.values()))
    goal = Objective(model, ["lam"], "generalisation_error", replica.Settings(), values, start)
    t, step = np.log([0.1]), 1e-4
    difference = (goal(t + step)[0] - goal(t - step)[0]) / (2 * step)
    assert goal(t)[1][0] == pytest.approx(difference, abs=1e-8)


GIVEN = {"penalty": "elastic_net", "alpha": 0.8, "Delta": 0.1}


def test_a_search_stays_inside_the_range_of_a_control() -> None:
    """The best share of l1 for a Gaussian teacher is none at all; shares are below one."""
    best = replica.optimise("glm-erm", over=["lam", "l1_ratio"], **GIVEN)
    assert best.at["lam"] == pytest.approx(0.1, rel=1e-5)
    assert 0 < best.at["l1_ratio"] < 1e-3
    model, values = resolve("glm-erm", GIVEN, partial=["lam", "l1_ratio"])
    goal = Objective(model, ["lam", "l1_ratio"], "risk", replica.Settings(), values, np.ones(3))
    assert goal.ranges()[0] == pytest.approx([1e-5, 1e-5])
    assert goal.ranges()[1, 0] == 1e5 and 0.99 < goal.ranges()[1, 1] < 1


def test_the_best_ridge_from_the_command_line(command, tmp_path) -> None:
    file = tmp_path / "best.h5"
    given = ["--set", "Delta=0.5", "-o", str(file)]
    assert command("sweep", "glm-erm", "--over", "alpha=1:2:2", "--optimise", "lam", *given)[0] == 0
    table = replica.load(file)
    assert table.lam.values.ravel() == pytest.approx(0.5, rel=1e-6)
    code, _, err = command("sweep", "glm-erm", "--over", "alpha=1:2:2", "--optimise", "mu", *given)
    assert code == 2 and "no control 'mu'" in err


def test_the_error_on_labels_of_a_logistic_teacher() -> None:
    """Against an average over teacher and student fields by Gauss-Hermite."""
    given = {"teacher": "logistic", "loss": "logistic", "alpha": 2.0, "lam": 0.3}
    branch = replica.solve("glm-erm", **given).branches[0]
    m, q = branch.overlaps["m"], branch.overlaps["q"]
    x, w = np.polynomial.hermite_e.hermegauss(80)
    w = w / w.sum()
    # Given the teacher's field z, the student's is N(m z, q - m^2): its sign is right with Phi.
    right = norm.cdf(m * x / np.sqrt(q - m**2))
    exact = w @ ((1 - right) / (1 + np.exp(-x)) + right / (1 + np.exp(x)))
    assert branch.observables["generalisation_error"] == pytest.approx(exact, abs=1e-9)
    assert branch.observables["generalisation_error"] > bayes_error(given["alpha"])


def bayes_error(alpha: float) -> float:
    branch = replica.solve("glm-bayes", channel="logistic", alpha=alpha).branches[0]
    return branch.observables["generalisation_error"]


def test_a_penalty_that_is_not_there() -> None:
    with pytest.raises(replica.ModelError, match="no penalty 'l2': choose ridge, l1, elastic_net"):
        replica.convex_erm((Y - Z) ** 2 / 2, replica.normal(Y, Z), penalty="l2")
