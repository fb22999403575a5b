"""slr-bayes: reference values, limits, stationarity of the free entropy, and the second route."""

import csv
import dataclasses
from pathlib import Path

import numpy as np
import pytest
import sympy as sp

import replica
from equations import MODELS, derive
from equations.slr.data import SPIKE
from replica import Settings, Status
from replica.runtime.programs import STORE

DATA = Path(__file__).parents[1] / "data"
ROWS = list(csv.DictReader((DATA / "slr_bayes_spiked.csv").open()))


def solve(**controls: float) -> replica.Solution:
    return replica.solve("slr-bayes", **controls)


@pytest.mark.parametrize(
    "row", ROWS, ids=lambda r: "L={L} nu={nu} Delta={Delta} alpha={alpha} {start}".format(**r)
)
def test_reference_fixed_points(row: dict[str, str]) -> None:
    solution = solve(**{k: float(row[k]) for k in ("L", "nu", "Delta", "alpha")})
    starts = ("uninformed", "informed") if row["start"] == "both" else (row["start"],)
    for start in starts:
        branch = solution.branch(start)
        assert branch.status is Status.SUCCESSFUL
        for name in ("q_k", "q_v"):
            assert branch.overlaps[name] == pytest.approx(float(row[name]), abs=1e-6)
            assert branch.error[name] < 1e-6
        assert branch.free_energy == pytest.approx(float(row["free_entropy"]), abs=1e-6)
        assert branch.residual <= 1e-10
    if row["start"] == "both":
        assert len(solution.branches) == 1, "equal branches are merged"


def test_two_branches_between_the_spinodals() -> None:
    setting = {"L": 4, "nu": 1, "Delta": 1e-4}
    for alpha, count in ((1.1569, 1), (1.1579, 2), (1.6840, 2), (1.6850, 1)):
        assert len(solve(alpha=alpha, **setting).branches) == count, alpha
    gaps = []
    for alpha in (1.3238, 1.3248):
        solution = solve(alpha=alpha, **setting)
        gaps.append(
            solution.branch("informed").free_energy - solution.branch("uninformed").free_energy
        )
    crossing = np.interp(0.0, gaps, (1.3238, 1.3248))
    assert gaps[0] < 0 < gaps[1]
    assert crossing == pytest.approx(1.32427, abs=3e-5)


def test_best_is_the_larger_free_entropy_and_both_risks_are_named() -> None:
    solution = solve(alpha=1.4, L=4, nu=1, Delta=1e-4)
    assert solution.best is not None
    assert solution.branches[solution.best].start == "informed"
    assert solution.risks["information_theoretic"] < solution.risks["algorithmic"]
    assert solve(alpha=1.2, L=4, nu=1, Delta=1e-4).risks["information_theoretic"] == pytest.approx(
        solve(alpha=1.2, L=4, nu=1, Delta=1e-4).risks["algorithmic"]
    )


@pytest.mark.parametrize(
    ("L", "nu", "Delta"),
    [(2, 1.0, 0.1), (4, 2.0, 0.5), pytest.param(50, 3.0, 0.01, marks=pytest.mark.slow)],
)
def test_small_sample_limit(L: int, nu: float, Delta: float) -> None:
    alpha = 1e-4
    hats = solve(alpha=alpha, L=L, nu=nu, Delta=Delta).branch("uninformed").conjugates
    assert hats["q_k_hat"] == pytest.approx(alpha * nu / L, rel=2e-3)
    assert hats["q_v_hat"] == pytest.approx(alpha / (L * (1 + Delta)), rel=2e-3)


@pytest.mark.parametrize("nu", [0.5, 2.0])
def test_large_sample_limit_is_the_population_bayes_risk(nu: float) -> None:
    branch = solve(alpha=1e4, L=3, nu=nu, Delta=0.2).branch("informed")
    population = replica.solve(
        "slr-population", activation="bayes", L=3, nu=nu, Delta=0.2
    ).branches[0]
    assert branch.observables["population_bayes_risk"] == pytest.approx(
        population.observables["risk"], abs=1e-9
    )
    assert 0 < branch.observables["risk"] - population.observables["risk"] < 2e-3


@pytest.mark.parametrize(("alpha", "nu", "Delta"), [(0.7, 1.5, 0.3), (3.0, 0.4, 0.01)])
def test_one_token_is_ridge_regression(alpha: float, nu: float, Delta: float) -> None:
    """L = 1: q_k_hat = alpha nu, and q_v_hat = alpha/(1 - q_v + Delta) (Bayes linear
    regression).
    """
    branch = solve(alpha=alpha, L=1, nu=nu, Delta=Delta).branch("uninformed")
    assert branch.conjugates["q_k_hat"] == pytest.approx(alpha * nu, abs=1e-8)
    # q = q_hat/(1 + q_hat), q_hat = alpha/(1 - q + Delta): a quadratic equation in 1 - q.
    b = alpha + Delta - 1
    v = (-b + np.sqrt(b**2 + 4 * Delta)) / 2
    assert branch.overlaps["q_v"] == pytest.approx(1 - v, abs=1e-8)
    assert branch.observables["risk"] == pytest.approx(v + Delta, abs=1e-8)


def gradient(
    model: object, branch: replica.Branch, controls: dict[str, float], steps: dict[str, float]
) -> dict[str, float]:
    """Finite-difference gradient of the lowered Phi(q, q_hat(q)) in the overlaps."""
    result = {}
    for name, step in steps.items():
        ends = []
        for sign in (1, -1):
            at = branch.overlaps | {name: branch.overlaps[name] + sign * step}
            ends.append(replica.evaluate(model, at, **controls)["free_entropy"])
        result[name] = (ends[0] - ends[1]) / (2 * step)
    return result


