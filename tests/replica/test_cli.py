"""The command line: output contracts, and one clear sentence with exit code 2 for each kind of bad
input.
"""

import json
import subprocess
import sys
from pathlib import Path

import h5py
import pytest

import replica

WIGNER = ["solve", "spiked-wigner", "--set", "snr=2"]
BAYES = ["--set", "L=4", "--set", "nu=1", "--set", "Delta=0.01"]


def test_solve_json_contract(command) -> None:
    code, out, _ = command("solve", "slr-bayes", "--set", "alpha=1", *BAYES, "--json")
    assert code == 0
    result = json.loads(out)
    assert {"model", "controls", "branches", "best"} <= result.keys()
    assert result["model"] == "slr-bayes"
    assert result["controls"] == {"alpha": 1.0, "L": 4.0, "nu": 1.0, "Delta": 0.01}
    branch = result["branches"][result["best"]]
    assert {
        "start",
        "overlaps",
        "conjugates",
        "free_entropy",
        "observables",
        "status",
        "residual",
        "error",
        "steps",
    } <= branch.keys()
    assert branch["overlaps"]["q_k"] == pytest.approx(0.26904462, abs=1e-6)
    assert branch["status"] == "successful"
    assert {"risk"} <= branch["observables"].keys()
    assert {"q_k", "q_v"} <= branch["error"].keys()
    assert isinstance(branch["steps"], int)


def test_population_json_names_scale_and_offset(command) -> None:
    code, out, _ = command(
        "solve",
        "slr-population",
        "--set",
        "activation=erf",
        "--set",
        "rule=spiked",
        "--set",
        "L=2",
        "--set",
        "nu=1",
        "--set",
        "Delta=0.1",
        "--json",
    )
    branch = json.loads(out)["branches"][0]
    assert code == 0
    assert branch["overlaps"].keys() == {"scale", "offset"}
    assert branch["observables"]["excess_risk"] == pytest.approx(0.39799692, abs=1e-6)
    assert branch["observables"]["risk"] == pytest.approx(0.49799692, abs=1e-6)


def test_eval_json(command) -> None:
    code, out, _ = command(
        "eval",
        "slr-bayes",
        "--set",
        "alpha=1",
        *BAYES,
        "--at",
        "q_k=0.26904462,q_v=0.33635035",
        "--json",
    )
    result = json.loads(out)
    assert code == 0
    assert result["residual"] < 1e-7
    assert result["update"]["q_k"] == pytest.approx(0.26904462, abs=1e-6)
    assert result["free_entropy"] == pytest.approx(-1.38047702, abs=1e-6)
    assert {"conjugates", "observables"} <= result.keys()


def test_show_prints_derived_equations_and_sources(command) -> None:
    code, out, _ = command("show", "slr-bayes")
    assert code == 0
    for word in (
        "Setting",
        "Free energy",
        "Equations (derived)",
        "q_k_hat =",
        "q_v =",
        "Sources",
        "2509.21936",
    ):
        assert word in out


def test_show_keeps_every_integral(command) -> None:
    """Named integrals carry their variables, so the average over the label y around them stays
    visible.
    """
    _, out, _ = command("show", "slr-bayes")
    where = out.split("where")[1].split("Observables")[0]
    assert "E[" in where and "y ~ N(0, Delta + 1)" in where
    assert "I_1(s, y)" in where


@pytest.mark.parametrize("model", ["slr-bayes", "spiked-wigner", "slr-population"])
def test_show_latex_is_balanced(command, model: str) -> None:
    _, out, _ = command("show", model, "--latex")
    assert out.startswith("\\documentclass")
    assert out.count("\\begin{equation*}") == out.count("\\end{equation*}") >= 3
    assert out.count("\\left") == out.count("\\right")
    assert out.replace("\\{", "").replace("\\}", "").count("{") == out.replace("\\{", "").replace(
        "\\}", ""
    ).count("}")
    assert out.isascii()


def test_version(command) -> None:
    code, out, _ = command("--version")
    assert code == 0 and out.startswith("replica-solver 0.") and "jax" in out


def test_models_table_and_json(command) -> None:
    assert "slr-bayes" in command("models")[1]
    assert json.loads(command("models", "--json")[1]).keys() == replica.equations.MODELS.keys()


