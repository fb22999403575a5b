"""A user's own measurements against the theory, and checks drawn on curves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

import replica
from replica import InputError, cli
from replica.check import measurements
from replica.plots.checks import draw_check, points, with_checks
from replica.plots.sweeps import draw_sweep

THEORY = replica.solve("spiked-wigner", snr=2.0).branch("informed").overlaps["q"]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*arguments: str) -> tuple[int, str, str]:
        result = CliRunner().invoke(cli.app, [str(a) for a in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout, result.stderr

    return run


def written(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_measurements_on_the_theory_curve(call: Any, tmp_path: Path) -> None:
    file = written(
        tmp_path / "own.csv", "snr, q, q_error", f"2, {THEORY + 0.01}, 0.01", f"2.0, {THEORY}, 0.01"
    )
    code, out, _ = call(
        "check", "spiked-wigner", "--csv", file, "--json", "-o", tmp_path / "own.h5"
    )
    found = json.loads(out)
    assert (
        code == 0
        and found["agrees"]
        and [r["z"] for r in found["comparisons"]] == pytest.approx([1, 0], abs=1e-3)
    )
    assert found["comparisons"][0]["residual"] == pytest.approx(0.01, abs=1e-6)
    stored = replica.load(tmp_path / "own.h5")
    assert stored["at_snr"].values.tolist() == [2, 2] and stored["quantity"].values.tolist() == [
        "q",
        "q",
    ]


def test_wrong_measurements_disagree_and_values_without_error_are_only_listed(
    call: Any, tmp_path: Path
) -> None:
    wrong = written(
        tmp_path / "wrong.csv", "model,snr,q,error", f"spiked-wigner,2,{THEORY + 0.1},0.01"
    )
    code, out, _ = call("check", "--csv", wrong)
    assert code == 1 and "disagree" in out
    plain = written(tmp_path / "plain.csv", "snr,q", f"2,{THEORY + 0.1}")
    code, out, _ = call("check", "spiked-wigner", "--csv", plain)
    assert code == 0 and "no verdict" in out and "+0.1" in out


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["snr,q"], "no rows"),
        (["snr,q", "2,x"], "line 2: q = 'x' is not a number"),
        (["snr,Q", "2,1"], "no measured quantity"),
        (["snrr,q", "2,1"], "line 2: spiked-wigner has no control 'snrr'"),
        (["snr,q,q_error", "2,1,0"], "must be positive"),
        (["snr,q", "2"], "not as many entries"),
        (["snr,q", "2,1,3"], "not as many entries"),
        (["q,q", "1,1"], "given twice"),
        (["snr,q", "-2,1"], "out of range"),
        (["model,snr,q", "slr-erm,2,1"], "not of spiked-wigner"),
        (["snr,q", "2,nan"], "not finite"),
    ],
)
def test_bad_files_are_one_sentence(lines: list[str], says: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=says):
        measurements.read_table(written(tmp_path / "own.csv", *lines), "spiked-wigner", {})


def test_missing_file_and_model(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        measurements.read_table(tmp_path / "none.csv", "spiked-wigner", {})
    with pytest.raises(InputError, match="which model"):
        measurements.read_table(written(tmp_path / "own.csv", "snr,q", "2,1"), None, {})
    with pytest.raises(InputError, match="given twice"):
        measurements.read_table(tmp_path / "own.csv", "spiked-wigner", {"snr": 2})


def checked(**attrs: Any) -> xr.Dataset:
    """A check at two sizes, as stored."""
    rng = np.random.default_rng(0)
    q = np.array([0.6, 0.65])[:, None] + 0.01 * rng.standard_normal((2, 5))
    row = {
        "theory": 0.7,
        "theory_error": 0.0,
        "mean": 0.65,
        "standard_error": 0.01,
        "extrapolated": 0.7,
        "extrapolated_error": 0.02,
        "z": 0.0,
    }
    data = {"q": (("size", "trial"), q)} | {n: ("comparison", [v]) for n, v in row.items()}
    about = {"kind": "check", "model": "spiked-wigner", "controls": {"snr": 2.0}}
    return xr.Dataset(
        data, {"size": [100, 200], "trial": np.arange(5), "comparison": ["q"]}, about | attrs
    )


def test_checks_are_drawn_on_a_sweep(tmp_path: Path, call: Any) -> None:
    sweep = replica.sweep("spiked-wigner", over={"snr": np.linspace(1.5, 3, 4)})
    figure = with_checks(draw_sweep(sweep, "q"), [sweep], [checked()], "q")
    (bar,) = figure.axes[0].containers
    assert bar.lines[0].get_xydata().tolist() == [[2.0, 0.7]] and bar.has_yerr
    replica.save(tmp_path / "sweep.h5", sweep)
    replica.save(tmp_path / "check.h5", checked())
    code, _, _ = call(
        "plot",
        tmp_path / "sweep.h5",
        tmp_path / "check.h5",
        "-o",
        tmp_path / "both.png",
        "--y",
        "q",
    )
    assert code == 0 and (tmp_path / "both.png").stat().st_size > 5000
    for other in (checked(model="slr-erm"),):
        with pytest.raises(InputError, match="do not belong together"):
            with_checks(draw_sweep(sweep, "q"), [sweep], [other], "q")
    with pytest.raises(InputError, match="did you mean q"):
        with_checks(draw_sweep(sweep, "q"), [sweep], [checked()], "qq")


def test_a_check_alone_is_drawn_against_inverse_size_or_its_control(tmp_path: Path) -> None:
    panel = draw_check(checked(), "q").axes[0]
    assert panel.get_xlabel() == "1/D" and len(panel.containers) == 2
    file = written(tmp_path / "own.csv", "snr,q,q_error", "2,0.9,0.01", "3,0.95,0.01")
    own = replica.check("spiked-wigner", csv=file).dataset
    panel = draw_check(own, "q").axes[0]
    assert "lambda" in panel.get_xlabel()
    assert points(own, "snr", "q").x.tolist() == [2, 3]


def test_a_theory_without_solution_is_a_failure_not_bad_input(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        measurements,
        "solve",
        lambda model, **values: replica.solve(
            model, settings=replica.Settings(max_steps=1), **values
        ),
    )
    code, _, err = call(
        "check", "spiked-wigner", "--csv", written(tmp_path / "own.csv", "snr,q", "2,0.9")
    )
    assert code == 1 and "line 2: the theory has no solution here" in err
