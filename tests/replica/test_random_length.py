"""Simulations of sequences of random length: absent tokens are zero, and are seen by nobody."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import replica
from replica.models import resolve
from replica.simulate import data, erm, measure
from replica.simulate.attention import attention
from replica.simulate.posterior import posterior

LENGTHS = ((1, 0.25), (3, 0.75))
LAW = {"L": "1:1/4,3:3/4"}
BAYES = {"nu": 1, "Delta": 0.1, "alpha": 1.5} | LAW
ERM = {"nu": 1, "Delta": 0.1, "lam_k": 0.5, "lam_v": 0.5, "alpha": 3} | LAW


def drawn(
    rule: str = "spiked", nu: float = 2.0, D: int = 40, alpha: float = 100, Delta: float = 0.1
) -> data.Data:
    return data.draw(np.random.default_rng(2), rule, D, 3, alpha, nu, Delta, LENGTHS)


@pytest.mark.parametrize(("rule", "nu"), [("spiked", 2.0), ("max", 2.0), ("max", np.inf)])
def test_data_have_the_law_of_the_length(rule: str, nu: float) -> None:
    found = drawn(rule, nu)
    assert found.present is not None
    length = found.present.sum(axis=0)
    assert set(length) == {1, 3} and np.mean(length == 1) == pytest.approx(0.25, abs=0.03)
    assert np.all(found.location < length)
    tokens = found.x.reshape(found.N, 3, -1)
    assert np.all(tokens[length == 1, 1:] == 0) and np.all(tokens[:, 0] != 0)
    chi, _ = found.fields(found.k_star, found.v_star)
    if np.isinf(nu):
        assert np.array_equal(
            found.location, np.where(found.present > 0, chi, -np.inf).argmax(axis=0)
        )
    else:
        assert np.bincount(found.location[length == 3]).min() > 500


@pytest.mark.parametrize("activation", ["softmax", "linear", "softplus"])
def test_the_loss_is_that_of_the_lengths_one_by_one(activation: str) -> None:
    found = drawn(alpha=2)
    model, values = resolve("slr-erm", ERM | {"activation": activation})
    at = erm.Objective(found, erm.programs(attention(model, values, 3)), (0.5, 0.5))
    rng = np.random.default_rng(1)
    w, p = rng.standard_normal((2, 80))
    chi, z = found.fields(*np.split(w, 2))
    assert found.present is not None
    total = 0.0
    for length in (1, 3):
        plain, fixed = resolve("slr-erm", ERM | {"activation": activation, "L": length})
        chosen = found.present.sum(axis=0) == length
        sigma = np.asarray(attention(plain, fixed, length)(chi[:length, chosen]))
        total += 0.5 * np.sum((found.y[chosen] - (sigma * z[:length, chosen]).sum(axis=0)) ** 2)
    value, gradient = at(w)
    assert value == pytest.approx(total + 0.25 * w @ w, rel=1e-12)
    assert gradient @ p == pytest.approx(
        (at(w + 1e-5 * p)[0] - at(w - 1e-5 * p)[0]) / 2e-5, rel=1e-6
    )


def test_messages_ignore_absent_tokens() -> None:
    model, values = resolve("slr-bayes", BAYES)
    short, fixed = resolve("slr-bayes", BAYES | {"L": 2})
    omega_k, omega_v = np.random.default_rng(3).standard_normal((2, 3, 5))
    y, present = np.ones(5), np.ones((3, 5))
    present[2] = 0.0
    masked = posterior(model, values).channel(omega_k, omega_v, y, present, 0.6, 0.3)
    plain = posterior(short, fixed).channel(omega_k[:2], omega_v[:2], y, None, 0.6, 0.3)
    for one, other in zip(masked[:2], plain[:2], strict=True):
        assert one[:2] == pytest.approx(other) and np.all(np.asarray(one)[2] == 0)
    assert float(masked[2]) == pytest.approx(float(plain[2]))
    assert posterior(model, values).predict(omega_k, omega_v, present, 0.6) == pytest.approx(
        posterior(short, fixed).predict(omega_k[:2], omega_v[:2], None, 0.6)
    )


def test_the_test_risk_is_that_of_fresh_tokens() -> None:
    fresh = drawn(Delta=0.0)
    model, values = resolve("slr-erm", ERM | {"activation": "softmax"})
    predict = measure.predictor(attention(model, values, 3))
    residual = (
        fresh.y - np.asarray(predict(*fresh.fields(fresh.k_star, fresh.v_star), fresh.present))
    ) ** 2
    risk = measure.test_risk(
        np.random.default_rng(0),
        predict,
        fresh,
        fresh.k_star,
        fresh.v_star,
        "spiked",
        2.0,
        0.1,
        lengths=LENGTHS,
    )
    assert risk - 0.1 == pytest.approx(residual.mean(), abs=5 * residual.std() / np.sqrt(fresh.N))


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"activation": "linear"},
        {"activation": "softmax"},
        {"activation": "linear", "rule": "max", "nu": np.inf},
    ],
)
def test_trained_attention_agrees(changes: dict[str, Any]) -> None:
    report = replica.check("slr-erm", **ERM | changes, sizes="100,200,400", trials=10)
    assert report.agrees, report.verdict


@pytest.mark.slow
def test_message_passing_agrees() -> None:
    report = replica.check("slr-bayes", **BAYES, sizes="100,200,400", trials=10)
    assert report.agrees, report.verdict
