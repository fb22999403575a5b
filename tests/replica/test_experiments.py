"""The registry of experiments: one file adds one, its dataclass makes the flags, and z holds one
standard error of the theory in all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import replica
from replica import InputError, Status, StoreError
from replica.check import (
    EXPERIMENTS,
    Asked,
    Experiment,
    Report,
    compare,
    experiment,
    measurements,
    option,
)
from replica.check.base import Log, experiment_for, silent
from replica.check.fits import FitOptions
from replica.check.trials import compare_trials
from replica.cli import app
from replica.models import resolve

MODEL = "spiked-wigner"
"""Has no simulation of its own."""


@dataclass(frozen=True)
class DrawOptions:
    """Of the experiment below."""

    shift: float = option(0.0, "added to what is drawn", flag="off-by")
    rounds: int = option(20, "numbers drawn", control=False)
    centred: bool = option(False, "without noise of the mean")
    snr: float | None = option(None, "as --set snr=", control=True)
    start: str = option("informed", "branch of the theory")


class Draws(Experiment):
    """Normal numbers around the theory."""

    options = DrawOptions

    def prepare(self, asked: Asked, options: DrawOptions) -> tuple[replica.Solution, DrawOptions]:
        if options.rounds < 2:
            raise InputError("a standard error needs at least 2 rounds: use --rounds 20")
        return replica.solve(asked.model, **asked.given), options

    def perform(self, prepared: tuple[replica.Solution, DrawOptions], tell: Log = silent) -> Report:
        solution, how = prepared
        tell(f"{how.rounds} rounds")
        q = solution.branch(how.start).overlaps["q"]
        noise = 0.01 * np.random.default_rng(0).standard_normal(how.rounds)
        drawn = q + how.shift + noise - noise.mean() * how.centred
        return Report(MODEL, {"shift": how.shift}, (compare("q", drawn, q),), {})


@pytest.fixture
def registered() -> Iterator[None]:
    experiment(MODEL)(Draws)
    yield
    del EXPERIMENTS[MODEL]


def call(*arguments: Any) -> tuple[int, str, str]:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(a) for a in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def test_an_experiment_of_ones_own_runs_and_has_its_flags(registered: None, tmp_path: Path) -> None:
    file = tmp_path / "draws.h5"
    command = ("check", MODEL, "--snr", 2, "--rounds", 30, "-o", file)
    code, out, err = call(*command, "--json")
    found = json.loads(out)
    assert code == 0 and found["agrees"] and "replica: 30 rounds" in err
    assert found["settings"] == {"shift": 0.0} and abs(found["comparisons"][0]["z"]) > 1e-6
    assert replica.load(file).attrs["command"].startswith("replica ")
    with pytest.raises(StoreError, match="exists"):
        call(*command)
    code, out, _ = call(*command, "--off-by", 1, "--force")
    assert code == 1 and "disagree" in out
    code, out, _ = call(*command, "--centred", "--force", "--json")
    assert json.loads(out)["comparisons"][0]["z"] == pytest.approx(0, abs=1e-9)
    help_text = call("check", "--help")[1]
    assert "--off-by" in help_text and "spiked-wigner: added to what is drawn (default: 0.0)" in (
        help_text
    )


def test_an_experiment_of_ones_own_is_there_in_python(registered: None) -> None:
    report = replica.check(MODEL, snr=2, shift=0.5)
    assert not report.agrees and report.comparisons[0].residual == pytest.approx(0.5, abs=0.02)
    assert report.dataset is not None and report.dataset.attrs["kind"] == "check"
    assert replica.check(resolve(MODEL, {"snr": 2})[0], snr=2).agrees
    with pytest.raises(InputError, match="no control 'trials'"):
        replica.check(MODEL, snr=2, trials=3)


def test_mistakes_with_an_experiment_of_ones_own_are_one_sentence(registered: None) -> None:
    for arguments, says in (
        (("--trials", 3), "has no --trials: it has --off-by, --rounds, --centred, --start"),
        (("--snr", 2, "--set", "snr=2"), "snr is given twice"),
        (("--snr", 2, "--rounds", 1), "at least 2 rounds"),
        (("--snr", 2, "--D", "100"), "the check of spiked-wigner has no --D"),
    ):
        with pytest.raises(InputError, match=says):
            call("check", MODEL, *arguments)
    with pytest.raises(InputError, match="no --off-by: it has --D, --trials"):
        call("check", "slr-bayes", "--off-by", 1)


def test_without_it_there_is_no_such_experiment() -> None:
    assert MODEL not in EXPERIMENTS and "--off-by" not in call("check", "--help")[1]
    with pytest.raises(InputError, match="no simulation of 'spiked-wigner'"):
        replica.check(MODEL, snr=2)
    with pytest.raises(InputError, match="There is subspace, slr-erm, slr-bayes; or give"):
        replica.check()


def test_every_field_of_the_options_is_a_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    made_up = [("patience", int, option(7, "how long it waits"))]
    longer = make_dataclass("Longer", made_up, bases=(FitOptions,), frozen=True)
    monkeypatch.setattr(type(EXPERIMENTS["slr-erm"]), "options", longer)
    help_text = call("check", "--help")[1]
    assert "--patience" in help_text and "slr-erm: how long it waits (default: 7)" in help_text
    for known in EXPERIMENTS.values():
        for name, entry in known.options.__dataclass_fields__.items():
            assert f"--{entry.metadata['flag'] or name}" in help_text


def options_of(**fields: Any) -> Any:
    return make_dataclass("Options", [(name, *entry) for name, entry in fields.items()])


@pytest.mark.parametrize(
    ("key", "options", "says"),
    [
        ("slr-erm", options_of(), "already"),
        ("mine", options_of(a=(int, field())), "needs a default"),
        ("mine", options_of(trials=(str, option("1", ""))), "--trials .* something else"),
        ("mine", options_of(other=(str, option("1", "", flag="D"))), "--D .* something else"),
        ("mine", options_of(csv=(str, option("", ""))), "cannot have an option --csv"),
        ("mine", dict, "must be a dataclass"),
    ],
)
def test_what_cannot_be_registered(key: str, options: Any, says: str) -> None:
    kind = type("Mine", (Draws,), {"options": options})
    with pytest.raises(ValueError, match=says):
        experiment(key)(kind)
    assert "mine" not in EXPERIMENTS


def test_which_experiment_a_model_has() -> None:
    built_in = resolve("slr-bayes", {"L": 2, "nu": 1, "Delta": 0.1, "alpha": 1})[0]
    for asked, key in (
        (Asked("slr-bayes", {}), "slr-bayes"),
        (Asked(built_in, {}), "slr-bayes"),
        (Asked(built_in, {}, "runs.csv"), "csv"),
        (Asked(None, {}, "runs.csv"), "csv"),
        (Asked("./mine.py", {}), "file"),
        (Asked(Path("mine.py"), {}), "file"),
        (Asked("./mine.py", {}, "runs.csv"), "csv"),
    ):
        assert experiment_for(asked) is EXPERIMENTS[key]


LOCATION = {"L": 2, "Delta": 0.1}
POINTS = {
    "max": ("slr-bayes", {"rule": "max", "nu": np.inf, "alpha": 1.5, **LOCATION}, "q_v"),
    "spiked": ("slr-bayes", {"nu": 1, "alpha": 0.75, **LOCATION}, "q_v"),
    "trained": (
        "slr-erm",
        {"activation": "linear", "nu": 1, "alpha": 3, "lam_k": 0.5, "lam_v": 0.5, **LOCATION},
        "m_v",
    ),
}


def written(path: Path, name: str, value: float, error: float) -> Path:
    path.write_text(f"{name},{name}_error\n{value!r},{error!r}\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("point", "z"),
    [
        # 0.56 +- 0.01 against 0.5 with an error of 0.02: that is two standard errors where averages
        # run over samples, z = 0.06/sqrt(0.01^2 + 0.01^2), and else z = 0.06/sqrt(0.01^2 + 0.02^2).
        ("max", 4.242640687),
        ("trained", 4.242640687),
        ("spiked", 2.683281573),
    ],
)
def test_z_holds_one_standard_error_of_the_theory(
    point: str, z: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, settings, measured = POINTS[point]
    model, values = resolve(name, settings)
    branch = made_branch({measured: 0.5}, {measured: 0.02})
    solution = replica.Solution(model, values, (branch,), 0)
    monkeypatch.setattr(measurements, "solve", lambda model, **values: solution)
    table = written(tmp_path / "own.csv", measured, 0.56, 0.01)
    (row,) = replica.check(name, csv=table, **settings).comparisons
    assert row.z == pytest.approx(z, rel=1e-9)
    # Trials of the same model whose mean over D is 0.56 +- 0.01: the same z.
    plan = EXPERIMENTS[name].planned(settings, sizes="100", trials=2)
    trials = compare_trials(plan, measured, np.array([[0.55, 0.57]]), branch)
    assert trials.standard_error == pytest.approx(0.01) and trials.z == pytest.approx(z, rel=1e-9)


def made_branch(overlaps: dict[str, float], error: dict[str, float]) -> replica.Branch:
    return replica.Branch("best", overlaps, {}, 0.0, {}, Status.SUCCESSFUL, 0.0, error, 1, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize(("point", "sigmas"), [("max", 2), ("spiked", 1), ("trained", 2)])
def test_measurements_of_a_solved_point_hold_its_standard_error(
    point: str, sigmas: int, tmp_path: Path
) -> None:
    """Three errors of the theory beside it, with the error of the theory."""
    model, settings, name = POINTS[point]
    solution = replica.solve(model, **settings)
    branch = solution.branches[solution.best]
    error, value = branch.error[name], branch.overlaps[name]
    table = written(tmp_path / "own.csv", name, value + 3 * error, error)
    (row,) = replica.check(model, csv=table, **settings).comparisons
    assert row.theory_error == pytest.approx(error / sigmas, rel=1e-12)
    assert row.z == pytest.approx(3 / np.sqrt(1 + 1 / sigmas**2), rel=1e-3)
