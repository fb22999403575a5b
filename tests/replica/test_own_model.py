"""Models of the user's own, each in one file: the three of tests/data/models through every command,
and every mistake named.
"""

from __future__ import annotations

import csv
import json
import pickle
import re
import sys
from pathlib import Path

import distributed
import numpy as np
import pytest
import sympy as sp
from scipy.integrate import quad
from scipy.stats import norm

import replica
from replica import InputError, StoreError, X, Y, Z, bayes_glm, normal, quantity
from replica.jobs import workers
from replica.models import built

DATA = Path(__file__).parents[1] / "data"
SENSING, CLASSIFICATION, PRODUCT, DOOR, RETRIEVAL = (
    str(DATA / "models" / f"{name}.py")
    for name in (
        "compressed_sensing",
        "classification",
        "sign_product",
        "symmetric_door",
        "phase_retrieval",
    )
)
AT = {"rho": 0.1, "Delta": 1e-5}
GIVEN = ["--set", "rho=0.1", "--set", "Delta=1e-5"]


def rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((DATA / name).read_text().splitlines()))


# compressed sensing -------------------------------------------------------------------------------


def test_solve_and_eval_from_the_command_line(command) -> None:
    code, out, _ = command("solve", SENSING, "--set", "alpha=0.18", *GIVEN, "--json")
    result = json.loads(out)
    assert code == 0 and result["model"] == "compressed-sensing" and len(result["branches"]) == 2
    assert result["risk"]["algorithmic"] == pytest.approx(0.045453156509, rel=1e-9)
    best = result["branches"][result["best"]]
    assert best["start"] == "informed" and best["overlaps"]["V"] == pytest.approx(
        1.82738384e-5, rel=1e-5
    )
    code, out, _ = command(
        "eval",
        SENSING,
        "--set",
        "alpha=0.18",
        *GIVEN,
        "--at",
        f"V={best['overlaps']['V']!r}",
        "--json",
    )
    assert code == 0 and json.loads(out)["residual"] < 1e-10
    assert json.loads(out)["conjugates"]["q_hat"] == pytest.approx(
        0.18 / (1e-5 + best["overlaps"]["V"]), rel=1e-12
    )


def test_the_same_from_python_and_against_golden_values() -> None:
    for row in rows("glm_bayes.csv"):
        if row["prior"] != "gauss_bernoulli rho=0.1":
            continue
        noise = float(row["channel_param"].partition("=")[2])
        start = "uninformed" if float(row["qhat_init"]) < 1 else "informed"
        branch = replica.solve(
            Path(SENSING), alpha=float(row["alpha"]), rho=0.1, Delta=noise
        ).branch(start)
        assert branch.ok
        assert branch.overlaps["V"] == pytest.approx(float(row["mmse"]), rel=1e-6)
        assert branch.conjugates["q_hat"] == pytest.approx(float(row["qhat"]), rel=1e-6)
        assert branch.free_energy == pytest.approx(float(row["free_entropy"]), abs=2e-9)


@pytest.mark.parametrize(
    ("K", "every"),
    [("1.5", 10), *(pytest.param(K, 1, marks=pytest.mark.slow) for K in ("0.5", "1.0", "1.5"))],
)
def test_the_symmetric_door(K: str, every: int) -> None:
    """Jumps on either side of the mean; V = 0 at the informed start."""
    known = [row for row in rows("door.csv") if row["K"] == K][::every]
    alphas = sorted({float(row["alpha"]) for row in known})
    found = replica.sweep(DOOR, over={"alpha": np.array(alphas)}, K=float(K))
    assert not np.any(found.status)
    for row in known:
        start = "uninformed" if float(row["initial_q_hat"]) < 1 else "informed"
        value = float(found.V.sel(alpha=float(row["alpha"]), branch=start))
        assert value == pytest.approx(float(row["mmse"]), abs=1e-5)


