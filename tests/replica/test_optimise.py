"""The best ridge: gradients against differences, the optimum against its neighbours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import replica
from replica import InputError, Settings, Status, StoreError
from replica.jobs.checkpoint import Checkpoint
from replica.models import resolve
from replica.sweeps.optimise import optimise
from replica.sweeps.search import Objective

LINEAR = {"activation": "linear", "L": 2, "nu": 1, "Delta": 0.1, "alpha": 3.0}
LOOSE = Settings(accuracy=2e-2)


def objective(names: list[str], given: dict[str, Any], observable: str = "risk") -> Objective:
    model, values = resolve("slr-erm", given, partial=names)
    return Objective(
        model, names, observable, LOOSE, values, np.array([0.2, 0.35, 1.0, 0.45, 0.33, 0.3])
    )


@pytest.mark.parametrize(
    ("names", "observable"),
    [(["lam_k", "lam_v"], "risk"), (["beta"], "risk"), (["alpha"], "training_loss")],
)
def test_gradients_are_those_of_the_solved_fixed_point(names: list[str], observable: str) -> None:
    """Implicit differentiation against differences of fixed points; beta moves the minimisers
    themselves.
    """
    given = {k: v for k, v in (LINEAR | {"lam_k": 0.5, "lam_v": 0.5}).items() if k not in names}
    g, step = objective(names, given, observable), 1e-4
    t = np.log([3.0 if n == "alpha" else 0.7 for n in names])
    gradient = g(t)[1]
    difference = [(g(t + step * e)[0] - g(t - step * e)[0]) / (2 * step) for e in np.eye(len(t))]
    np.testing.assert_allclose(gradient, difference, atol=1e-6)


def test_the_optimum_is_below_its_neighbours_and_says_how_well_it_is_known() -> None:
    best = optimise("slr-erm", settings=LOOSE, **LINEAR)
    assert isinstance(best, replica.Optimum)
    assert best.status is Status.SUCCESSFUL and max(map(abs, best.gradient.values())) < 1e-3
    for name in best.at:
        for factor in (0.7, 1.4):
            other = replica.solve(
                "slr-erm", settings=LOOSE, **LINEAR, **(best.at | {name: factor * best.at[name]})
            )
            assert other.branches[0].observables["risk"] > best.value
    assert 0 <= best.error_at["lam_k"] < 0.1 * best.at["lam_k"]
    assert best.value == best.solution.branches[0].observables["risk"]


@pytest.mark.slow
def test_along_a_grid() -> None:
    grid = optimise(
        "slr-erm",
        along={"alpha": [2.0, 4.0]},
        settings=LOOSE,
        progress=False,
        **{k: v for k, v in LINEAR.items() if k != "alpha"},
    )
    assert dict(grid.sizes) == {"alpha": 2, "branch": 1}
    assert (
        np.all(np.diff(grid.risk.values[:, 0]) < 0)
        and np.all(grid.lam_v > 0)
        and np.all(grid.status == 0)
    )
    alone = optimise("slr-erm", settings=LOOSE, **(LINEAR | {"alpha": 4.0}))
    assert float(grid.risk[1, 0]) == pytest.approx(alone.value, abs=1e-5)


@pytest.mark.slow
def test_an_optimum_beyond_the_range_is_said_so() -> None:
    """Without informative labels the best ridge is infinite: nothing is learnt."""
    best = optimise(
        "slr-erm",
        over=["lam_v"],
        settings=LOOSE,
        **(LINEAR | {"Delta": 1e4, "lam_k": 1.0, "alpha": 0.1}),
    )
    assert best.status is Status.AT_EDGE or best.at["lam_v"] > 1e3


def test_a_stopped_grid_continues_to_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {
        "along": {"alpha": [2.0, 4.0]},
        "settings": LOOSE,
        "progress": False,
        **{k: v for k, v in LINEAR.items() if k != "alpha"},
    }
    whole = optimise("slr-erm", **given)
    write, calls = Checkpoint.write, []

    def stops(self: Checkpoint) -> None:
        write(self)
        calls.append(1)
        if len(calls) == 2:  # the first write is that of the empty grid
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "write", stops)
    with pytest.raises(KeyboardInterrupt):
        optimise("slr-erm", file=tmp_path / "o.h5", **given)
    monkeypatch.undo()
    assert int((replica.load(tmp_path / "o.h5").status == Status.NOT_COMPUTED.code).sum()) == 1
    with pytest.raises(StoreError, match="minimised is risk there"):
        optimise(
            "slr-erm", file=tmp_path / "o.h5", resume=True, observable="training_loss", **given
        )
    again = optimise("slr-erm", file=tmp_path / "o.h5", resume=True, **given)
    xr.testing.assert_equal(again, whole)
    xr.testing.assert_equal(replica.load(tmp_path / "o.h5"), whole)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"over": ["lam_q"]}, "did you mean lam_v"),
        ({"over": ["L"]}, "cannot be optimised"),
        ({"over": ["Delta"]}, "cannot be optimised"),
        ({"observable": "rsk"}, "did you mean risk"),
        ({"observable": "replicon"}, "response of the minimiser"),
        ({"lam_k": 1.0}, "optimised and given too"),
        ({"start": {"lam_k": -1}}, "lam_k > 0"),
        ({"along": {"alpha": []}}, "empty"),
    ],
)
def test_bad_input(arguments: dict[str, Any], message: str) -> None:
    given = {
        k: v
        for k, v in LINEAR.items()
        if k not in [*arguments.get("over", []), *arguments.get("along", {})]
    }
    with pytest.raises(InputError, match=message):
        optimise("slr-erm", **(given | arguments))


def test_what_has_no_derivatives_is_refused() -> None:
    with pytest.raises(InputError, match="no best controls"):
        optimise("slr-flow", over=["nu"], Delta=0.1, L=2)
    sampled = Settings(route="sampled", accuracy=1.0)
    with pytest.raises(InputError, match="averages by quadrature"):
        optimise("slr-bayes", over=["Delta"], settings=sampled, alpha=1.0, L=2, nu=1)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [2.0, 4.0])
def test_softmax_at_its_best_ridge_lies_between_bayes_and_linear(alpha: float) -> None:
    given = {"L": 3, "nu": 1, "Delta": 0.1, "alpha": alpha}
    softmax, linear = (
        optimise("slr-erm", activation=a, settings=Settings(accuracy=1e-2), **given)
        for a in ("softmax", "linear")
    )
    bayes = replica.solve("slr-bayes", **given).risks["algorithmic"]
    assert softmax.status.is_point and linear.status.is_point
    assert bayes < softmax.value - softmax.error
    assert softmax.value + softmax.error < linear.value - linear.error
