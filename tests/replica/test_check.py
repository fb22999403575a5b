"""The table of theory against simulation: z-scores, verdict, and what never counts as agreement."""

import numpy as np
import pytest

import replica
from equations import Model
from replica.check.report import (
    Comparison,
    Report,
    compare,
    compare_share,
    intercept,
    standard_error_of,
)
from replica.models import resolve
from replica.theories.base import Branch


def test_z_of_independent_and_paired_samples() -> None:
    samples = np.array([1.0, 2.0, 3.0, 4.0])
    plain = compare("a", samples, 2.0)
    assert plain.standard_error == pytest.approx(np.std(samples, ddof=1) / 2)
    assert plain.z == pytest.approx(0.5 / plain.standard_error)
    paired = compare("a", samples, samples - 0.1 + np.array([0.01, -0.01, 0.01, -0.01]))
    assert paired.z == pytest.approx(0.1 / paired.standard_error)
    assert paired.standard_error < 0.01
    assert abs(compare("a", samples, 2.0, theory_error=10.0).z) < 0.1


def test_shares_have_an_error_of_half_a_trial_at_least() -> None:
    assert compare_share("s", np.ones(30), 1.0).z == 0
    assert compare_share("s", np.r_[np.ones(27), np.zeros(3)], 1.0).z == pytest.approx(-6)
    assert compare_share("s", np.ones(100), 0.5).standard_error == pytest.approx(0.05)


@pytest.mark.parametrize("mean, error", [(float("nan"), 1.0), (1.0, float("nan")), (1.0, 0.0)])
def test_nan_and_unexplained_gaps_disagree(mean: float, error: float) -> None:
    comparison = Comparison("x", 0.0, mean, error)
    assert not comparison.agrees()
    report = Report("m", {}, (comparison,), {})
    assert not report.agrees
    assert "disagree" in report.verdict and "x" in report.verdict
    assert report.to_dict()["comparisons"][0]["mean"] in (None, 1.0)


def test_nothing_compared_is_no_agreement(tmp_path) -> None:
    assert not Report("m", {}, (), {}).agrees
    report = Report("m", {"d": 3}, (Comparison("x", 0.0, 0.1, 0.1),), {"limit": 1.0})
    replica.save(tmp_path / "r.h5", report.to_dataset())
    assert float(replica.load(tmp_path / "r.h5").z[0]) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("given", "sigmas"),
    [
        ({"model": "spiked-wigner", "snr": 2}, 1),
        (
            {"model": "slr-erm", "alpha": 1, "L": 2, "nu": 1, "Delta": 0.1, "lam_k": 1, "lam_v": 1},
            2,
        ),
    ],
    ids=["quadrature", "samples"],
)
def test_the_theory_adds_one_standard_error(given: dict, sigmas: int) -> None:
    """Errors of sampled theories are two standard errors; those of quadrature are bounds."""
    model, _ = resolve(given["model"], {k: v for k, v in given.items() if k != "model"})
    assert isinstance(model, Model)
    branch = Branch("a", {"q": 1.0}, {}, 0.0, {}, replica.Status.SUCCESSFUL, 0, {"q": 0.4}, 1, 0.5)
    assert standard_error_of(model, branch, "q") == 0.4 / sigmas


def test_sizes_are_extrapolated_in_one_over_their_number() -> None:
    """Exact where the mean is a + b/D; the error is that of weighted least squares (polyfit)."""
    size, error = np.array([100.0, 150.0, 400.0]), np.array([0.1, 0.02, 0.3])
    value, spread = intercept(size, 1.5 + 30 / size, error)
    assert value == pytest.approx(1.5, rel=1e-12)
    _, covariance = np.polyfit(1 / size, 1.5 + 30 / size, 1, w=1 / error, cov="unscaled")
    assert spread == pytest.approx(np.sqrt(covariance[1, 1]), rel=1e-10)