def test_the_conjugate_of_the_door_at_small_errors() -> None:
    """q_hat sqrt(V) -> 2 alpha phi(K) int phi^2/(Phi (1 - Phi)), down to V = 1e-14 and at 0."""
    steep = quad(lambda t: np.exp(2 * norm.logpdf(t) - norm.logcdf(t) - norm.logsf(t)), -30, 30)[0]
    limit = 2 * 1.2 * norm.pdf(0.5) * steep
    for V, precision in ((1e-8, 1e-4), (1e-12, 1e-6), (1e-14, 1e-5), (0.0, 1e-2)):
        q_hat = replica.evaluate(DOOR, at={"V": V}, alpha=1.2, K=0.5)["conjugates"]["q_hat"]
        assert q_hat * max(V, 1e-30) ** 0.5 == pytest.approx(limit, rel=precision)


@pytest.mark.parametrize(("alpha", "sign"), [(1.3, 1), (1.0001, 1), (0.9, -1)])
def test_an_infinite_free_energy_is_said_to_be(alpha: float, sign: int) -> None:
    """Phi -> (alpha - 1)/2 log(1/V) where a continuous signal is recovered without noise."""
    solution = replica.solve(RETRIEVAL, alpha=alpha)
    recovered = next(b for b in solution.branches if "informed" in b.start.split("+"))
    assert recovered.overlaps["V"] == 0 and recovered.error["V"] < 1e-12
    assert recovered.free_energy == sign * np.inf
    assert (solution.equilibrium is recovered) == (sign > 0) == recovered.ok
    assert (recovered.status is replica.Status.INFINITE_ENERGY) == (sign > 0)
    assert json.dumps(solution.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    "row", rows("cs_hard_phase.csv")[1:9:2], ids=lambda r: f"rho={r['rho']}, Delta={r['Delta']}"
)
def test_thresholds(row: dict[str, str]) -> None:
    found = replica.thresholds(SENSING, rho=float(row["rho"]), Delta=float(row["Delta"]))
    for name, column in (
        ("alpha_inf", "alpha_informed_spinodal"),
        ("alpha_IT", "alpha_IT"),
        ("alpha_alg", "alpha_alg"),
    ):
        assert getattr(found, name) == pytest.approx(float(row[column]), abs=1e-5)
        assert found.error[name] < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    "row", rows("cs_hard_phase.csv"), ids=lambda r: f"rho={r['rho']}, Delta={r['Delta']}"
)
def test_every_threshold(row: dict[str, str]) -> None:
    found = replica.thresholds(SENSING, rho=float(row["rho"]), Delta=float(row["Delta"]))
    assert (found.transition == "first-order") == (row["has_hard_phase"] == "1")
    for name, column in (
        ("alpha_inf", "alpha_informed_spinodal"),
        ("alpha_IT", "alpha_IT"),
        ("alpha_alg", "alpha_alg"),
    ):
        assert getattr(found, name) == (
            pytest.approx(float(row[column]), abs=1e-5) if row[column] else None
        )


@pytest.mark.slow
def test_phase_diagram_and_curve(command, tmp_path: Path) -> None:
    code, _, _ = command(
        "phase",
        SENSING,
        "--over",
        "rho=0.1:0.6:3",
        "--set",
        "Delta=1e-5",
        "-o",
        str(tmp_path / "p.h5"),
        "--quiet",
    )
    lines = replica.load(tmp_path / "p.h5")
    assert code == 0 and lines.attrs["source_file"] == SENSING
    assert float(lines.alpha_alg.sel(rho=0.1)) == pytest.approx(0.207684, abs=1e-5)
    assert float(lines.alpha_inf.sel(rho=0.6)) == pytest.approx(0.689933, abs=1e-5)
    code, _, _ = command(
        "phase", SENSING, *GIVEN, "--curve", "-o", str(tmp_path / "c.h5"), "--quiet"
    )
    curve = replica.load(tmp_path / "c.h5")
    assert code == 0 and sorted(f["value"] for f in curve.attrs["folds"]) == pytest.approx(
        [0.142820, 0.207684], abs=1e-5
    )
    assert float(curve.residual.max()) < 1e-9 and (curve.V > 0).all()
    assert float((curve.error_V / curve.V).max()) < 1e-3


