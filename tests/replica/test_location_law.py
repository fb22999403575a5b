"""A location law p_eps in slr-bayes: Monte Carlo with the posterior weights, limits, laws that are
none.
"""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy as sp
from typer.testing import CliRunner

import replica
from equations import MODELS
from equations.slr.laws import location_option, read_location
from replica.check import EXPERIMENTS
from replica.cli import app
from replica.lowering.lower import NodeSizes
from replica.theories.equations import CompiledEquations
from replica.theories.sampled_saddle_point import two_standard_errors

POINT = {"alpha": 1.4, "nu": 1.0, "Delta": 0.01}


def values(
    location: str | None, x: list[float], *, L: int, alpha: float, nu: float, Delta: float
) -> tuple[np.ndarray, float, np.ndarray]:
    """Conjugates, free entropy and observables at given overlaps."""
    problem = CompiledEquations(MODELS["slr-bayes"].build(location=location), NodeSizes(), "exact")
    return jax.tree.map(
        np.asarray, jax.jit(problem.values)(jnp.array([alpha, L, nu, Delta]), jnp.array(x))
    )


def monte_carlo(
    p: list[float],
    q_k: float,
    q_v: float,
    *,
    alpha: float,
    nu: float,
    Delta: float,
    n: int = 400_000,
) -> dict[str, np.ndarray]:
    """Per-sample values: eps ~ p is drawn; s = softmax(log p + sqrt(nu) omega_k - (y -
    omega_v)^2/2V), at test time without the label.
    """
    rng, log_p = np.random.default_rng(5), np.log(p)
    eps = rng.choice(len(p), size=n, p=p)
    key, field = (
        np.sqrt(q_k) * rng.standard_normal((n, len(p))),
        np.sqrt(q_v) * rng.standard_normal((n, len(p))),
    )
    width, rows = 1 - q_v + Delta, np.arange(n)
    key[rows, eps] += np.sqrt(nu) * q_k
    y = field[rows, eps] + np.sqrt(width) * rng.standard_normal(n)
    test = log_p + np.sqrt(nu) * key
    train = test - (y[:, None] - field) ** 2 / (2 * width)
    s, t = (np.exp(a - np.logaddexp.reduce(a, axis=1, keepdims=True)) for a in (train, test))
    return {
        "q_k_hat": alpha * nu * np.sum(s**2, axis=1),
        "q_v_hat": alpha * np.sum(s**2 * (y[:, None] - field) ** 2, axis=1) / width**2,
        "attention_mass": t[rows, eps],
        "psi": np.logaddexp.reduce(train, axis=1) - nu * q_k / 2 - np.log(2 * np.pi * width) / 2,
    }


@pytest.mark.parametrize(
    "p", [[0.7, 0.3], pytest.param([0.5, 0.2, 0.2, 0.1], marks=pytest.mark.slow)]
)
def test_channel_against_monte_carlo(p: list[float]) -> None:
    q_k, q_v, given = 0.45, 0.7, {"alpha": 1.4, "nu": 2.0, "Delta": 0.1}
    hats, phi, seen = values(",".join(map(str, p)), [q_k, q_v], L=len(p), **given)
    psi = (
        float(phi)
        - sum((h - np.log1p(h)) / 2 - q * h / 2 for q, h in zip((q_k, q_v), hats, strict=True))
    ) / given["alpha"]
    ours = {"q_k_hat": hats[0], "q_v_hat": hats[1], "attention_mass": seen[2], "psi": psi}
    for name, sample in monte_carlo(p, q_k, q_v, **given).items():
        assert abs(ours[name] - sample.mean()) < 4 * sample.std() / np.sqrt(len(sample)), name


@pytest.mark.slow
def test_routes_agree() -> None:
    """Token classes by the Laplace rule, and every token explicit with the planted class summed:
    conjugates and observables.
    """
    location, x = "0.5,0.3x1,0.1x2", jnp.array([0.45, 0.7])
    hats, _, seen = values(location, [0.45, 0.7], L=4, **POINT)
    rule = NodeSizes(tokens=4, log2_samples=11)
    explicit = CompiledEquations(MODELS["slr-bayes"].build(location=location), rule, "sampled")
    sets = jax.jit(lambda c: (explicit.conjugates(c, x)(x), explicit.observables(c, x)))
    runs = [
        np.concatenate(sets(jnp.array([POINT["alpha"], 4, POINT["nu"], POINT["Delta"], k])))
        for k in range(rule.scrambles)
    ]
    error = np.asarray(two_standard_errors(np.array(runs)))
    assert np.all(error < 0.03)
    assert np.all(np.abs(np.mean(runs, axis=0) - np.concatenate([hats, seen])) < 2 * error + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("location", "tokens", "default"), [("1/3x3", 3, 3), ("1,0,0", 3, 1)])
def test_limits(location: str, tokens: int, default: int) -> None:
    """Equal probabilities are the default; a location that is known leaves one token, however many
    there are.
    """
    x = [0.45, 0.7]
    ours, known = values(location, x, L=tokens, **POINT), values(None, x, L=default, **POINT)
    for one, other in zip(ours, known, strict=True):
        assert one == pytest.approx(other, abs=1e-9)


@pytest.mark.slow
def test_command_line() -> None:
    arguments = [
        "solve",
        "slr-bayes",
        "--set",
        "location=0.7,0.3",
        *(f for n, v in POINT.items() for f in ("--set", f"{n}={v}")),
        "--json",
    ]
    done = CliRunner().invoke(app, [*arguments, "--set", "L=2"])
    assert done.exit_code == 0, done.output
    seen = json.loads(done.output)
    assert seen["options"] == {"location": "7/10,3/10", "rule": "spiked"}
    assert seen["controls"]["L"] == 2
    assert seen["risk"]["algorithmic"] < 0.5


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("0.5,0.4", "sums to 0.9"),
        ("1.2,-0.2", "probabilities start at 0"),
        ("0.5,half", "write one probability per token"),
        ("0.5x0,0.5x2", "0 tokens"),
        ("", "write one probability per token"),
        ("0.5,nan", "write one probability per token"),
    ],
)
def test_laws_that_are_none(value: str, sentence: str) -> None:
    with pytest.raises(replica.InputError, match=sentence):
        replica.solve("slr-bayes", location=value, **POINT)


def test_readings() -> None:
    assert read_location([0.25, 0.5, 0.25]) == ((1, sp.Rational(1, 2)), (2, sp.Rational(1, 4)))
    assert location_option("0.1x4, 0.6") == "3/5,1/10x4"
    assert location_option(np.array([1 / 3] * 3).tolist()).endswith("x3")


def test_what_does_not_go_with_it() -> None:
    for other, sentence in (
        ({"rule": "max", "L": 2}, "rule = spiked"),
        ({"L": "1:0.5,2:0.5"}, "not a length law"),
        ({"L": 3}, "left out"),
    ):
        with pytest.raises(replica.InputError, match=sentence):
            replica.solve("slr-bayes", location="0.5,0.5", **POINT | other)
    with pytest.raises(replica.InputError, match="uniform location"):
        EXPERIMENTS["slr-bayes"].planned({"location": "0.7,0.3", **POINT})
