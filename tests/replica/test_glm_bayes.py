"""Bayes-optimal generalized linear models: values, thresholds and critical lines computed by other
code, and generalisation errors against samples.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import sympy as sp
from scipy import special
from scipy.stats import norm

import replica
from equations.models.glm_bayes import OPTIONS
from replica import InputError, Quantity, X, Z

DATA = Path(__file__).parents[1] / "data"
SLOPE = Quantity("k", "k", 0, open_low=True, meaning="slope of a sigmoid")
K = SLOPE.symbol


def rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((DATA / name).read_text().splitlines()))


def given(row: dict[str, str]) -> dict[str, object]:
    """Options and controls of a row of glm_bayes.csv."""
    prior, _, share = row["prior"].partition(" ")
    channel = {"gaussian": "linear"}.get(row["channel"], row["channel"])
    found: dict[str, object] = {"prior": prior, "channel": channel}
    for text in (share, row["channel_param"]):
        name, _, value = text.partition("=")
        if name:
            found["rho" if name in ("p", "rho") else name] = float(value)
    return found


GOLDEN = [row for row in rows("glm_bayes.csv") if row["converged"] == "1"]
QUICK = ("gaussian", "abs", "1.2"), ("rademacher", "sign", "1.4"), ("gaussian", "sign", "2.0")


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(
            row,
            id=" ".join([*list(row.values())[:5]]),
            marks=[] if (row["prior"], row["channel"], row["alpha"]) in QUICK else pytest.mark.slow,
        )
        for row in GOLDEN
    ],
)
def test_golden_values(row: dict[str, str]) -> None:
    start = "uninformed" if float(row["qhat_init"]) < 1 else "informed"
    solution = replica.solve("glm-bayes", alpha=float(row["alpha"]), **given(row))
    branch = next(b for b in solution.branches if start in b.start.split("+"))
    mmse = float(row["mmse"])
    if mmse < 1e-12:  # their iteration stops at some small number where ours is at the limit
        assert branch.overlaps["V"] < 1e-12
        return
    # Errors are absolute: at V = 1e-6 the stated one is a few 1e-6 of it.
    error = branch.error
    assert error["V"] < 1e-5 * mmse
    assert branch.overlaps["V"] == pytest.approx(mmse, rel=1e-6, abs=error["V"])
    assert branch.conjugates["q_hat"] == pytest.approx(
        float(row["qhat"]), rel=1e-6, abs=error["q_hat"]
    )
    if row["free_entropy"]:
        assert branch.free_energy == pytest.approx(float(row["free_entropy"]), abs=1e-8)
    assert branch.ok


THRESHOLDS = [
    ({"channel": "abs"}, {"weak": 0.5, "alg": 1.128471, "IT": 1.0, "inf": 1.0}),
    ({"prior": "rademacher"}, {"alg": 1.492632, "IT": 1.244684}),
    ({"prior": "rademacher", "channel": "door", "K": 0.67448975}, {"weak": 1.360459, "IT": 1.0}),
]


@pytest.mark.parametrize(
    ("what", "known"),
    [THRESHOLDS[0], *(pytest.param(*t, marks=pytest.mark.slow) for t in THRESHOLDS[1:])],
)
def test_thresholds(what: dict[str, object], known: dict[str, float]) -> None:
    found = replica.thresholds("glm-bayes", **what).to_dict()
    for name, value in known.items():
        assert found[f"alpha_{name}"] == pytest.approx(value, abs=2e-6), name


@pytest.mark.slow
@pytest.mark.parametrize("row", rows("glm_critical_lines.csv"), ids=lambda r: f"rho={r['rho']}")
@pytest.mark.parametrize("channel", ["abs", "relu"])
def test_critical_lines(channel: str, row: dict[str, str]) -> None:
    found = replica.thresholds(
        "glm-bayes", prior="gauss_bernoulli", channel=channel, rho=float(row["rho"])
    ).to_dict()
    for name in ("alg", "IT", "weak"):
        if row.get(f"{channel}_{name}"):
            known = float(row[f"{channel}_{name}"])
            assert found[f"alpha_{name}"] == pytest.approx(known, abs=1e-5), name


def test_the_command_line_shows_q_among_the_overlaps(command) -> None:
    code, out, _ = command("solve", "glm-bayes", "--set", "alpha=1.2", "--json")
    branch = json.loads(out)["branches"][0]
    assert code == 0
    assert branch["overlaps"]["q"] == pytest.approx(1 - branch["overlaps"]["V"], abs=1e-15)
    assert 0 < branch["error"]["q"] < 1e-9 and "q_hat" in branch["conjugates"]
    code, _, err = command("solve", "glm-bayes", "--set", "alpha=1.2", "--set", "rho=0.1")
    assert code == 2 and "no control 'rho'" in err
    code, _, err = command("solve", "glm-bayes", "--set", "channel=sing", "--set", "alpha=1")
    assert code == 2 and "sign" in err


def samples(channel: str, z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    noise = rng.normal(size=z.shape)
    return {
        "linear": lambda: z + np.sqrt(0.3) * noise,
        "sign": lambda: np.sign(z),
        "probit": lambda: np.sign(z + np.sqrt(0.3) * noise),
        "abs": lambda: np.abs(z),
        "relu": lambda: np.maximum(z, 0),
        "logistic": lambda: np.where(rng.random(z.shape) < 1 / (1 + np.exp(-z)), 1.0, -1.0),
    }[channel]()


@pytest.mark.parametrize("channel", [c for c in OPTIONS["channel"] if c != "door"])
def test_generalisation_errors_against_samples(channel: str) -> None:
    rng = np.random.default_rng(5)
    V, size = 0.35, 2000
    known = rng.normal(size=(size, 1)) * np.sqrt(1 - V)
    y = samples(channel, known + np.sqrt(V) * rng.normal(size=(size, size)), rng)
    half, other = y[:, : size // 2], y[:, size // 2 :]
    guess = half.mean(axis=1, keepdims=True)
    if channel in ("sign", "probit", "logistic"):
        each = (np.sign(guess) != other).mean(axis=1)
    else:
        each = ((other - guess) ** 2).mean(axis=1) / (1 + 2 / size)  # the guess is a mean itself
    noise = {"Delta": 0.3} if channel in ("linear", "probit") else {}
    found = replica.evaluate("glm-bayes", at={"V": V}, channel=channel, alpha=1.0, **noise)
    value = found["observables"]["generalisation_error"]
    assert value == pytest.approx(each.mean(), abs=4 * each.std() / np.sqrt(size))


def test_an_unknown_setting_is_one_sentence() -> None:
    with pytest.raises(InputError, match="prior"):
        replica.solve("glm-bayes", prior="gausian", alpha=1.0)


@pytest.mark.parametrize("slope", [50.0, pytest.param(200.0, marks=pytest.mark.slow)])
def test_a_steep_sigmoid_against_grids(slope: float) -> None:
    """P(1|z) underflows in the tails. V = 1/(1 + q_hat), q_hat = alpha sum_y E (dZ/d omega)^2/Z,
    here with both averages on fine grids.
    """
    probabilities = {y: 1 / (1 + sp.exp(-y * K * Z)) for y in (1, -1)}
    model = replica.bayes_glm(replica.normal(X), probabilities, (SLOPE,), name="sigmoid")
    branch = replica.solve(model, alpha=1.5, k=slope).branches[0]
    assert branch.ok
    v = branch.overlaps["V"]
    omega, g = np.linspace(-7, 7, 561) * np.sqrt(1 - v), np.linspace(-9, 9, 12001)
    at = special.expit(slope * (omega[:, None] + np.sqrt(v) * g))
    weights = norm.pdf(g) * (g[1] - g[0])
    z, moved = at @ weights, at @ (weights * g) / np.sqrt(v)
    of_one = np.divide(moved**2, z, out=np.zeros_like(z), where=z > 0)
    force = 2 * np.sum(norm.pdf(omega / np.sqrt(1 - v)) * of_one)  # the labels are alike
    q_hat = 1.5 * force * (omega[1] - omega[0]) / np.sqrt(1 - v)
    assert v == pytest.approx(1 / (1 + q_hat), abs=1e-7)
