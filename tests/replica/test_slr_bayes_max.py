"""slr-bayes with the location drawn from softmax(nu chi*): quadrature at L = 2, limits, reference
values, thresholds.
"""

from __future__ import annotations

import csv
import json
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy as sp
from scipy.special import log_ndtr
from scipy.stats import norm
from typer.testing import CliRunner

import replica
from equations import MODELS, derive
from equations.quantities import quantity
from equations.slr.max_rule import STRENGTH, log_evidence, posterior_square
from equations.slr.planted_average import PlantedAverage, Score, Slope
from replica import Settings, Status
from replica.cli import app
from replica.lowering.lower import NodeSizes, function
from replica.theories.equations import CompiledEquations
from replica.theories.sampled_saddle_point import two_standard_errors

ROWS = list(csv.DictReader((Path(__file__).parents[1] / "data" / "slr_bayes_max.csv").open()))
INF = float("inf")
SMALL = NodeSizes(log2_samples=11, tokens=2, winner=57)


@cache
def problems(rule: NodeSizes) -> tuple[CompiledEquations, CompiledEquations]:
    model = MODELS["slr-bayes"].build(rule="max")
    return CompiledEquations(model, rule, "exact"), CompiledEquations(
        model, rule, "exact", one_set=True
    )


@cache
def compiled(rule: NodeSizes) -> object:
    every, one = problems(rule)

    def all_sets(c: jax.Array, x: jax.Array) -> tuple[object, ...]:
        return every.values(c, x), jax.lax.map(
            lambda k: one.values(jnp.append(c, k), x), jnp.arange(rule.scrambles, dtype=float)
        )

    return jax.jit(all_sets)


def at(
    q_k: float,
    q_v: float,
    rule: NodeSizes = SMALL,
    *,
    alpha: float = 1.0,
    L: float = 2,
    nu: float = INF,
    Delta: float = 0.1,
) -> dict[str, tuple]:
    """Conjugates, free entropy and attention mass at given overlaps, each with twice its standard
    error.
    """
    values, sets = compiled(rule)(jnp.array([alpha, L, nu, Delta]), jnp.array([q_k, q_v]))
    (hats, phi, seen), (hats_s, phi_s, seen_s) = (
        jax.tree.map(np.asarray, v) for v in (values, sets)
    )
    spread = [np.asarray(two_standard_errors(v)) for v in (hats_s, phi_s, seen_s)]
    return {
        "q_k_hat": (hats[0], spread[0][0]),
        "q_v_hat": (hats[1], spread[0][1]),
        "free_entropy": (float(phi), float(spread[1])),
        "attention_mass": (seen[2], spread[2][2]),
    }


def quadrature(q_k: float, q_v: float, delta: float) -> dict[str, float]:
    """L = 2, nu = inf: everything depends on d = omega_k,1 - omega_k,2 ~ N(0, 2 q_k), on e =
    omega_v,1 - omega_v,2 and on the label noise.

    Z = N(y - omega_v,1) [P_1 + P_2 e^{-(b^2 - a^2)/2V}], a = y - omega_v,1, b = a + e, P_1 =
    Phi(d/sqrt(2 V_k)); eps = 1 by symmetry.
    """
    v_k, v = 1 - q_k, 1 - q_v + delta
    narrow = np.sqrt(2 * v_k)
    t = np.linspace(-1, 1, 161) * np.arcsinh(9 * np.sqrt(2 * q_k) / narrow)
    d = narrow * np.sinh(t)
    weight_d = np.gradient(t) * narrow * np.cosh(t) * norm.pdf(d, scale=np.sqrt(2 * q_k))
    e, a = (s * np.linspace(-8, 8, n) for s, n in ((np.sqrt(2 * q_v), 161), (np.sqrt(v), 81)))
    weight_e = np.gradient(e) * norm.pdf(e, scale=np.sqrt(2 * q_v))
    weight_a = np.gradient(a) * norm.pdf(a, scale=np.sqrt(v))
    log_p1, log_p2 = (log_ndtr(s * d / narrow)[:, None, None] for s in (1, -1))
    odds = ((a + e[:, None]) ** 2 - a**2) / (2 * v)
    log_sum = np.logaddexp(log_p1, log_p2 - odds)
    s2 = np.exp(log_p2 - odds - log_sum)
    score_d = (norm.pdf(d, scale=narrow))[:, None, None] * (1 - np.exp(-odds)) * np.exp(-log_sum)
    weight = (
        2 * np.exp(log_p1) * weight_d[:, None, None] * weight_e[:, None] * weight_a
    )  # 2 P_1: either location
    squares = (1 - s2) ** 2 * a**2 + s2**2 * (a + e[:, None]) ** 2
    psi = np.sum(weight * log_sum) - (1 + np.log(2 * np.pi * v)) / 2
    return {
        "psi": psi,
        "q_k_hat": 2 * np.sum(weight * score_d**2),
        "q_v_hat": np.sum(weight * squares) / v**2,
        "attention_mass": np.sum(weight_d * (np.exp(2 * log_p1) + np.exp(2 * log_p2))[:, 0, 0]),
    }


