"""The bridge between trained attention at finite D and its theory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import replica
from replica import InputError
from replica.check import EXPERIMENTS, Asked, fits
from replica.check.report import Report, compare_sizes, intercept
from replica.check.trials import read_trials
from replica.cli import app
from replica.cli.check import run_check
from replica.jobs.run import JobOptions

LINEAR = {
    "activation": "linear",
    "L": 2,
    "nu": 1,
    "Delta": 0.1,
    "lam_k": 0.5,
    "lam_v": 0.5,
    "alpha": 3,
}


def arguments(given: dict[str, Any]) -> list[str]:
    return [part for name, value in given.items() for part in ("--set", f"{name}={value}")]


def test_extrapolation_recovers_a_line_and_its_error() -> None:
    sizes, error = np.array([100.0, 200.0, 400.0]), np.array([0.02, 0.02, 0.01])
    assert intercept(sizes, 0.7 + 3 / sizes, error)[0] == pytest.approx(0.7)
    rng = np.random.default_rng(0)
    found = [
        intercept(sizes, 0.7 + 3 / sizes + error * rng.standard_normal(3), error)
        for _ in range(2000)
    ]
    assert np.std([a for a, _ in found]) == pytest.approx(found[0][1], rel=0.05)
    assert intercept(sizes, 0 * sizes, 0 * sizes) == (0.0, 0.0)
    assert compare_sizes("x", {100: [0.0, 0.0], 200: [0.0, 0.0]}, 0.0).z == 0
    assert np.isnan(intercept(sizes, sizes, np.array([0.1, 0.0, 0.1]))).all()


def test_z_is_that_of_the_extrapolation_and_holds_the_error_of_the_theory() -> None:
    samples = {d: 1 + 5 / d + 0.01 * np.array([-1.0, 0.0, 1.0]) for d in (100, 400)}
    plain, wider = (
        compare_sizes("x", samples, 1.0),
        compare_sizes("x", samples, 1.0, theory_error=1.0),
    )
    assert abs(plain.z) < 1e-6 < (plain.mean - 1) / plain.standard_error
    assert plain.extrapolated == pytest.approx(1.0) and [s[0] for s in plain.sizes] == [100, 400]
    assert compare_sizes("x", samples, 2.0, 1.0).z == pytest.approx(
        -1 / np.hypot(1, wider.extrapolated_error)
    )
    single = compare_sizes("x", {400: samples[400]}, 1.0)
    assert single.z == pytest.approx((single.mean - 1) / single.standard_error) and np.isnan(
        single.extrapolated
    )


def test_problems_leave_no_verdict_and_reasons_are_quoted() -> None:
    good = compare_sizes("x", {10: [0.9, 1.1]}, 1.0)
    report = Report("m", {}, (good,), {}, problems=("1 of 2 fits: not converged",))
    assert (
        not report.agrees
        and report.verdict.startswith("no verdict")
        and "1 of 2 fits" in report.verdict
    )
    bad = Report(
        "m", {}, (compare_sizes("x", {10: [0.9, 1.1]}, 5.0),), {}, reasons=("RS unstable",)
    )
    assert "disagree" in bad.verdict and "RS unstable" in bad.verdict
    assert bad.to_dict()["reasons"] == ["RS unstable"]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"sizes": "100,big"}, "write sizes such as"),
        ({"sizes": "4"}, "too small"),
        ({"trials": 1}, "at least 2"),
        ({"seed": -1}, "negative"),
        ({"method": "lbgfs"}, "did you mean lbfgs"),
        ({"start": "warm"}, "start"),
    ],
)
def test_bad_options_are_one_sentence(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        EXPERIMENTS["slr-erm"].planned(LINEAR, **wrong)


def test_options_of_another_check_are_refused() -> None:
    with pytest.raises(InputError, match="has no --D"):
        run_check(Asked("subspace", {}), {"sizes": "100", "seed": 0}, False, JobOptions())
    with pytest.raises(InputError, match="has no --batch: it has --D"):
        run_check(Asked("slr-erm", {}), {"batch": 2}, False, JobOptions())


def test_trials_do_not_depend_on_each_other() -> None:
    few, many = (read_trials("50", trials, 3) for trials in (2, 5))
    assert few.generator(50, 1).standard_normal() == many.generator(50, 1).standard_normal()
    assert (
        few.generator(50, 0).standard_normal()
        != few.generator(50, 1).standard_normal()
        != few.generator(51, 1).standard_normal()
    )


def test_linear_attention_agrees_and_is_stored(tmp_path: Path) -> None:
    file = tmp_path / "check.h5"
    command = [
        "check",
        "slr-erm",
        *arguments(LINEAR),
        "--D",
        "60,120",
        "--trials",
        "6",
        "--json",
        "-o",
        str(file),
    ]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.stdout
    found = json.loads(result.stdout)
    rows = {row["name"]: row for row in found["comparisons"]}
    assert set(rows) == set(fits.MEASURED) and found["agrees"]
    assert all(
        abs(r["z"]) < 4 and {"theory", "mean", "standard_error", "extrapolated"} <= set(r)
        for r in rows.values()
    )
    assert rows["m_v"]["mean"] == pytest.approx(0.467, abs=0.15) and rows["training_loss"][
        "mean"
    ] == pytest.approx(0.15, abs=0.05)
    assert "takes" in result.stderr and "MB" in result.stderr
    stored = replica.load(file)
    assert stored["m_v"].shape == (2, 6, 2) and stored.attrs["kind"] == "check"
    assert float(stored["theory_m_v"].max()) == pytest.approx(rows["m_v"]["theory"])
    best = (
        stored["m_v"]
        .isel(size=1)
        .values[np.arange(6), stored["energy"].isel(size=1).values.argmin(axis=1)]
    )
    assert best.mean() == pytest.approx(rows["m_v"]["mean"])


def test_wrong_theory_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The theory of another noise level: exit code 1, the quantities named."""
    right, other = fits.lowest_energy, EXPERIMENTS["slr-erm"].planned(LINEAR | {"Delta": 1.0})
    monkeypatch.setattr(fits, "lowest_energy", lambda plan: right(other))
    result = CliRunner().invoke(
        app, ["check", "slr-erm", *arguments(LINEAR), "--D", "60,120", "--trials", "6"]
    )
    assert result.exit_code == 1
    assert "disagree" in result.stdout and "training_loss" in result.stdout


@pytest.mark.slow
def test_unstable_point_disagrees_and_says_why() -> None:
    given = {
        "activation": "linear_pure",
        "L": 2,
        "nu": 1,
        "Delta": 0.1,
        "lam_k": 1,
        "lam_v": 1,
        "alpha": 3,
    }
    report = replica.check("slr-erm", **given, sizes="100,200,400", trials=8)
    assert not report.agrees and "replicon" in report.verdict and "RS unstable" in report.verdict


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        {
            "activation": "softmax",
            "L": 2,
            "nu": 1,
            "Delta": 0.1,
            "lam_k": 0.1,
            "lam_v": 0.1,
            "alpha": 4,
        },
        {
            "activation": "linear",
            "rule": "max",
            "L": 3,
            "nu": "inf",
            "Delta": 0.1,
            "lam_k": 1,
            "lam_v": 1,
            "alpha": 3,
        },
    ],
    ids=["softmax", "max"],
)
def test_reference_points_agree(given: dict[str, Any]) -> None:
    report = replica.check("slr-erm", **given, sizes="100,200,400", trials=10)
    assert report.agrees, report.verdict
