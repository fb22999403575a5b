"""Sweeps: the grid inside one program, warm starts that change nothing, figures, and the demo's
parts.
"""

import numpy as np
import pytest

import replica
from replica import InputError, to_dataset
from replica.plots.base import save_figure
from replica.plots.sweeps import draw_sweep, hard_phase

BAYES = {"L": 4, "nu": 1, "Delta": 1e-4}


@pytest.fixture(scope="module")
def curve():
    return replica.sweep("slr-bayes", over={"alpha": np.linspace(1.1, 1.75, 14)}, **BAYES)


def test_sweep_agrees_with_single_solves(curve) -> None:
    assert list(curve.dims) == ["alpha", "branch"]
    assert (curve.status == 0).all()
    for alpha in curve.alpha.values[[0, 5, 12]]:
        solution = replica.solve("slr-bayes", alpha=alpha, **BAYES)
        for start in ("uninformed", "informed"):
            at = curve.sel(alpha=alpha, branch=start)
            assert float(at.q_v) == pytest.approx(solution.branch(start).overlaps["q_v"], abs=1e-8)
            assert float(at.risk) == pytest.approx(
                solution.branch(start).observables["risk"], abs=1e-8
            )
            assert float(at.error_q_v) < 1e-6
    assert curve.attrs["controls"] == {"L": 4.0, "nu": 1.0, "Delta": 1e-4}
    assert curve.q_k.attrs["latex"] == "q_k"


def test_hard_phase_lies_between_the_thresholds(curve) -> None:
    hard = curve.alpha.values[hard_phase(curve).values]
    inside = curve.alpha.values[(curve.alpha.values > 1.32427) & (curve.alpha.values < 1.68452)]
    np.testing.assert_array_equal(hard, inside)


@pytest.mark.slow
@pytest.mark.parametrize("flip", [False, True])
def test_warm_start_changes_no_branch_whatever_the_order(curve, flip: bool) -> None:
    grid = curve.alpha.values[::-1] if flip else curve.alpha.values
    warm = replica.sweep("slr-bayes", over={"alpha": grid}, warm="alpha", **BAYES)
    np.testing.assert_allclose(warm.sel(alpha=curve.alpha.values).q_v, curve.q_v, atol=2e-8)
    assert int(warm.steps.sum()) < int(curve.steps.sum())
    assert warm.attrs["directions"] == {"uninformed": 1, "informed": -1}


def test_two_controls_and_a_warm_axis_that_is_not_the_last() -> None:
    over = {"snr": np.array([3.0, 1.5, 2.0, 4.0])}
    plain = replica.sweep("spiked-wigner", over=over)
    warm = replica.sweep("spiked-wigner", over=over, warm="snr")
    np.testing.assert_allclose(plain.q, warm.q, atol=1e-9)
    assert np.all(np.diff(plain.q.sel(branch="uninformed").sortby("snr")) > 0)
    grid = replica.sweep(
        "slr-population", over={"L": [2, 5], "nu": [1.0, 4.0, 2.0]}, activation="linear", Delta=0.1
    )
    expected = [[n * (n - 1) / (n**2 + nu * (n - 1)) for nu in (1, 4, 2)] for n in (2, 5)]
    np.testing.assert_allclose(grid.excess_risk.isel(branch=0), expected, atol=1e-9)


def test_failed_points_keep_their_status_and_are_drawn_as_gaps() -> None:
    short = replica.sweep(
        "spiked-wigner", over={"snr": [0.5, 1.001, 4.0]}, settings=replica.Settings(max_steps=9)
    )
    assert (short.status != 0).any()
    assert "maximum number of steps" in short.status.attrs["flag_meanings"][int(short.status.max())]
    drawn = draw_sweep(short, "mse").axes[0].lines[0].get_ydata()
    assert np.isnan(drawn).sum() == int((short.status.sel(branch="uninformed") != 0).sum())


def test_round_trip_through_a_file(curve, tmp_path) -> None:
    path = replica.save(tmp_path / "c.h5", curve)
    back = replica.load(path)
    assert back.identical(curve) or back.equals(curve)
    assert back.attrs["options"] == {"rule": "spiked"}
    save_figure(draw_sweep(back), tmp_path / "c.svg")
    assert "<svg" in (tmp_path / "c.svg").read_text()[:400]


def test_single_solution_as_dataset() -> None:
    dataset = to_dataset(replica.solve("slr-bayes", alpha=1.4, **BAYES))
    assert list(dataset.branch.values) == ["uninformed", "informed"]
    assert float(dataset.risk[1]) < float(dataset.risk[0])


def test_refusals() -> None:
    with pytest.raises(InputError, match="warm start along L"):
        replica.sweep(
            "slr-population", over={"L": [2, 3]}, warm="L", activation="linear", nu=1, Delta=0
        )
    with pytest.raises(InputError, match="empty"):
        replica.sweep("spiked-wigner", over={"snr": []})
    with pytest.raises(InputError, match="at least one"):
        replica.sweep("spiked-wigner", over={}, snr=2)
    with pytest.raises(InputError, match="not finite"):
        replica.sweep("spiked-wigner", over={"snr": [1.0, float("nan")]})


def test_a_model_without_unknowns_is_swept_too() -> None:
    """linear_pure on spiked data: R - Delta = L/(L + nu); its scale is eliminated."""
    result = replica.sweep(
        "slr-population",
        over={"nu": [0.5, 2.0]},
        activation="linear_pure",
        L=2,
        Delta=0,
        progress=False,
    )
    np.testing.assert_allclose(result.excess_risk.values[:, 0], [2 / 2.5, 2 / 4], atol=1e-10)