@pytest.mark.parametrize(
    ("q_k", "q_v", "delta"),
    [(0.2, 0.6, 0.1), (0.66, 0.9, 0.1), (0.999, 0.8, 0.1), (1 - 1e-6, 0.5, 0.3)],
)
def test_two_tokens_against_quadrature(q_k: float, q_v: float, delta: float) -> None:
    seen, exact = at(q_k, q_v, Delta=delta), quadrature(q_k, q_v, delta)
    for name, largest in (("q_k_hat", 0.1), ("q_v_hat", 0.02), ("attention_mass", 0.01)):
        value, error = seen[name]
        assert error < largest * max(1.0, exact[name]), name
        assert abs(value - exact[name]) < 2 * error + 1e-6, name
    # Phi contains the conjugates, whose errors are large near q = 1: compare Psi_out itself.
    sampled_hats = [seen[n][0] for n in ("q_k_hat", "q_v_hat")]
    psi = seen["free_entropy"][0] - sum(
        (h - np.log1p(h)) / 2 - q * h / 2 for q, h in zip((q_k, q_v), sampled_hats, strict=True)
    )
    assert psi == pytest.approx(exact["psi"], abs=6e-3)


def test_conjugates_are_the_slope_of_psi_out() -> None:
    """The derivative rule, q_a_hat = 2 alpha dPsi/dq_a, on the quadrature (which shares nothing
    with the samples).
    """
    q_k, q_v, h = 0.5, 0.6, 1e-3
    exact = quadrature(q_k, q_v, 0.1)
    by_k = (quadrature(q_k + h, q_v, 0.1)["psi"] - quadrature(q_k - h, q_v, 0.1)["psi"]) / h
    by_v = (quadrature(q_k, q_v + h, 0.1)["psi"] - quadrature(q_k, q_v - h, 0.1)["psi"]) / h
    assert exact["q_k_hat"] == pytest.approx(by_k, rel=1e-4)
    assert exact["q_v_hat"] == pytest.approx(by_v, rel=1e-4)


def test_equations_are_derived_by_the_nishimori_rule() -> None:
    model = MODELS["slr-bayes"].build(rule="max")
    q_k, q_v, alpha = (quantity(n).symbol for n in ("q_k", "q_v", "alpha"))
    delta = next(q.symbol for q in model.controls if q.name == "Delta")
    evidence = log_evidence(q_k, q_v, delta)
    equations = {str(k): v for k, v in derive(model).items()}
    for a, name in enumerate(("q_k_hat", "q_v_hat")):
        square = sp.Sum(
            Score(evidence, a) ** 2,
            (sp.Symbol("l", integer=True, positive=True), 1, sp.Symbol("L", positive=True)),
        )
        expected = alpha * PlantedAverage(square, evidence)
        assert sp.simplify(equations[name] - expected) == 0
    psi = PlantedAverage(evidence, evidence)
    assert psi.diff(delta) == Slope(psi, delta), (
        "noise is not variance that becomes known: no identity applies"
    )
    assert psi.diff(STRENGTH.symbol) == Slope(psi, STRENGTH.symbol)
    with pytest.raises(TypeError, match="not differentiated again"):
        psi.diff(delta).diff(delta)