def test_show(command) -> None:
    code, out, _ = command("show", SENSING)
    assert (
        code == 0
        and "q_hat = alpha/(Delta + V)" in out
        and "compressed_sensing.py" in out
        and "Phys. Rev. X" in out
    )
    code, out, _ = command("show", SENSING, "--latex")
    assert (
        code == 0
        and out.count("{") == out.count("}")
        and r"\hat q = \frac{\alpha}{\Delta + V}" in out
    )


def test_sweep_resume_and_a_file_that_was_changed(command, tmp_path: Path) -> None:
    """The text of the model is part of the settings, its place is not."""
    mine, moved, file = tmp_path / "mine.py", tmp_path / "moved.py", tmp_path / "x.h5"
    mine.write_text(Path(SENSING).read_text())
    sweep = ["--over", "alpha=0.15:0.25:3", *GIVEN, "-o", str(file), "--quiet"]
    assert command("sweep", str(mine), *sweep)[0] == 0
    stored = replica.load(file)
    assert stored.attrs["source_file"] == str(mine) and float(
        stored.V.sel(branch="uninformed")[-1]
    ) == pytest.approx(8.12422616e-6, rel=1e-4)
    moved.write_text(mine.read_text())
    assert command("sweep", str(moved), *sweep, "--resume")[0] == 0
    mine.write_text(mine.read_text() + "\n# changed\n")
    with pytest.raises(
        StoreError, match=r"other settings \(source_sha256 is \w+ there and \w+ here\)"
    ):
        replica.sweep(str(mine), over={"alpha": [0.15, 0.2, 0.25]}, file=file, resume=True, **AT)


def test_check_by_the_simulation_in_the_file_and_by_measurements(command, tmp_path: Path) -> None:
    code, out, _ = command(
        "check",
        SENSING,
        "--D",
        "250,500,1000",
        "--trials",
        "6",
        "--set",
        "alpha=0.4",
        "--set",
        "rho=0.2",
        "--set",
        "Delta=0.01",
    )
    assert code == 0 and "agree" in out and "mmse" in out
    table = tmp_path / "runs.csv"
    table.write_text("alpha,V,V_error\n0.18,0.0455,0.001\n0.2,0.06,0.001\n")
    code, out, err = command("check", SENSING, "--csv", str(table), *GIVEN, "--start", "uninformed")
    assert code == 1 and "disagree" in err and "V at alpha=0.2" in err and "alpha=0.18" not in err


