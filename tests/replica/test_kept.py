"""Checks that were interrupted: what is stored, and that continuing gives the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replica
from replica import InputError, StoreError
from replica.check import EXPERIMENTS, Asked, state_evolution
from replica.check.trials import read_trials, run_trials
from replica.cli.check import run_check
from replica.jobs import checkpoint
from replica.jobs.run import JobOptions
from replica.plots.checks import draw_check

POINT = {"L": 2, "nu": 1, "Delta": 0.1, "alpha": 0.75}
OPTIONS = {"sizes": "40,80", "trials": 3, "steps": 60}


def planned(**changes: Any) -> state_evolution.MessagePlan:
    return EXPERIMENTS["slr-bayes"].planned(
        POINT | {n: v for n, v in changes.items() if n in POINT},
        **OPTIONS | {n: v for n, v in changes.items() if n in OPTIONS},
    )


def simulated(file: Path, resume: bool = False, **changes: Any) -> dict[str, np.ndarray]:
    what = planned(**changes)
    with checkpoint.keeping(
        JobOptions(file, resume),
        what.trials.sizes,
        what.trials.trials,
        {"settings": what.settings()},
    ) as trials:
        return state_evolution.simulate_messages(what, kept=trials)


def test_trials_that_were_interrupted_continue_bit_for_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part, calls, put = tmp_path / "part.h5", [], checkpoint.TrialCheckpoint.put
    whole = simulated(tmp_path / "whole.h5")

    def interrupted(self: checkpoint.TrialCheckpoint, *at: Any) -> None:
        put(self, *at)
        calls.append(at[:2])
        if len(calls) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint.TrialCheckpoint, "put", interrupted)
    with pytest.raises(KeyboardInterrupt):
        simulated(part)
    stored = replica.load(part)
    assert not stored.attrs["complete"] and stored["done"].values.tolist() == [
        [True] * 3,
        [True, False, False],
    ]
    with pytest.raises(InputError, match="continue it with --resume"):
        draw_check(stored.assign_attrs(kind="check", model="slr-bayes"), "risk")
    with pytest.raises(StoreError, match="exists: pass --resume"):
        simulated(part)
    with pytest.raises(StoreError, match=r"settings.alpha is 0.75 there and 1.0 here"):
        simulated(part, True, alpha=1.0)
    with pytest.raises(StoreError, match=r"settings.trials is 3 there and 4 here"):
        simulated(part, True, trials=4)
    again = simulated(part, resume=True)
    assert calls[4:] == [(1, 1), (1, 2)]
    assert all(
        np.array_equal(again[n], whole[n]) and again[n].dtype == whole[n].dtype for n in whole
    )


@pytest.mark.slow
def test_the_file_of_a_continued_check_is_that_of_an_undisturbed_one(tmp_path: Path) -> None:
    whole, part = tmp_path / "whole.h5", tmp_path / "part.h5"
    what = planned()
    attrs = {"kind": "check", "model": "slr-bayes", "settings": what.settings()}
    with checkpoint.keeping(JobOptions(part), (40, 80), 3, attrs) as trials:
        trials.put(0, 0, {n: v[0, 0] for n, v in state_evolution.simulate_messages(what).items()})
    for file in (whole, part, part):  # the last time nothing is left to do
        run_check(Asked("slr-bayes", POINT), OPTIONS, True, JobOptions(file, resume=file == part))
    same = replica.load(whole)
    assert (
        same.identical(replica.load(part).assign_attrs(created=same.attrs["created"]))
        and same.attrs["complete"]
    )


def test_what_is_kept_is_what_was_found() -> None:
    sizes = read_trials("20,40", 2)
    found = run_trials(sizes, lambda D, rng: {"a": D, "b": [rng.standard_normal(), 0.0]})
    assert found["a"].tolist() == [[20, 20], [40, 40]] and found["a"].dtype.kind == "i"
    assert (
        found["b"].shape == (2, 2, 2)
        and found["b"][1, 1, 0] == sizes.generator(40, 1).standard_normal()
    )


def test_resume_is_refused_where_it_means_nothing(tmp_path: Path) -> None:
    for work in (JobOptions(resume=True), JobOptions(tmp_path / "a.h5", resume=True, force=True)):
        with pytest.raises(InputError, match="resume"):
            run_check(Asked("slr-bayes", POINT), OPTIONS, False, work)
    with pytest.raises(InputError, match="has no --resume"):
        run_check(
            Asked("subspace", {"theta": 1, "r": 0.1}),
            {},
            False,
            JobOptions(tmp_path / "a.h5", resume=True),
        )
    assert not np.any([True for _ in tmp_path.iterdir()])


def test_checks_do_not_share_a_file(tmp_path: Path) -> None:
    file = tmp_path / "a.h5"
    with (
        checkpoint.keeping(JobOptions(file), (10,), 2, {}),
        pytest.raises(StoreError, match="is being written"),
    ):
        simulated(file)