def channel(
    law: str | None, rule: NodeSizes, c: list[float], x: list[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Conjugates and observables at given overlaps."""
    every = CompiledEquations(MODELS["slr-bayes"].build(rule="max", L=law), rule, "exact")
    hats, _, seen = jax.jit(every.values)(jnp.array(c), jnp.array(x))
    return np.asarray(hats), np.asarray(seen)


@pytest.mark.parametrize(
    "law", ["1:1/4,2:3/4", pytest.param("1:1/8,2:3/8,3:1/2", marks=pytest.mark.slow)]
)
def test_a_law_of_the_length_is_a_sum_over_lengths(law: str) -> None:
    """L = 1 is ridge regression and L = 2 a quadrature; L = 3 is sampled alone. The attention mass
    is averaged per length.
    """
    q_k, q_v, delta, alpha = 0.4, 0.7, 0.1, 1.3
    rule = NodeSizes(log2_samples=12, winner=36)
    two, weights = (
        quadrature(q_k, q_v, delta),
        [float(sp.Rational(p.split(":")[1])) for p in law.split(",")],
    )
    parts = [[0, 1 / (1 - q_v + delta), 1], [two["q_k_hat"], two["q_v_hat"], two["attention_mass"]]]
    if len(weights) == 3:
        hats, seen = channel(
            None, NodeSizes(log2_samples=12, winner=36, tokens=3), [1.0, 3, INF, delta], [q_k, q_v]
        )
        parts.append([*hats, seen[2]])
    mixed, seen = channel(law, rule, [alpha, INF, delta], [q_k, q_v])
    expected = np.dot(weights, np.array(parts))
    assert mixed == pytest.approx(alpha * expected[:2], rel=5e-3)
    assert seen[2] == pytest.approx(expected[2], abs=2e-3)
    assert seen[0] == pytest.approx(1 + delta - q_v * seen[2], abs=1e-12)


@pytest.mark.slow
def test_a_law_of_one_length_is_that_length() -> None:
    c, x = [1.3, INF, 0.1], [0.4, 0.7]
    fixed = channel(None, NodeSizes(log2_samples=8, winner=36, tokens=3), [c[0], 3, *c[1:]], x)
    for one, other in zip(
        channel("3:1", NodeSizes(log2_samples=8, winner=36), c, x), fixed, strict=True
    ):
        assert one == pytest.approx(other, rel=1e-12)


@pytest.mark.slow
def test_solve_random_lengths() -> None:
    """Uniform on 1..10 lies between its shortest and its longest; the command line
    takes the law.
    """
    law = ",".join(f"{n}:1/10" for n in range(1, 11))
    (branch,) = replica.solve(
        "slr-bayes",
        rule="max",
        L=law,
        nu=INF,
        Delta=0.1,
        alpha=2.2,
        settings=Settings(accuracy=1e-2),
    ).branches
    assert branch.status is Status.SUCCESSFUL
    assert branch.overlaps["q_v"] == pytest.approx(0.825, abs=0.01)
    assert branch.observables["population_bayes_risk"] == pytest.approx(0.1, abs=1e-6)
    arguments = [
        "--set",
        "rule=max",
        "--set",
        "L=1:0.5,3:0.5",
        "--set",
        "nu=inf",
        "--set",
        "Delta=0.1",
        "--set",
        "alpha=2",
        "--json",
    ]
    done = CliRunner().invoke(app, ["solve", "slr-bayes", *arguments])
    assert done.exit_code == 0, done.output
    seen = json.loads(done.output)
    assert seen["options"] == {"L": "1:1/2,3:1/2", "rule": "max"}
    assert seen["branches"][0]["overlaps"]["q_k"] == pytest.approx(0.3562, abs=2e-3)


@pytest.mark.slow
def test_slopes_on_fixed_samples_match_finite_differences() -> None:
    every, _ = problems(SMALL)
    c, x = jnp.array([1.3, 2.0, INF, 0.1]), jnp.array([0.4, 0.7])
    slope = np.asarray(jax.jit(every.state)(c, x).slope)
    update = jax.jit(lambda x: every.update(c, x)(x))
    for j, unit in enumerate(np.eye(2) * 1e-4):
        assert slope[:, j] == pytest.approx(
            np.asarray(update(x + unit) - update(x - unit)) / 2e-4, abs=1e-6
        )


def test_large_strength_is_the_largest_key_and_zero_carries_nothing() -> None:
    limit, large = at(0.6, 0.7), at(0.6, 0.7, nu=1e5)
    for name, (value, _) in limit.items():
        assert large[name][0] == pytest.approx(value, abs=1e-4 * max(1, abs(value))), name
    none = at(0.6, 0.7, nu=0.0)
    assert none["q_k_hat"] == (0, 0)
    assert none["attention_mass"][0] == pytest.approx(0.5, abs=1e-6)


def test_near_perfect_knowledge_the_conjugate_grows_as_the_inverse_root() -> None:
    """Near ties, met with probability ~ sqrt(V_k), each give 1/V_k: q_k_hat ~ V_k^{-1/2}, however
    small V_k is.
    """
    first, *others = (
        [np.sqrt(v) * n for n in at(1 - v, 0.7)["q_k_hat"]] for v in (1e-5, 1e-8, 1e-11)
    )
    for value, error in others:
        assert value == pytest.approx(first[0], abs=2 * (error + first[1]))
        assert error < 0.1 * value


def solved(L: int, **controls: float) -> replica.Solution:
    rule = NodeSizes(log2_samples=8, tokens=L, winner=36)
    return replica.solve(
        "slr-bayes",
        rule="max",
        L=L,
        settings=Settings(accuracy=2e-2, polish="none"),
        nodes=rule,
        **controls,
    )


@pytest.mark.slow
def test_solve_two_tokens() -> None:
    """One compilation: a reference row, no strength, one that a small noise and many samples make
    nearly perfect.
    """
    row = solved(2, nu=INF, Delta=0.01, alpha=2.0)
    branch = row.branch("uninformed")
    assert branch.status is Status.SUCCESSFUL
    assert branch.residual <= 1e-10
    for name, value in (("q_k", 0.6601), ("q_v", 0.9885)):
        assert abs(branch.overlaps[name] - value) < 2 * branch.error[name] + 2e-3
        assert 0 < branch.error[name] < 2e-2
    assert set(row.risks) == {"algorithmic", "information_theoretic"}
    blind = solved(2, nu=0.0, Delta=0.01, alpha=2.0).branch("informed")
    assert blind.overlaps["q_k"] == 0
    assert blind.conjugates["q_k_hat"] == 0
    assert blind.ok
    clear = solved(2, nu=INF, Delta=1e-4, alpha=50.0).branch("informed")
    assert clear.ok
    assert 1e-6 < 1 - clear.overlaps["q_k"] < 1e-2
    assert 0 < clear.observables["excess_risk"] < 0.02


@pytest.mark.parametrize("row", ROWS, ids=lambda r: "L={L} alpha={alpha}".format(**r))
@pytest.mark.slow
def test_reference_fixed_points(row: dict[str, str]) -> None:
    tolerance = float(row["abs_tol"])
    solution = replica.solve(
        "slr-bayes", rule="max", nu="inf", **{k: float(row[k]) for k in ("L", "Delta", "alpha")}
    )
    for branch in solution.branches:
        assert branch.status is Status.SUCCESSFUL
        for name in ("q_k", "q_v"):
            assert branch.overlaps[name] == pytest.approx(float(row[name]), abs=tolerance)
            assert branch.error[name] <= tolerance / 2
        assert branch.observables["risk"] == pytest.approx(float(row["risk"]), abs=tolerance)
        assert branch.free_energy == pytest.approx(float(row["free_entropy"]), abs=tolerance)


def test_posterior_moment_at_infinitely_many_samples() -> None:
    length = quantity("L").symbol
    square = jax.jit(function([length, STRENGTH.symbol], posterior_square()))
    value = {
        pair: float(square(*pair))
        for pair in ((2, 2.0), (3, 4.0), (1, INF), (1000, INF), (1, 0.0), (50, 0.0))
    }
    assert value[2, 2.0] == pytest.approx(1 - 0.2400117, abs=1e-6)
    assert value[3, 4.0] == pytest.approx(1 - 0.2010575, abs=2e-6)
    assert [value[1, INF], value[1000, INF]] == pytest.approx([1, 1], abs=1e-9)
    assert [value[1, 0.0], value[50, 0.0]] == pytest.approx([1, 1 / 50], abs=1e-9)
    both_forms = [float(square(5, nu)) for nu in (1.99, 1.995, 2.0, 2.005, 2.01)]
    assert np.diff(both_forms, 3) == pytest.approx([0, 0], abs=1e-7), (
        "the two integrals join smoothly"
    )


@pytest.mark.slow
def test_a_thousand_tokens() -> None:
    solution = replica.solve("slr-bayes", rule="max", L=1000, nu=INF, Delta=0.1, alpha=10)
    uninformed, informed = solution.branch("uninformed"), solution.branch("informed")
    assert uninformed.ok and informed.ok
    assert uninformed.conjugates["q_v_hat"] == pytest.approx(10 / (1000 * 1.1), rel=0.1), (
        "small-sample limit"
    )
    assert informed.overlaps["q_k"] > 0.99
    assert informed.free_energy > uninformed.free_energy


@pytest.mark.slow
def test_thresholds_agree_with_the_branches_of_solve() -> None:
    found = replica.thresholds("slr-bayes", within=(0.5, 3.0), rule="max", L=4, nu=INF, Delta=1e-4)
    assert found.transition == "first-order"
    assert found.alpha_inf < found.alpha_IT < found.alpha_alg
    assert all(0 < e < 2e-2 for e in found.error.values())
    margin = {n: 2 * e + 0.01 for n, e in found.error.items()}
    for alpha, count in (
        (found.alpha_inf - margin["alpha_inf"], 1),
        (found.alpha_inf + margin["alpha_inf"], 2),
        (found.alpha_alg - margin["alpha_alg"], 2),
        (found.alpha_alg + margin["alpha_alg"], 1),
    ):
        rule = NodeSizes(log2_samples=10, tokens=4, winner=36)
        solution = replica.solve(
            "slr-bayes",
            rule="max",
            L=4,
            nu=INF,
            Delta=1e-4,
            alpha=alpha,
            nodes=rule,
            settings=Settings(accuracy=5e-2),
        )
        assert len(solution.branches) == count, alpha


@pytest.mark.slow
def test_command_line_and_sweep() -> None:
    arguments = [
        "--set",
        "rule=max",
        "--set",
        "L=3",
        "--set",
        "nu=inf",
        "--set",
        "Delta=0.1",
        "--set",
        "alpha=2",
        "--json",
    ]
    done = CliRunner().invoke(app, ["solve", "slr-bayes", *arguments])
    assert done.exit_code == 0, done.output
    seen = json.loads(done.output)
    assert seen["controls"]["nu"] == "inf"
    branch = seen["branches"][0]
    assert branch["status"] == "successful"
    swept = replica.sweep("slr-bayes", over={"alpha": [2.0]}, rule="max", L=3, nu="inf", Delta=0.1)
    assert float(swept.q_k.sel(branch="uninformed")[0]) == pytest.approx(
        branch["overlaps"]["q_k"], abs=1e-8
    )