def test_sweep_plot_and_python_m(command, tmp_path: Path) -> None:
    file, figure = tmp_path / "w.h5", tmp_path / "w.png"
    assert command("sweep", "spiked-wigner", "--over", "snr=0.5:4:6", "-o", str(file))[0] == 0
    assert command("plot", str(file), "-o", str(figure), "--y", "mse")[0] == 0
    assert figure.stat().st_size > 5000
    code, _, err = command("sweep", "spiked-wigner", "--over", "snr=0.5:4:6", "-o", str(file))
    assert code == 2
    assert "--force" in err and "--resume" in err
    assert command("sweep", "spiked-wigner", "--over", "snr=0.5:4:6", "-o", str(file), "--resume")[
        :2
    ] == (0, f"{file}: 12 points, 0 failed\n")
    code, _, err = command(
        "sweep",
        "spiked-wigner",
        "--over",
        "snr=0.5:4:6",
        "-o",
        str(file),
        "--resume",
        "--tol",
        "1e-9",
    )
    assert code == 2 and "settings.tol is 1e-10 there and 1e-09 here" in err
    assert (
        command(
            "sweep",
            "spiked-wigner",
            "--over",
            "snr=0.5:4:3:log",
            "-o",
            str(file),
            "--force",
            "--quiet",
        )[0]
        == 0
    )
    assert replica.load(file).sizes["snr"] == 3
    made_by = json.loads(command("info", str(file), "--json")[1])["command"]
    assert (
        made_by == f"replica sweep spiked-wigner --over snr=0.5:4:3:log -o {file} --force --quiet"
    )
    assert command("export", str(file), "-o", str(tmp_path / "w.csv"))[:2] == (
        0,
        f"{tmp_path / 'w.csv'}\n",
    )
    done = subprocess.run(
        [sys.executable, "-m", "replica", "models", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "spiked-wigner" in done.stdout


def test_solve_stores_its_branches(command, tmp_path: Path) -> None:
    file = tmp_path / "point.h5"
    assert command(*WIGNER, "-o", str(file))[0] == 0
    stored = replica.load(file)
    assert float(stored.q[0]) == pytest.approx(0.6184475093, abs=1e-8)
    assert stored.attrs["command"].startswith("replica solve spiked-wigner")


def test_failure_is_exit_code_1_with_its_status(command) -> None:
    code, out, err = command(*WIGNER, "--max-steps", "2", "--json")
    assert code == 1
    assert "maximum number of steps" in err
    assert json.loads(out)["best"] is None


BAD = {
    "unknown model": (["solve", "slr-bays", "--set", "alpha=1"], "slr-bayes"),
    "unknown control": (["solve", "slr-bayes", "--set", "alpa=1", *BAYES], "did you mean alpha"),
    "unknown option value": (
        [
            "solve",
            "slr-population",
            "--set",
            "activation=sofmax",
            "--set",
            "L=2",
            "--set",
            "nu=1",
            "--set",
            "Delta=0",
        ],
        "softmax",
    ),
    "alpha = 0": (["solve", "slr-bayes", "--set", "alpha=0", *BAYES], "alpha > 0"),
    "alpha < 0": (["solve", "slr-bayes", "--set", "alpha=-1", *BAYES], "alpha > 0"),
    "nu < 0": (
        [
            "solve",
            "slr-bayes",
            "--set",
            "alpha=1",
            "--set",
            "L=4",
            "--set",
            "nu=-1",
            "--set",
            "Delta=0.1",
        ],
        "nu >= 0",
    ),
    "Delta < 0": (
        [
            "solve",
            "slr-bayes",
            "--set",
            "alpha=1",
            "--set",
            "L=4",
            "--set",
            "nu=1",
            "--set",
            "Delta=-0.1",
        ],
        "Delta > 0",
    ),
    "Delta = 0": (
        [
            "solve",
            "slr-bayes",
            "--set",
            "alpha=1",
            "--set",
            "L=4",
            "--set",
            "nu=1",
            "--set",
            "Delta=0",
        ],
        "1e-6",
    ),
    "L = 0": (
        [
            "solve",
            "slr-bayes",
            "--set",
            "alpha=1",
            "--set",
            "L=0",
            "--set",
            "nu=1",
            "--set",
            "Delta=0.1",
        ],
        "L >= 1",
    ),
    "L = 2.5": (
        [
            "solve",
            "slr-bayes",
            "--set",
            "alpha=1",
            "--set",
            "L=2.5",
            "--set",
            "nu=1",
            "--set",
            "Delta=0.1",
        ],
        "integer",
    ),
    "nan": (["solve", "slr-bayes", "--set", "alpha=nan", *BAYES], "not finite"),
    "infinite": (
        [
            "solve",
            "slr-bayes",
            "--set",
            "alpha=1",
            "--set",
            "L=4",
            "--set",
            "nu=inf",
            "--set",
            "Delta=0.1",
        ],
        "not finite",
    ),
    "not a number": (["solve", "slr-bayes", "--set", "alpha=one", *BAYES], "not a number"),
    "missing control": (["solve", "slr-bayes", "--set", "alpha=1"], "needs L, nu, Delta"),
    "no equals sign": (["solve", "slr-bayes", "--set", "alpha"], "name=value"),
    "given twice": ([*WIGNER, "--set", "snr=3"], "twice"),
    "damping = 1": ([*WIGNER, "--damping", "1"], "[0, 1)"),
    "damping = 1.2": ([*WIGNER, "--damping", "1.2"], "[0, 1)"),
    "tolerance": ([*WIGNER, "--tol", "0"], "positive"),
    "route": ([*WIGNER, "--route", "fast"], "exact or sampled"),
    "no sampled route": ([*WIGNER, "--route", "sampled"], "no sampled route"),
    "eval overlap": (
        ["eval", "spiked-wigner", "--set", "snr=2", "--at", "p=0.5"],
        "no overlap 'p'",
    ),
    "eval missing": (["eval", "spiked-wigner", "--set", "snr=2"], "needs q"),
    "eval range": (["eval", "spiked-wigner", "--set", "snr=2", "--at", "q=2"], "out of range"),
    "eval text": (["eval", "spiked-wigner", "--set", "snr=2", "--at", "q=x"], "cannot read --at"),
}
SWEEP = ["sweep", "spiked-wigner", "-o", "OUT"]
BAD_SWEEPS = {
    "grid": ([*SWEEP, "--over", "snr=1:2"], "start:stop:num"),
    "grid count": ([*SWEEP, "--over", "snr=1:2:0"], "start:stop:num"),
    "grid spacing": ([*SWEEP, "--over", "snr=1:2:3:cubic"], "start:stop:num"),
    "grid range": ([*SWEEP, "--over", "snr=-1:2:3"], "snr > 0"),
    "grid control": ([*SWEEP, "--over", "sn=1:2:3"], "did you mean snr"),
    "swept and fixed": ([*SWEEP, "--over", "snr=1:2:3", "--set", "snr=2"], "both swept and fixed"),
    "warm": ([*SWEEP, "--over", "snr=1:2:3", "--warm", "alpha"], "no control 'alpha'"),
    "folder": (
        ["sweep", "spiked-wigner", "-o", "missing/OUT", "--over", "snr=1:2:3"],
        "does not exist",
    ),
}


@pytest.mark.parametrize("name", [*BAD, *BAD_SWEEPS])
def test_bad_input_is_one_sentence_and_code_2(
    command, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    args, words = (BAD | BAD_SWEEPS)[name]
    code, out, err = command(*args)
    assert code == 2
    assert words in err
    assert err.startswith("replica: ")
    assert len(err.strip().splitlines()) == 1
    assert out == ""
    assert list(tmp_path.iterdir()) == [], "nothing is written"


def test_plot_refuses_what_it_cannot_read(command, tmp_path: Path) -> None:
    figure = str(tmp_path / "f.png")
    broken, foreign, good = tmp_path / "broken.h5", tmp_path / "foreign.h5", tmp_path / "good.h5"
    with h5py.File(foreign, "w") as handle:
        handle["x"] = [1.0]
    broken.write_bytes(foreign.read_bytes()[:700])
    assert command("sweep", "spiked-wigner", "--over", "snr=1.5:2:3", "-o", str(good))[0] == 0
    cases = {
        str(broken): figure,
        str(foreign): figure,
        str(tmp_path / "none.h5"): figure,
        str(good): str(tmp_path / "f.docx"),
    }
    for file, target in cases.items():
        code, _, err = command("plot", file, "-o", target)
        assert code == 2, file
        assert len(err.strip().splitlines()) == 1
    assert command("plot", str(good), "-o", figure, "--y", "mss")[0] == 2
    assert not Path(figure).exists()
