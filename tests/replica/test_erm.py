"""Trained attention: reference values, exact limits, both routes, input errors, the
command line.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import replica
from replica import InputError, Settings, Status
from replica.cli import app
from replica.models import resolve
from replica.sweeps.sweep import sweep
from replica.theories import theory_of
from replica.theories.trained.predictor import TrainedPredictor
from replica.theories.trained.proximal_map import proximal_map
from replica.theories.trained.sample_map import SampleMap

REFERENCE = Path("/work/shared/reference/slr_erm.csv")
POINT = {
    "activation": "softmax",
    "L": 2,
    "nu": 1,
    "Delta": 0.1,
    "lam_k": 0.1,
    "lam_v": 0.1,
    "alpha": 4,
}
CONTROLS = ("rule", "activation", "L", "nu", "Delta", "lam_k", "lam_v", "alpha")
# theory.md section 5 and shared/reference/slr_erm.csv: (options and controls), values, tolerance.
ROWS: list[tuple[dict[str, Any], dict[str, float], float]] = [
    (
        {
            "rule": "spiked",
            "activation": "softmax",
            "L": 2,
            "nu": 1,
            "Delta": 0.1,
            "lam_k": 0.1,
            "lam_v": 0.1,
            "alpha": 4,
        },
        {
            "m_k": 0.683,
            "q_k": 1.625,
            "V_k": 3.34,
            "m_v": 1.073,
            "q_v": 1.335,
            "V_v": 0.664,
            "risk": 0.717,
            "training_loss": 0.150,
        },
        0.02,
    ),
    (
        {
            "rule": "spiked",
            "activation": "linear",
            "L": 2,
            "nu": 1,
            "Delta": 0.1,
            "lam_k": 0.5,
            "lam_v": 0.5,
            "alpha": 3,
        },
        {
            "m_k": 0.215,
            "q_k": 0.354,
            "V_k": 1.029,
            "m_v": 0.467,
            "q_v": 0.328,
            "V_v": 0.293,
            "risk": 1.014,
            "training_loss": 0.150,
        },
        0.006,
    ),
    (
        {
            "rule": "spiked",
            "activation": "linear_pure",
            "L": 3,
            "nu": 2,
            "Delta": 0.05,
            "lam_k": 2,
            "lam_v": 2,
            "alpha": 4,
        },
        {
            "m_k": 0.364,
            "q_k": 0.2865,
            "V_k": 0.319,
            "m_v": 0.419,
            "q_v": 0.2865,
            "V_v": 0.276,
            "risk": 0.943,
            "training_loss": 0.362,
        },
        0.02,
    ),
    (
        {
            "rule": "max",
            "activation": "linear",
            "L": 3,
            "nu": "inf",
            "Delta": 0.1,
            "lam_k": 1,
            "lam_v": 1,
            "alpha": 3,
        },
        {
            "m_k": 0.264,
            "q_k": 0.2665,
            "V_k": 0.654,
            "m_v": 0.364,
            "q_v": 0.226,
            "V_v": 0.200,
            "risk": 1.067,
            "training_loss": 0.218,
        },
        0.012,
    ),
    (
        {
            "rule": "max",
            "activation": "softmax",
            "L": 3,
            "nu": "inf",
            "Delta": 0.1,
            "lam_k": 0.2,
            "lam_v": 0.3,
            "alpha": 3,
        },
        {
            "m_k": 0.810,
            "q_k": 1.163,
            "V_k": 2.25,
            "m_v": 0.968,
            "q_v": 1.171,
            "V_v": 0.971,
            "risk": 0.658,
            "training_loss": 0.1615,
        },
        0.012,
    ),
]
SLOW = pytest.mark.slow


def found(branch: replica.Branch) -> dict[str, float]:
    return {**branch.overlaps, **branch.observables}


@pytest.mark.parametrize(
    ("given", "expected", "tolerance"),
    [pytest.param(*r, marks=() if r[0]["activation"] == "linear" else SLOW) for r in ROWS],
    ids=lambda v: (
        "-".join(map(str, list(v.values())[:2])) if isinstance(v, dict) and "rule" in v else ""
    ),
)
def test_reference_rows(
    given: dict[str, Any], expected: dict[str, float], tolerance: float
) -> None:
    solution = replica.solve("slr-erm", settings=Settings(accuracy=1e-2), **given)
    assert solution.best == 0
    branch = solution.branches[0]
    assert branch.ok
    # Beyond the reference's own tolerance only where our error bar says so (the larger is theirs or
    # ours).
    wrong = {
        k: (found(branch)[k], v)
        for k, v in expected.items()
        if abs(found(branch)[k] - v) > max(tolerance, 2 * branch.error[k])
    }
    assert not wrong, wrong


def test_energies_are_sorted_and_the_lower_one_is_the_reference_for_linear_pure() -> None:
    solution = replica.solve("slr-erm", **ROWS[2][0])
    energies = [b.free_energy for b in solution.branches]
    assert energies == sorted(energies) and len(energies) == 2
    assert (
        "informed" in solution.branches[0].start
        and solution.branches[0].status is Status.SUCCESSFUL
    )
    assert (
        solution.branches[1].status is Status.RS_UNSTABLE
        and solution.branches[1].observables["replicon"] > 1
    )


@SLOW
def test_unstable_point_says_that_simulations_will_disagree() -> None:
    solution = replica.solve(
        "slr-erm", activation="linear_pure", L=2, nu=1, Delta=0.1, lam_k=1, lam_v=1, alpha=3
    )
    branch = solution.branches[0]
    assert branch.status.value == "RS unstable: expect disagreement with simulation"
    assert branch.observables["replicon"] == pytest.approx(7.8, abs=4)
    assert branch.overlaps["q_k"] == pytest.approx(0.525, abs=0.005)
    assert branch.observables["training_loss"] == pytest.approx(0.176, abs=0.005)


def test_one_token_is_ridge_regression() -> None:
    """V = 1/(lam + alpha/(1 + V)), and m, q, risks in closed form (numbers: shared/faults.md)."""
    solution = replica.solve(
        "slr-erm", activation="softmax", L=1, nu=1, Delta=0.5, lam_k=0.3, lam_v=0.1, alpha=2
    )
    (branch,) = solution.branches
    exact = {
        "V_v": 0.8442887702,
        "m_v": 0.9155711230,
        "q_v": 1.2041995748,
        "risk": 0.8730573289,
        "training_loss": 0.2566757967,
    }
    assert {k: found(branch)[k] for k in exact} == pytest.approx(exact, abs=1e-8)
    assert branch.overlaps["V_k"] == pytest.approx(1 / 0.3, abs=1e-12)
    assert branch.overlaps["q_k"] == pytest.approx(0, abs=1e-12)


def ensemble(given: dict[str, Any], level: int = 8) -> SampleMap:
    model, values = resolve("slr-erm", given)
    theory = theory_of(model)
    assert isinstance(theory, TrainedPredictor)
    c = theory.control_vector(values)
    return SampleMap(model, theory.data(c, level), 1, c)


@pytest.mark.slow
def test_frozen_keys_leave_ridge_regression_on_attended_tokens() -> None:
    """At m_k = q_k = 1, V_k -> 0: V_v = 1/(lam + alpha E[S/(1 + V_v S)]), S = |s|^2, by the linear
    response (exact) form.
    """
    given = POINT | {"lam_k": 1e9}
    here = ensemble(given, 9)
    x = np.array([1.0, 1.0, 1e-9, 0.8, 1.0, 0.6])
    parts, c = here._parts, here._c
    (data,) = here._flat
    minima = here.search(x, here.unknown())
    at = parts.channel(jnp.array(x), c, data)
    weights = parts.attend(c)(at.key, at.present)
    square = jnp.sum(weights**2, axis=0)
    response = parts.response(
        jnp.array(x), c, data, minima.found[0], (minima.changed[0], minima.failed[0])
    )
    np.testing.assert_allclose(-response.divergence[1], square / (1 + 0.6 * square), rtol=1e-6)
    _, z = parts.minimiser(at, c, minima.found[0])
    force = (at.label - jnp.sum(weights * at.value, axis=0)) * weights / (1 + 0.6 * square)
    np.testing.assert_allclose((z - at.value) / 0.6, force, atol=1e-6)


@pytest.mark.slow
def test_the_jacobian_is_the_derivative_of_the_map() -> None:
    for activation in ("softmax", "linear"):
        here = ensemble(POINT | {"activation": activation}, 7)
        x = np.array([0.5, 1.2, 0.9, 0.7, 1.1, 0.5])
        minima = here.search(x, here.unknown())
        slope, step = here.slope(x, minima), 1e-6
        for i in range(6):
            move = step * np.eye(6)[i]
            difference = (here.image(x + move, minima)[0] - here.image(x - move, minima)[0]) / (
                2 * step
            )
            np.testing.assert_allclose(slope[:, i], difference, rtol=2e-5, atol=2e-6)


@pytest.mark.slow
def test_affine_route_and_generic_newton_agree_on_the_same_samples() -> None:
    given = POINT | {"activation": "linear", "lam_k": 0.5, "lam_v": 0.5}
    here = ensemble(given, 7)
    x = np.array([0.2, 0.4, 0.9, 0.5, 0.4, 0.3])
    exact, _ = here.image(x, here.search(x, here.unknown()))
    parts = proximal_map(*(here._parts.model, here._parts.tokens))
    generic = type(parts)(parts.model, parts.tokens)
    object.__setattr__(generic, "affine", None)
    (data,), c = here._flat, here._c
    found, _, failed = generic.search(jnp.array(x), c, data, generic.unknown(data))
    averages = generic.averages(jnp.array(x), c, data, found, generic.closing.first)
    assert not np.any(failed)
    np.testing.assert_allclose(generic.closing.update(jnp.array(x), averages, c), exact, rtol=1e-8)


def test_energy_is_the_free_energy_at_the_fixed_point() -> None:
    (branch,) = replica.solve("slr-erm", **ROWS[1][0]).branches
    assert branch.observables["energy"] == pytest.approx(branch.free_energy, abs=1e-8)
    assert branch.observables["generalisation_gap"] == pytest.approx(
        branch.observables["risk"] - branch.observables["training_loss"]
    )
    assert branch.residual <= 1e-10


def test_errors_cover_the_change_on_other_samples() -> None:
    """The reported error (two standard errors) against what five times as many samples say."""
    coarse, fine = (
        replica.solve("slr-erm", settings=Settings(accuracy=a), **ROWS[1][0]).branches[0]
        for a in (0.05, 0.004)
    )
    ratios = [
        abs(found(coarse)[k] - found(fine)[k]) / coarse.error[k]
        for k in ("m_k", "q_k", "m_v", "q_v", "risk", "training_loss")
    ]
    assert fine.level > coarse.level
    assert max(ratios) < 2.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lam_k": 0}, "lam_k > 0"),
        ({"lam_v": -1}, "lam_v > 0"),
        ({"nu": -1}, "nu >= 0"),
        ({"nu": "inf"}, "not finite"),
        ({"nu": "nan", "rule": "max"}, "not finite"),
        ({"L": 1.5}, "an integer"),
        ({"activation": "softmx"}, "did you mean softmax"),
        ({"rule": "maximum"}, "did you mean max"),
        ({"offset": 1}, "no control 'offset'"),
        ({"beta": 0}, "beta > 0"),
    ],
)
def test_bad_input(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replica.solve("slr-erm", **(POINT | change))


def test_command_line_prints_the_equations_and_one_json_object() -> None:
    runner = CliRunner()
    shown = runner.invoke(app, ["show", "slr-erm", "--set", "activation=softmax"]).output
    for name in ("m_k_hat =", "q_k_hat =", "V_k_hat =", "m_v =", "q_v =", "V_v ="):
        assert name in shown
    assert "\\mathbb E" in runner.invoke(app, ["show", "slr-erm", "--latex"]).output
    given = [f"--set={k}={v}" for k, v in ROWS[3][0].items()]
    result = json.loads(
        runner.invoke(app, ["solve", "slr-erm", *given, "--json", "--accuracy", "0.05"]).output
    )
    assert result["controls"]["nu"] == "inf" and result["options"] == {
        "activation": "linear",
        "rule": "max",
    }
    branch = result["branches"][0]
    assert {"risk", "training_loss", "energy", "replicon", "attention_mass"} <= set(
        branch["observables"]
    )
    assert {"m_k", "q_k", "V_k", "m_v", "q_v", "V_v"} == set(branch["overlaps"])


def test_sweep_warm_started_in_alpha() -> None:
    given = {k: v for k, v in ROWS[1][0].items() if k != "alpha"}
    result = sweep(
        "slr-erm",
        over={"alpha": [2.0, 3.0]},
        warm="alpha",
        settings=Settings(accuracy=0.05),
        progress=False,
        **given,
    )
    single = replica.solve("slr-erm", settings=Settings(accuracy=0.05), **ROWS[1][0]).branches[0]
    at = result.sel(alpha=3.0, branch="uninformed")
    assert float(at.risk) == pytest.approx(single.observables["risk"], abs=float(at.error_risk))
    assert np.all(result.status == 0)


def test_eval_asks_for_every_overlap() -> None:
    with pytest.raises(InputError, match="needs m_k, q_k, V_k, m_v, q_v, V_v: give it with"):
        replica.evaluate("slr-erm", {}, **POINT)


@SLOW
@pytest.mark.skipif(not REFERENCE.exists(), reason="the shared reference is not on this machine")
def test_rows_here_are_those_of_the_shared_file() -> None:
    with REFERENCE.open(encoding="utf-8") as file:
        rows = {tuple(r[k] for k in CONTROLS): r for r in csv.DictReader(file)}
    for given, expected, tolerance in ROWS:
        row = rows[tuple(str(given[k]) for k in CONTROLS)]
        assert float(row["abs_tol"]) == tolerance
        assert {
            k: float(row[{"risk": "test", "training_loss": "train"}.get(k, k)]) for k in expected
        } == expected
