"""Data, fits and measurements at finite D, each against a second route."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from replica import InputError
from replica.models import resolve
from replica.simulate import data, erm, measure
from replica.simulate.attention import attention

POINT = {
    "activation": "linear",
    "L": 2,
    "nu": 1,
    "Delta": 0.1,
    "lam_k": 0.5,
    "lam_v": 0.5,
    "alpha": 3,
}


def setting(**changes: Any) -> tuple[Any, dict[str, float], Any]:
    model, values = resolve("slr-erm", POINT | changes)
    return model, values, attention(model, values, int(values["L"]))


def objective(D: int = 60, **changes: Any) -> erm.Objective:
    model, values, sigma = setting(**changes)
    drawn = data.draw(
        np.random.default_rng(3),
        model.options["rule"],
        D,
        int(values["L"]),
        values["alpha"],
        values["nu"],
        values["Delta"],
    )
    return erm.Objective(drawn, erm.programs(sigma), (values["lam_k"], values["lam_v"]))


@pytest.mark.parametrize(("rule", "nu"), [("spiked", 4.0), ("max", 2.0), ("max", np.inf)])
def test_data_have_the_law_of_the_model(rule: str, nu: float) -> None:
    drawn = data.draw(np.random.default_rng(0), rule, 400, 3, 20, nu, 0.25)
    again = data.draw(np.random.default_rng(0), rule, 400, 3, 20, nu, 0.25)
    assert np.array_equal(drawn.x, again.x) and np.array_equal(drawn.y, again.y)
    assert (drawn.N, drawn.L, drawn.D, drawn.x.dtype) == (8000, 3, 400, np.float64)
    chi, z = drawn.fields(drawn.k_star, drawn.v_star)
    each = np.arange(drawn.N)
    noise = drawn.y - z[drawn.location, each]
    assert np.var(noise) == pytest.approx(0.25, rel=0.06) and abs(noise.mean()) < 0.02
    size = float(drawn.k_star @ drawn.k_star) / 400
    if rule == "spiked":
        assert chi[drawn.location, each].mean() == pytest.approx(np.sqrt(nu) * size, abs=0.05)
        assert np.bincount(drawn.location) == pytest.approx(
            np.full(3, drawn.N / 3), abs=5 * np.sqrt(drawn.N)
        )
    elif np.isinf(nu):
        assert np.array_equal(drawn.location, chi.argmax(axis=0))
    else:
        weight = np.exp(nu * chi) / np.exp(nu * chi).sum(axis=0)
        assert np.mean(chi[drawn.location, each]) == pytest.approx(
            np.mean((weight * chi).sum(axis=0)), abs=0.05
        )
        assert np.mean(weight[drawn.location, each]) == pytest.approx(
            np.mean((weight**2).sum(axis=0)), abs=0.02
        )


def test_memory_is_announced_and_refused() -> None:
    assert data.memory(4, 4, 2000) == pytest.approx(8 * 8000 * 4 * 2000, rel=0.05)
    with pytest.raises(InputError, match="use a smaller --D or alpha"):
        data.check_memory(1e6, 10, 10**6)


@pytest.mark.parametrize("activation", ["softmax", "linear", "erf"])
def test_gradient_and_curvature_against_differences(activation: str) -> None:
    at = objective(30, activation=activation, L=3)
    rng = np.random.default_rng(1)
    w, p = rng.standard_normal((2, 60))
    step = 1e-5
    up, down = at(w + step * p), at(w - step * p)
    assert at(w)[1] @ p == pytest.approx((up[0] - down[0]) / (2 * step), rel=1e-6)
    assert at.curvature(w, p) == pytest.approx((up[1] - down[1]) / (2 * step), rel=1e-5, abs=1e-5)


def test_attention_is_that_of_the_formula() -> None:
    chi = np.random.default_rng(2).standard_normal((3, 5))
    assert setting(activation="softmax", L=3, beta=2)[2](jnp.asarray(chi)) == pytest.approx(
        np.exp(2 * chi) / np.exp(2 * chi).sum(axis=0)
    )
    assert setting(activation="linear", L=3)[2](jnp.asarray(chi)) == pytest.approx(1 + chi)


def test_all_methods_reach_one_minimum() -> None:
    """Linear attention with a strong ridge has one valley: every method and start must agree."""
    at = objective(40, lam_k=2, lam_v=2)
    rng = np.random.default_rng(5)
    fits = [
        erm.minimise(at, erm.start(kind, at.data, rng), method)
        for method in erm.METHODS
        for kind in ("random", "informed")
    ]
    assert {f.status for f in fits} == {erm.Ended.CONVERGED}
    assert max(f.gradient_norm for f in fits) <= erm.TOLERANCE
    assert [f.objective for f in fits] == pytest.approx([fits[0].objective] * len(fits), abs=1e-9)
    assert min(f.steps for f in fits) > 3


def test_statuses_are_honest() -> None:
    at = objective(30, activation="linear_pure")
    zero = erm.minimise(at, np.zeros(60))
    assert zero.status is erm.Ended.SADDLE and zero.steps == 0
    few = erm.minimise(at, erm.start("random", at.data, np.random.default_rng(0)), max_steps=3)
    assert few.status is erm.Ended.MAX_STEPS and few.gradient_norm > erm.TOLERANCE
    assert erm.minimise(at, np.full(60, np.nan)).status is erm.Ended.NON_FINITE
    good = erm.minimise(at, erm.start("informed", at.data, np.random.default_rng(0)))
    again = erm.minimise(at, np.concatenate([good.k, good.v]))
    assert good.ok and again.ok  # a start that is the minimum is converged, not stalled
    exact = erm.minimise(at, erm.start("informed", at.data, np.random.default_rng(0)), tol=1e-18)
    assert exact.status is erm.Ended.STALLED


def test_test_risk_in_the_projected_space_is_that_of_fresh_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Weights that overlap with everything; fresh D-dimensional tokens as second route."""
    for rule, nu in (("spiked", 2.0), ("max", np.inf)):
        _, _, sigma = setting(activation="softmax", L=3, rule=rule, nu=nu)
        predict = measure.predictor(sigma)
        rng = np.random.default_rng(7)
        fresh = data.draw(rng, rule, 50, 3, 600, nu, 0.0)
        mix = rng.standard_normal(50)
        k, v = (
            fresh.k_star + 0.5 * fresh.v_star + 0.3 * mix,
            fresh.v_star - 0.4 * fresh.k_star + 0.3 * mix,
        )
        residual = fresh.y - np.asarray(predict(*fresh.fields(k, v)))
        error = np.std(residual**2) / np.sqrt(fresh.N)
        risk = measure.test_risk(rng, predict, fresh, k, v, rule, nu, 0.1)
        monkeypatch.setattr(measure, "FIELDS", 3 * 10_000)  # in blocks
        blocks = measure.test_risk(rng, predict, fresh, k, v, rule, nu, 0.1)
        assert blocks == pytest.approx(risk, abs=5 * error)
        assert risk - 0.1 == pytest.approx(np.mean(residual**2), abs=5 * error)


def test_equivalent_minimisers_are_told_apart_by_the_teacher() -> None:
    at = objective(20, activation="linear_pure")
    predict = measure.predictor(setting(activation="linear_pure")[2])
    found = measure.symmetry(predict, 2)
    assert found == measure.Symmetry(flip=True, swap=True)
    k, v = found.aligned(at.data, -2 * at.data.v_star, -0.5 * at.data.k_star, (1.0, 1.0))
    assert k == pytest.approx(0.5 * at.data.k_star) and v == pytest.approx(2 * at.data.v_star)
    assert measure.symmetry(
        measure.predictor(setting(activation="softmax")[2]), 2
    ) == measure.Symmetry(flip=False, swap=False)
