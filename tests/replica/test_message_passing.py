"""Message passing: derived output functions, and state evolution step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr, softmax
from typer.testing import CliRunner

from equations.slr.output_functions import output, symbols
from replica import InputError
from replica.check import EXPERIMENTS, state_evolution
from replica.cli import app
from replica.lowering.lower import function
from replica.models import resolve
from replica.simulate import message_passing
from replica.simulate.posterior import posterior

POINT = {"L": 2, "nu": 1, "Delta": 0.1, "alpha": 0.75}
MAX = {"rule": "max", "L": 3, "nu": np.inf, "alpha": 1.5}


def test_output_functions_are_the_derivatives_of_log_z() -> None:
    """Against central differences of log sum_l exp(a_l), and the closed forms of theory.md section
    6.
    """
    model, values = resolve("slr-bayes", POINT | {"L": 3})
    evaluate = posterior(model, values).channel
    rng = np.random.default_rng(0)
    omega_k, omega_v = rng.standard_normal((2, 3, 7)) * 2
    y, V_k, V_v = rng.standard_normal(7), 0.6, 0.3

    def log_z(k: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.log(np.exp(k - (y - v) ** 2 / (2 * (V_v + 0.1))).sum(axis=0))

    g_k, g_v, curvature = evaluate(omega_k, omega_v, y, None, V_k, V_v)
    s = np.exp(omega_k - (y - omega_v) ** 2 / (2 * (V_v + 0.1)) - log_z(omega_k, omega_v))
    assert g_k == pytest.approx(s) and g_v == pytest.approx(s * (y - omega_v) / (V_v + 0.1))
    assert float(curvature) == pytest.approx(-np.sum(s * (1 - s)))
    step = np.zeros((3, 7))
    step[1] = 1e-5
    assert g_k[1] == pytest.approx(
        (log_z(omega_k + step, omega_v) - log_z(omega_k - step, omega_v)) / 2e-5, rel=1e-6
    )
    assert g_v[1] == pytest.approx(
        (log_z(omega_k, omega_v + step) - log_z(omega_k, omega_v - step)) / 2e-5, rel=1e-6
    )
    # the value's curvature, which enters only through its mean E[g_v^2], as a function of its own
    c_v = function(symbols(model), output(model).curvatures["v"])
    rest = np.log(
        np.exp(omega_k[[0, 2]] - (y - omega_v[[0, 2]]) ** 2 / (2 * (V_v + 0.1))).sum(axis=0)
    ) - 0.5 * (1 - V_k)
    at = (
        omega_k[1],
        omega_v[1],
        y,
        rest,
        1 - V_k,
        1 - V_v,
        *(values[q.name] for q in model.controls),
    )
    plus, minus = (
        np.asarray(evaluate(omega_k, omega_v + sign * step, y, None, V_k, V_v)[1])[1]
        for sign in (1, -1)
    )
    assert c_v(*at) == pytest.approx(-(plus - minus) / 2e-5, rel=1e-5, abs=1e-7)


def location_law(omega: np.ndarray, V: float, nu: float) -> np.ndarray:
    """P_l of L = 3 keys N(omega, V), by Gauss-Hermite: over the key that is largest at nu = inf,
    else over all three.
    """
    t, weight = np.polynomial.hermite_e.hermegauss(60 if np.isinf(nu) else 28)
    weight = weight / weight.sum()
    if np.isinf(nu):
        chi = omega[:, None] + np.sqrt(V) * t
        others = [
            np.prod([ndtr((chi[i] - omega[j]) / np.sqrt(V)) for j in range(3) if j != i], axis=0)
            for i in range(3)
        ]
        return np.array(others) @ weight
    chi = omega[:, None, None, None] + np.sqrt(V) * np.stack(np.meshgrid(t, t, t, indexing="ij"))
    return np.einsum("labc,a,b,c->l", softmax(nu * chi, axis=0), weight, weight, weight)


@pytest.mark.parametrize("nu", [2.0, np.inf])
def test_output_functions_of_the_max_rule_are_the_derivatives_of_log_z(nu: float) -> None:
    """Against central differences of log sum_l P_l N(y; omega_v,l, V), with P_l from another
    quadrature.
    """
    model, values = resolve("slr-bayes", POINT | {"L": 3, "rule": "max", "nu": nu})
    known = posterior(model, values)
    rng = np.random.default_rng(0)
    omega_k, omega_v = rng.standard_normal((2, 3, 2))
    y, V_k, V_v = rng.standard_normal(2), 0.6, 0.3

    def log_z(k: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.array(
            [
                np.log(
                    location_law(k[:, i], V_k, nu)
                    @ np.exp(-((y[i] - v[:, i]) ** 2) / (2 * (V_v + 0.1)))
                )
                for i in (0, 1)
            ]
        )

    g_k, g_v, curvature = known.channel(omega_k, omega_v, y, None, V_k, V_v)
    bend = 0.0
    for token in range(3):
        step = np.zeros((3, 2))
        step[token] = 1e-3
        assert g_k[token] == pytest.approx(
            (log_z(omega_k + step, omega_v) - log_z(omega_k - step, omega_v)) / 2e-3,
            rel=1e-4,
            abs=1e-6,
        )
        assert g_v[token] == pytest.approx(
            (log_z(omega_k, omega_v + step) - log_z(omega_k, omega_v - step)) / 2e-3,
            rel=1e-4,
            abs=1e-6,
        )
        bend -= (
            np.sum(
                log_z(omega_k + step, omega_v)
                - 2 * log_z(omega_k, omega_v)
                + log_z(omega_k - step, omega_v)
            )
            / 1e-6
        )
    assert float(curvature) == pytest.approx(bend, rel=1e-3)
    expected = [location_law(omega_k[:, i], V_k, nu) @ omega_v[:, i] for i in (0, 1)]
    assert known.predict(omega_k, omega_v, None, V_k) == pytest.approx(expected, rel=1e-6)


def test_a_certain_token_leaves_the_others_finite() -> None:
    model, values = resolve("slr-bayes", POINT)
    g_k, g_v, curvature = posterior(model, values).channel(
        np.array([[900.0], [0.0]]), np.zeros((2, 1)), np.ones(1), None, 0.5, 0.5
    )
    assert (
        np.asarray(g_k).ravel() == pytest.approx([1, 0])
        and np.isfinite(np.asarray(g_v)).all()
        and float(curvature) == 0
    )


def paths(
    D: int, trials: int, steps: int, **changes: Any
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    planned = EXPERIMENTS["slr-bayes"].planned(
        POINT | changes, sizes=str(D), trials=trials, damping=0.0, steps=steps
    )
    known = posterior(planned.model, planned.values)
    runs = [
        planned.passed(planned.draw(D, planned.trials.generator(D, i)), known).path
        for i in range(trials)
    ]
    return {n: np.array([r[n] for r in runs]) for n in runs[0]}, state_evolution.state_evolution(
        planned.model, planned.values, steps
    )


def agree(found: dict[str, np.ndarray], expected: dict[str, np.ndarray], limit: float) -> None:
    for name, values in found.items():
        theory = expected[state_evolution.PAIRS[name]]
        error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
        assert np.all(np.abs(values.mean(axis=0) - theory)[1:] <= limit * error[1:] + 1e-12), (
            name,
            values.mean(axis=0),
            theory,
            error,
        )


@pytest.mark.parametrize(
    "changes", [pytest.param({}, id="spiked"), pytest.param(MAX, id="max", marks=pytest.mark.slow)]
)
def test_message_passing_follows_state_evolution_small(changes: dict[str, Any]) -> None:
    agree(*paths(300, 12, 5, **changes), limit=4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [{}, MAX, MAX | {"nu": 2}], ids=["spiked", "max", "max, finite nu"]
)
def test_message_passing_follows_state_evolution(changes: dict[str, Any]) -> None:
    """t = 1..10 at D = 2000 within three standard errors."""
    agree(*paths(2000, 10, 10, **changes), limit=3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [{"alpha": 1.4}, {"alpha": 2.5}, MAX | {"alpha": 2.0}],
    ids=["spiked 1.4", "spiked 2.5", "max"],
)
def test_low_noise_converges(changes: dict[str, Any]) -> None:
    """Delta = 1e-3, D = 2000; spiked: inside and beyond the region where the messages oscillate
    undamped.
    """
    planned = EXPERIMENTS["slr-bayes"].planned(
        {"nu": 1} | changes | {"L": 4, "Delta": 1e-3}, sizes="2000", trials=2
    )
    found = planned.passed(
        planned.draw(2000, planned.trials.generator(2000, 0)),
        posterior(planned.model, planned.values),
    )
    assert found.status is message_passing.Settled.CONVERGED, found.change


def test_statuses_and_bad_options() -> None:
    planned = EXPERIMENTS["slr-bayes"].planned(POINT, sizes="60", trials=2, steps=2)
    known = posterior(planned.model, planned.values)
    drawn = planned.draw(60, planned.trials.generator(60, 0))
    assert planned.passed(drawn, known).status is message_passing.Settled.MAX_STEPS
    drawn.y[0] = np.nan
    assert planned.passed(drawn, known).status is message_passing.Settled.NON_FINITE
    for wrong, says in (
        ({"damping": 1.0}, "damping"),
        ({"start": "warm"}, "start"),
        ({"steps": 0}, "steps"),
    ):
        with pytest.raises(InputError, match=says):
            EXPERIMENTS["slr-bayes"].planned(POINT, **wrong)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, MAX | {"alpha": 3.0}], ids=["spiked", "max"])
def test_command_agrees(changes: dict[str, Any]) -> None:
    settings = [
        part for name, value in (POINT | changes).items() for part in ("--set", f"{name}={value}")
    ]
    result = CliRunner().invoke(
        app, ["check", "slr-bayes", *settings, "--D", "100,200", "--trials", "8"]
    )
    assert result.exit_code == 0, result.stdout + result.stderr
    assert "agree" in result.stdout and "mean number of steps" in result.stdout