CONTROLS = {"alpha": 1.4, "L": 4, "nu": 1, "Delta": 0.01}
STEPS = {"q_k": 1e-4, "q_v": 1e-4}


def test_fixed_points_are_stationary_for_the_free_entropy() -> None:
    solution = solve(**CONTROLS)
    for branch in solution.branches:
        for name, slope in gradient("slr-bayes", branch, CONTROLS, STEPS).items():
            assert abs(slope) < 1e-6, name


def test_a_wrong_coefficient_is_not_stationary() -> None:
    """A model whose equations belong to another free energy converges all the same; stationarity
    sees it.
    """
    model = MODELS["slr-bayes"].build()
    wrong = dataclasses.replace(
        model,
        name="wrong",
        theory=dataclasses.replace(
            model.theory,
            rewrite=lambda e: model.theory.rewrite(e).subs(
                SPIKE.symbol, sp.Rational(11, 10) * SPIKE.symbol
            ),
        ),
    )
    branch = replica.solve(wrong, **CONTROLS).branches[0]
    assert branch.ok
    slopes = gradient("slr-bayes", branch, CONTROLS, STEPS)
    assert max(abs(s) for s in slopes.values()) > 1e-3


@pytest.mark.slow
def test_sampled_route_agrees_with_the_exact_one() -> None:
    settings = Settings(route="sampled", accuracy=1e-2, tol=1e-7)
    controls = {"alpha": 1.0, "L": 3, "nu": 1, "Delta": 0.1}
    sampled = replica.solve("slr-bayes", settings=settings, **controls).branch("informed")
    exact = solve(**controls).branch("informed")
    assert sampled.ok
    for name, value in exact.overlaps.items():
        assert sampled.error[name] < 5e-3
        assert abs(sampled.overlaps[name] - value) < 2 * sampled.error[name] + 1e-6
    assert sampled.free_energy == pytest.approx(exact.free_energy, abs=3e-3)


def test_nishimori_form_of_the_channel_by_sampling() -> None:
    """q_k_hat = alpha nu E[sum s_l^2] and q_v_hat = alpha E[sum s_l^2 (y - omega_v,l)^2]/V^2,
    planted samples.
    """
    alpha, length, nu, delta = 1.4, 4, 1.0, 0.01
    q_k, q_v = 0.4, 0.6
    width = 1 - q_v + delta
    rng = np.random.default_rng(0)
    n = 400_000
    key = np.sqrt(q_k) * rng.standard_normal((n, length))
    key[:, 0] += np.sqrt(nu) * q_k
    value = np.sqrt(q_v) * rng.standard_normal((n, length))
    label = value[:, 0] + np.sqrt(width) * rng.standard_normal(n)
    log_weight = np.sqrt(nu) * key - (label[:, None] - value) ** 2 / (2 * width)
    s = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    s /= s.sum(axis=1, keepdims=True)
    terms = {
        "q_k_hat": alpha * nu * (s**2).sum(axis=1),
        "q_v_hat": alpha * (s**2 * (label[:, None] - value) ** 2).sum(axis=1) / width**2,
    }
    hats = replica.evaluate(
        "slr-bayes", {"q_k": q_k, "q_v": q_v}, alpha=alpha, L=length, nu=nu, Delta=delta
    )["conjugates"]
    for name, sample in terms.items():
        assert abs(hats[name] - sample.mean()) < 4 * sample.std() / np.sqrt(n), name


def test_zero_spike_carries_no_key_information() -> None:
    branch = solve(alpha=2.0, L=3, nu=0, Delta=0.1).branch("uninformed")
    assert branch.overlaps["q_k"] == pytest.approx(0, abs=1e-9)
    assert branch.observables["attention_mass"] == pytest.approx(1 / 3, abs=1e-9)


def test_cost_does_not_grow_with_the_length() -> None:
    small, large = (
        solve(alpha=3.0, L=length, nu=6, Delta=0.1).branches[0] for length in (2, 10_000)
    )
    assert large.ok
    assert large.error["q_k"] < 1e-6
    assert large.steps <= small.steps + 5
    assert derive(MODELS["slr-bayes"].build()).keys() == {
        sp.Symbol("q_k_hat", real=True),
        sp.Symbol("q_v_hat", real=True),
        *(q.symbol for q in MODELS["slr-bayes"].build().overlaps),
    }


@pytest.mark.slow
def test_at_most_twenty_evaluations_away_from_spinodals() -> None:
    for controls in (
        {"alpha": 1.0, "L": 4, "nu": 1, "Delta": 0.01},
        {"alpha": 3.0, "L": 16, "nu": 1, "Delta": 0.01},
        {"alpha": 1.4, "L": 4, "nu": 1, "Delta": 1e-4},
    ):
        for branch in replica.solve("slr-bayes", settings=Settings(tol=1e-6), **controls).branches:
            assert branch.steps <= 20


def test_one_compilation_serves_other_controls_tolerances_and_sweeps() -> None:
    """Whatever is no structure is an argument: nothing is compiled after the first solve."""
    solve(**CONTROLS)
    before = STORE.compilations
    for alpha in np.linspace(0.5, 1.0, 3):
        solve(**(CONTROLS | {"alpha": alpha}))
    for nu in (0.5, 2.0, 4.0, 10.0):
        solve(**(CONTROLS | {"nu": nu}))
    for settings in (Settings(tol=1e-7), Settings(damping=0.2), Settings(max_steps=50)):
        replica.solve("slr-bayes", settings=settings, **CONTROLS)
    grid = {"alpha": np.linspace(0.5, 1.0, 3)}
    replica.sweep("slr-bayes", over=grid, **{k: v for k, v in CONTROLS.items() if k != "alpha"})
    assert STORE.compilations == before