def test_the_text_of_the_file_is_what_workers_get(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(Path(SENSING).read_text())
    reference = pickle.loads(pickle.dumps(workers.Reference.of(built(str(mine), {})[0], str(mine))))
    mine.unlink()
    assert reference.pickled is None
    assert workers._found(reference).source.file == str(mine)


@pytest.mark.slow
def test_workers_compute_the_same(tmp_path: Path) -> None:
    over = {"alpha": np.linspace(0.15, 0.25, 6)}
    whole = replica.sweep(SENSING, over=over, **AT)
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        spread = replica.sweep(
            SENSING, over=over, dask=cluster.scheduler_address, file=tmp_path / "x.h5", **AT
        )
    np.testing.assert_array_equal(spread.V.values, whole.V.values)


@pytest.mark.slow
@pytest.mark.parametrize("channel", ["sign", "door", "abs", "relu"])
def test_channels_against_golden_values(channel: str) -> None:
    half = sp.Rational(1, 2)
    priors = {
        "gaussian": normal(X),
        "rademacher": half * (sp.DiracDelta(X - 1) + sp.DiracDelta(X + 1)),
        "binary p=0.25": half / 2 * sp.DiracDelta(X - 1) + 3 * half / 2 * sp.DiracDelta(X + 1),
        "gauss_bernoulli rho=0.4": 3 * sp.DiracDelta(X) / 5 + 2 * normal(X) / 5,
    }
    outputs = {
        "sign": sp.sign(Z),
        "door": sp.sign(sp.Abs(Z) - sp.Float("0.67448975")),
        "abs": sp.Abs(Z),
        "relu": sp.Max(Z, 0),
    }
    chosen = [
        row
        for row in rows("glm_bayes.csv")
        if row["channel"] == channel and row["converged"] == "1"
    ]
    assert len(chosen) >= 2
    models = {
        name: bayes_glm(priors[name], sp.Eq(Y, outputs[channel]))
        for name in {row["prior"] for row in chosen}
    }
    for row in chosen:
        start = "uninformed" if float(row["qhat_init"]) < 1 else "informed"
        branch = replica.solve(models[row["prior"]], alpha=float(row["alpha"])).branch(start)
        expected = float(row["mmse"])
        if expected < 1e-9:  # perfect recovery
            assert branch.overlaps["V"] < 1e-9
            continue
        assert branch.overlaps["V"] == pytest.approx(expected, rel=1e-6)
        if row["free_entropy"]:
            assert branch.free_energy == pytest.approx(float(row["free_entropy"]), abs=1e-7)


# classification -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_logistic_regression() -> None:
    """Reference: an independent replica-symmetric code, to eight digits."""
    branch = replica.solve(CLASSIFICATION, alpha=2, lam=0.1).branches[0]
    assert branch.ok
    for name, value in {"q": 4.14580362, "m": 1.72031309, "V": 3.97654579}.items():
        assert branch.overlaps[name] == pytest.approx(value, abs=2e-7)
    assert branch.observables["energy"] == pytest.approx(branch.free_energy, abs=1e-9)
    harder = replica.solve(CLASSIFICATION, alpha=0.5, lam=0.01).branches[0]
    assert harder.observables["risk"] == pytest.approx(0.32291383, abs=1e-7)
    assert harder.observables["risk"] == pytest.approx(
        np.arccos(harder.observables["cosine"]) / np.pi, abs=1e-9
    )


@pytest.mark.slow
def test_check_of_logistic_regression(command) -> None:
    code, out, _ = command(
        "check",
        CLASSIFICATION,
        "--D",
        "200,400,800",
        "--trials",
        "10",
        "--set",
        "alpha=2",
        "--set",
        "lam=0.1",
    )
    assert code == 0 and "agree" in out and "risk" in out


@pytest.mark.parametrize("lam", [0.2, 0.5, 1.0])
def test_replicon_of_the_hinge_loss_in_closed_form(lam: float) -> None:
    """alpha P(1 - V < y omega < 1): there the corner holds the minimiser."""
    branch = replica.solve(CLASSIFICATION, loss="hinge", alpha=2, lam=lam).branches[0]
    m, q, v = (branch.overlaps[name] for name in ("m", "q", "V"))

    def density(u: float) -> float:
        return float(2 * norm.pdf(u, 0, np.sqrt(q)) * norm.cdf(u * m / np.sqrt(q * (q - m * m))))

    assert branch.ok
    assert branch.observables["replicon"] == pytest.approx(2 * quad(density, 1 - v, 1)[0], abs=1e-9)


@pytest.mark.slow
def test_hinge_loss_against_a_fit_in_the_dual() -> None:
    """A loss with a kink, its minimiser by coordinate ascent in the dual: q and m at D = 600."""
    theory = replica.solve(CLASSIFICATION, loss="hinge", alpha=2, lam=0.5).branches[0]
    assert theory.ok and theory.observables["replicon"] < 1
    found = np.array([_hinge(600, seed) for seed in range(8)])
    for column, name in enumerate(("m", "q")):
        mean, error = found[:, column].mean(), found[:, column].std(ddof=1) / np.sqrt(len(found))
        assert abs(mean - theory.overlaps[name]) < 4 * error + 3 / 600


def _hinge(D: int, seed: int, alpha: float = 2.0, lam: float = 0.5) -> tuple[float, float]:
    rng = np.random.default_rng(seed)
    teacher = rng.normal(size=D)
    x = rng.normal(size=(int(alpha * D), D)) / np.sqrt(D)
    signed = np.sign(x @ teacher)[:, None] * x
    dual, w, squares = np.zeros(len(x)), np.zeros(D), np.sum(signed**2, axis=1)
    for _ in range(200):
        for i in rng.permutation(len(x)):
            new = np.clip(dual[i] + lam * (1 - signed[i] @ w) / squares[i], 0, 1)
            w += (new - dual[i]) * signed[i] / lam
            dual[i] = new
    return w @ teacher / np.sqrt(D * (teacher @ teacher)), w @ w / D


# a free energy ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_sign_of_a_product() -> None:
    expected = {2.3: 0.0, 2.55: 0.034407, 3.0: 0.242706, 6.0: 0.896925}
    for alpha, q in expected.items():
        solution = replica.solve(PRODUCT, alpha=alpha)
        assert len(solution.branches) == 1 and solution.branches[0].overlaps["q"] == pytest.approx(
            q, abs=2e-6
        )
    found = replica.thresholds(PRODUCT, within=(1, 10))
    assert found.transition == "continuous" and found.alpha_alg == pytest.approx(
        np.pi**2 / 4, abs=1e-8
    )


@pytest.mark.slow
def test_a_free_energy_is_shown_and_evaluated(command) -> None:
    code, out, _ = command("show", PRODUCT)
    assert code == 0 and "q = 1 - 1/(q_hat + 1)" in out.replace(
        "q = 1 - 1/(1 + q_hat)", "q = 1 - 1/(q_hat + 1)"
    )
    found = replica.evaluate(PRODUCT, {"q": 0.242706}, alpha=3)
    assert found["residual"] < 1e-6 and found["spectral_radius"] < 1


# mistakes -----------------------------------------------------------------------------------------

HEAD = """
from sympy import *
from replica import Model, conjugate, gaussian_term, quantity
alpha, q = quantity("alpha"), quantity("q")
q_hat = conjugate(q)
def raw(**changes):
    fields = dict(name="mine", title="", setting="", overlaps=(q,), conjugates=(q_hat,),
        controls=(alpha,), prior=gaussian_term(q_hat.symbol),
        coupling=-q.symbol * q_hat.symbol / 2, channel=alpha.symbol * q.symbol / 4,
        observables={"risk": 1 - q.symbol}, starts={"uninformed": {"q": 1e-3}}, sources=())
    return Model(**(fields | changes))
"""
MISTAKES = {
    "room": (
        "from equations.priors import bernoulli",
        r"No module named 'equations\.priors': a model's file imports all .* from replica",
    ),
    "syntax": ("def build(:\n", r"mine\.py, line \d+: invalid syntax"),
    "name": (
        "def build(): return raw(channel=alhpa.symbol)",
        r"mine\.py, line 12: NameError: name 'alhpa' is not defined",
    ),
    "import": (
        "import not_there",
        r"mine\.py, line 12: ModuleNotFoundError: No module named 'not_there'",
    ),
    "exit": ("import sys; sys.exit(3)", r"mine\.py, line 12: SystemExit: 3"),
    "no build": ("x = 1", r"mine\.py has no build\(\): define build\(\), which returns a Model"),
    "not a model": (
        "def build(): return 3",
        r"mine\.py: build\(\) returned int: it must return a Model",
    ),
    "options": (
        "OPTIONS = {'a': 'b'}\ndef build(a): return raw()",
        r"mine\.py: OPTIONS must be a dict of name -> tuple of strings",
    ),
    "undeclared": (
        "def build(): return raw(channel=Symbol('beta') * q.symbol)",
        "contains beta, which is not an overlap, conjugate or control",
    ),
    "other symbol": (
        "def build(): return raw(channel=Symbol('alpha') * q.symbol)",
        "a symbol alpha with other assumptions than the declared one",
    ),
    "no equation": (
        "def build(): return raw(channel=alpha.symbol)",
        (
            r"mine\.py: model mine: the channel term does not contain q, so that an equation is"
            r" missing"
        ),
    ),
    "no conjugate": (
        "def build(): return raw(overlaps=(q, quantity('q_k')))",
        "2 overlaps and 1 conjugates: each overlap needs its own",
    ),
    "start": ("def build(): return raw(starts={'a': {}})", "start 'a' has no value for q"),
    "number": (
        "def build(): return raw(observables={'risk': 1.0})",
        r"risk is 1\.0 \(float\): it must be a SymPy expression",
    ),
    "lowering": (
        "def build(): return raw(channel=besselj(0, q.symbol))",
        r"mine\.py: model mine: no lowering for besselj in besselj\(0, q\)",
    ),
    "undefined": (
        "def build(): return raw(channel=alpha.symbol * Function('f')(q.symbol))",
        r"no lowering for f in f\(q\)",
    ),
    "piecewise": (
        "def build(): return raw(channel=Piecewise((q.symbol, q.symbol > 0.1)))",
        r"is not total: end it with \(value, True\)",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_sentence_with_the_file_and_code_2(
    command, name: str, tmp_path: Path
) -> None:
    text, message = MISTAKES[name]
    (tmp_path / "mine.py").write_text(HEAD + text + "\n")
    code, out, err = command("solve", str(tmp_path / "mine.py"), "--set", "alpha=1")
    assert code == 2 and not out and err.startswith("replica: ") and err.count("\n") == 1
    assert re.search(message, err), err


def test_what_is_not_finite_is_named(command, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(HEAD + "def build(): return raw(channel=alpha.symbol * sqrt(q.symbol - 0.5))\n")
    code, _, err = command("solve", str(mine), "--set", "alpha=1")
    assert code == 2 and re.search(
        r"mine\.py: q_hat is nan at the uninformed start \(q = 0\.001\): check its formula there",
        err,
    ), err


def test_names_values_and_simulations_that_are_wrong(command, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    body = (
        "OPTIONS = {'kind': ('a', 'b')}\ndef build(kind='a'): return raw()\ndef simulate(controls,"
        " D, generator): return {'p': 1}\n"
    )
    mine.write_text(HEAD + body)
    for given, message in (
        ("alhpa=1", "no control 'alhpa': did you mean alpha"),
        ("alpha=x", "not a number"),
        ("kind=c", "no kind 'c'"),
    ):
        code, _, err = command("solve", str(mine), "--set", given)
        assert code == 2 and message in err, err
    assert replica.solve(str(mine), alpha=1, kind="b").model.options == {"kind": "b"}
    code, _, err = command("check", str(mine), "--set", "alpha=1")
    assert code == 2 and "simulate() returned 'p', which is no overlap or observable of mine" in err
    mine.write_text(HEAD + "def build(): return raw()\n")
    code, _, err = command("check", str(mine), "--set", "alpha=1")
    assert (
        code == 2
        and "has no simulate(): add simulate(controls, D, generator)" in err
        and "--csv FILE" in err
    )
    code, _, err = command("solve", str(tmp_path / "none.py"))
    assert code == 2 and "cannot read the model" in err and "none.py" in err


def test_what_lies_beside_the_file_can_be_imported_and_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "my_blocks.py").write_text("SHARE = 0.25\n")
    (tmp_path / "json.py").write_text("raise RuntimeError\n")
    mine = tmp_path / "mine.py"
    mine.write_text(
        HEAD + "import json\nfrom my_blocks import SHARE\ndef build(): return raw(channel=SHARE *"
        " alpha.symbol * q.symbol)\n"
    )
    before = list(sys.path)
    q = replica.solve(str(mine), alpha=2).branches[0].overlaps["q"]
    assert (
        q == pytest.approx(0.5, abs=1e-9) and sys.path == before
    )  # q_hat = 2 * 2 * 0.25 = 1, q = 1/2


def test_thresholds_of_a_convex_problem_are_refused() -> None:
    with pytest.raises(InputError, match="no uninformed and informed branch to compare"):
        replica.thresholds(CLASSIFICATION, lam=1)


def test_an_own_model_is_also_a_model_in_python() -> None:
    model = bayes_glm(
        normal(X),
        normal(Y, Z, quantity("Delta", open_low=True).symbol),
        (quantity("Delta", open_low=True),),
    )
    found = replica.evaluate(model, {"V": float(np.sqrt(2) - 1)}, alpha=2, Delta=1)
    assert found["residual"] < 1e-12  # Gaussian prior, noise 1, alpha = 2: V = sqrt(2) - 1


def test_the_models_of_the_documentation_are_models() -> None:
    page = (Path(__file__).parents[2] / "docs" / "own_model.md").read_text()
    blocks = [b for b in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "return" in b]
    assert len(blocks) == 3
    for block in blocks:
        namespace: dict[str, object] = {}
        exec(compile(block, "docs/own_model.md", "exec"), namespace)
        assert isinstance(namespace["build"](), replica.Model)  # type: ignore[operator]
