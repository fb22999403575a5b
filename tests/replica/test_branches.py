"""Textbook models: every branch through their branch points, and the thresholds that follow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar

import replica

MODELS = Path(__file__).resolve().parent.parent / "data" / "models"
THRESHOLDS = ("alpha_weak", "alpha_inf", "alpha_IT", "alpha_alg")


def thresholds(name: str, control: str, **settings: object) -> replica.Thresholds:
    return replica.thresholds(str(MODELS / f"{name}.py"), control, **settings)


@pytest.mark.parametrize(("by", "within"), [("beta", (0.1, 5.0)), ("T", (0.2, 10.0))])
def test_a_symmetric_magnet_is_continuous(by: str, within: tuple[float, float]) -> None:
    """A pitchfork at 1: m and -m are born there, and have the same free energy."""
    found = thresholds("curie_weiss", by, within=within, by=by)
    assert found.transition == "continuous" and found.continuous
    assert [getattr(found, n) for n in THRESHOLDS] == pytest.approx([1] * 4, abs=1e-10)
    assert found.crossings == () and len(found.branch_points) == 1
    stable = [b for b in found.branches if b["stable"]]
    assert sorted(b["found_by"] for b in stable) == ["branch point", "start", "start"]


def test_folds_of_a_small_branch_in_closed_form() -> None:
    """c = 1 - a y + b y^2, y = x^2: subcritical (a > 0); a small stable branch (a, b < 0)."""
    found = thresholds("landau", "c", within=(0.5, 2.0), a=1.0, b=1.5)
    assert [getattr(found, n) for n in THRESHOLDS] == pytest.approx(
        [1, 1 - 1 / 6, 1 - 3 / 24, 1], abs=1e-9
    )
    small = thresholds("landau", "c", within=(0.5, 2.0), a=-1.0, b=-2.0, d=-1.0)
    fold = minimize_scalar(
        lambda y: -(1 + y - 2 * y**2 + y**3), bounds=(0.1, 0.6), method="bounded"
    )
    assert small.alpha_weak == pytest.approx(1, abs=1e-10)
    assert small.alpha_alg == pytest.approx(-fold.fun, abs=1e-9)


def test_p_spin_ferromagnet_against_its_curve() -> None:
    """beta(m) = atanh(m)/(m^2 + h) and equal free energies, from numpy."""
    found = thresholds("ferromagnet_p_spin", "beta", within=(0.1, 10.0))
    low = minimize_scalar(lambda m: np.arctanh(m) / m**2, bounds=(0.3, 0.99), method="bounded")
    assert found.alpha_inf == pytest.approx(low.fun, abs=1e-9)

    def gain(m: float) -> float:
        b = np.arctanh(m) / m**2
        return np.log(np.cosh(b * m**2)) - b * m**3 + b * m**3 / 3

    m = brentq(gain, low.x, 0.9999)
    assert found.alpha_IT == pytest.approx(np.arctanh(m) / m**2, abs=1e-9)
    assert found.alpha_alg is None and found.alpha_weak is None


@pytest.mark.slow
def test_noiseless_phase_retrieval() -> None:
    """Weak recovery at 1/2, the branch born there ends at 1.128471, perfect recovery from 1 on."""
    found = thresholds("phase_retrieval", "alpha")
    values = [getattr(found, n) for n in THRESHOLDS]
    assert values == pytest.approx([0.5, 1, 1, 1.128471], abs=1e-6)


def test_two_branches_that_cross_while_both_move() -> None:
    """x = c/2 and x = 1 - c/2 meet at c = 1; neither is a point that stays where it is."""
    found = thresholds("two_lines", "c", within=(0.5, 1.5))
    assert found.transition == "continuous" and found.alpha_weak is None
    assert [getattr(found, n) for n in THRESHOLDS[1:]] == pytest.approx([1] * 3, abs=1e-9)
    (point,) = found.branch_points
    assert point["value"] == pytest.approx(1, abs=1e-9)
    assert point["overlaps"]["x"] == pytest.approx(0.5, abs=1e-9)
    assert [b["stable"] for b in found.branches].count(True) == 2
