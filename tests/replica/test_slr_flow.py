"""slr-flow: its fixed points, its flow against finite differences and gradient descent at finite D,
[M]'s reduced dynamics, counter-examples.
"""

import csv
import json
import math
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import erf
from scipy.stats import norm

import replica
from equations.models import slr_flow
from replica.dynamics.descent import classes, descent, evidence, trajectory
from replica.lowering.lower import function
from replica.models import resolve
from replica.plots.figures import figure_of
from replica.simulate.population import descend, draw_teacher
from replica.theories import gradient_flow, gram_field, theory_of
from solvers import Status, gram_descent

NAMES = [q.name for q in slr_flow.OVERLAPS]
LINEAR = {"activation": "linear", "L": 2, "nu": 1, "Delta": 0.1}
ERF = {"activation": "erf_odd", "L": 2, "nu": 2, "Delta": 0.1}
GENERIC = dict(zip(NAMES, (0.2, 0.9, 0.3, 0.8, 0.3, -0.2, 0.3), strict=True))
PLAIN = GENERIC | {"m_kv": 0.0, "m_vk": 0.0, "q_kv": 0.0}
MARION = {"activation": "erf_odd", "L": 10, "nu": 200, "gamma2": 0.5, "Delta": 0}
"""[M]: d = 400, unit-norm k and v, sigma(chi) = erf(lambda chi): k of ours is lambda sqrt(D) k of
theirs.
"""
LAMBDA = 0.1


@pytest.mark.parametrize(("rule", "length", "nu"), [("spiked", 2, 1.0), ("spiked", 5, 3.0)])
def test_linear_ends_at_the_closed_form(rule: str, length: int, nu: float) -> None:
    (end,) = replica.solve(
        "slr-flow",
        activation="linear",
        rule=rule,
        L=length,
        nu=nu,
        Delta=0.1,
        starts={"generic": GENERIC},
    ).branches
    assert (
        end.status is Status.SUCCESSFUL
        and end.observables["cross"] < 1e-10
        and end.observables["rate"] < 0
    )
    assert end.observables["excess_risk"] == pytest.approx(
        length * (length - 1) / (length**2 + nu * (length - 1)), abs=1e-10
    )
    assert end.residual < 1e-12 and end.error["risk"] < 1e-9


def test_velocity_is_the_gradient_of_the_objective_over_vectors() -> None:
    """Central differences of R(G(k, v)) with ridges and an unusual teacher, for cross terms of
    every kind.
    """
    model, values = resolve(
        "slr-flow",
        {
            **ERF,
            "lam_k": 0.3,
            "lam_v": 0.2,
            "rho_k": 1.1,
            "rho_v": 0.9,
            "rho_kv": 0.2,
            "gamma2": 0.7,
        },
    )
    w = gram_field.embedded(model, values, GENERIC)
    at = gram_field.field(
        model, gram_field.SIZES, jnp.asarray(theory_of(model).control_vector(values))
    )

    def objective(x: np.ndarray) -> float:
        every = jnp.asarray(np.concatenate([x, w[2:]]))
        return float(at.values(gram_field.overlaps_in(model, every @ every.T))["objective"])

    found = np.asarray(gram_descent.velocity(at.forces, jnp.asarray(w[2:]), jnp.asarray(w[:2])))
    for i, j in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 3)):
        move = np.zeros((2, 4))
        move[i, j] = 1e-4
        assert found[i, j] == pytest.approx(
            -(objective(w[:2] + move) - objective(w[:2] - move)) / 2e-4, abs=1e-7
        )


def test_the_manifold_is_invariant_and_the_flow_is_that_of_section_7() -> None:
    """dm/dt = -(dR/dm + 2 m dR/dq), dq/dt = -2 (m dR/dm + 2 q dR/dq), by differences of the risk on
    the manifold.
    """
    drift = replica.evaluate("slr-flow", PLAIN, **LINEAR)["drift"]
    assert max(abs(drift[k]) for k in ("m_kv", "m_vk", "q_kv")) < 1e-14
    model, values = resolve("slr-flow", LINEAR)
    risk = function(
        [*(q.symbol for q in (*model.overlaps, *model.controls))],
        model.theory.rewrite(model.expressions["risk"]),
    )

    def slope(name: str) -> float:
        high, low = (
            [*(PLAIN | {name: PLAIN[name] + h}).values(), *(values[q.name] for q in model.controls)]
            for h in (1e-5, -1e-5)
        )
        return float(risk(*high) - risk(*low)) / 2e-5

    for a in "kv":
        m, q, to_m, to_q = PLAIN[f"m_{a}"], PLAIN[f"q_{a}"], slope(f"m_{a}"), slope(f"q_{a}")
        assert drift[f"m_{a}"] == pytest.approx(-(to_m + 2 * m * to_q), abs=1e-8)
        assert drift[f"q_{a}"] == pytest.approx(-2 * (m * to_m + 2 * q * to_q), abs=1e-8)


@pytest.mark.slow
def test_softmax_rests_at_the_bayes_risk_at_the_true_key() -> None:
    found = replica.evaluate(
        "slr-flow",
        dict(zip(NAMES, (math.sqrt(2), 2, 1, 1, 0, 0, 0), strict=True)),
        L=3,
        nu=2,
        Delta=0.1,
    )
    assert found["residual"] < 1e-6
    assert found["observables"]["risk"] == pytest.approx(
        found["observables"]["population_bayes_risk"], abs=1e-6
    )


@settings(max_examples=12)
@given(entries=st.lists(st.floats(-1.2, 1.2), min_size=8, max_size=8))
def test_the_risk_falls_along_the_flow_from_any_gram_matrix(entries: list[float]) -> None:
    w = np.concatenate([np.reshape(entries, (2, 4)), np.eye(4)[:2]])
    matrix = w @ w.T
    start = dict(
        zip(
            NAMES,
            (
                matrix[0, 2],
                matrix[0, 0],
                matrix[1, 3],
                matrix[1, 1],
                matrix[0, 3],
                matrix[1, 2],
                matrix[0, 1],
            ),
            strict=True,
        )
    )
    path = trajectory(start, [0.0, 0.1, 0.3, 1.0, 3.0], **LINEAR)
    model, values = resolve("slr-flow", LINEAR)
    risk = function(
        [q.symbol for q in (*model.overlaps, *model.controls)],
        model.theory.rewrite(model.expressions["risk"]),
    )
    along = np.asarray(
        risk(*(path[k].values for k in NAMES), *(values[q.name] for q in model.controls))
    )
    assert np.all(np.diff(along) <= 1e-7)
    assert path.attrs["error"] < 1e-5


@pytest.mark.parametrize(
    "controls", [LINEAR, pytest.param(ERF, marks=pytest.mark.slow)], ids=["linear", "erf_odd"]
)
def test_gradient_descent_at_finite_dimension_follows_the_flow(controls: dict) -> None:
    """D = 300 vectors under automatic differentiation, with the exact Gram matrix of the teacher;
    small steps follow the flow.
    """
    teacher, rng = draw_teacher(300, 1), np.random.default_rng(2)
    start = 0.5 * rng.standard_normal((2, 300)) + 0.3 * np.stack(
        [teacher.key - teacher.value, teacher.value + teacher.key]
    )
    size, steps = 0.01, 300
    path = descend(start, teacher, size, steps, **controls)
    begin = dict(zip(NAMES, path.overlaps[0], strict=True))
    assert abs(path.teacher["rho_kv"]) > 1e-3 and abs(begin["m_kv"]) > 0.1
    exact = descent(begin, steps, size, **controls, **path.teacher)
    np.testing.assert_allclose(
        path.overlaps, np.stack([exact[k].values for k in NAMES], axis=1), atol=1e-8
    )
    flow = trajectory(begin, [1.0, 3.0], **controls, **path.teacher)
    for i, name in enumerate(NAMES):
        np.testing.assert_allclose(path.overlaps[[100, 300], i], flow[name].values, atol=5 * size)


def test_marion_risk_in_closed_form() -> None:
    """g^2 - 2 g^2 nu erf(a) + g^2 zeta(lambda kappa sqrt(d/2), lambda g) + (L - 1)
    zeta(0, lambda).
    """

    def zeta(t: float, s: float) -> float:
        return quad(lambda g: erf(t + s * g) ** 2 * norm.pdf(g), -9, 9, epsabs=1e-13)[0]

    model, values = resolve("slr-flow", MARION)
    risk = function(
        [q.symbol for q in (*model.overlaps, *model.controls)], model.expressions["excess_risk"]
    )
    for kappa, nu in ((0.08, -0.05), (-0.6, -0.9), (0.9, 0.3)):
        at = (LAMBDA * kappa, LAMBDA**2, nu, 1, 0, 0, 0)
        a = LAMBDA * kappa * math.sqrt(400 / (2 * (1 + LAMBDA**2)))
        expected = (
            0.5
            - nu * erf(a)
            + 0.5 * zeta(LAMBDA * kappa * math.sqrt(200), LAMBDA * math.sqrt(0.5))
            + 9 * zeta(0, LAMBDA)
        )
        assert float(risk(*at, *(values[q.name] for q in model.controls))) == pytest.approx(
            expected, abs=1e-9
        )


def test_marion_reduced_dynamics_at_every_row() -> None:
    rows = [
        line
        for line in (Path(__file__).parents[1] / "data" / "slr_erf_reduced_dynamics.csv").open()
        if not line.startswith("#")
    ]
    start = dict(zip(NAMES, (LAMBDA * 0.08, LAMBDA**2, -0.05, 1, 0, 0, 0), strict=True))
    path = descent(start, 4000, (4e-3 * LAMBDA**2, 4e-3), surface="sphere", **MARION)
    model, values = resolve("slr-flow", MARION)
    risk = function(
        [q.symbol for q in (*model.overlaps, *model.controls)], model.expressions["excess_risk"]
    )
    for row in csv.DictReader(rows):
        here = path.sel(step=int(row["step"]))
        assert float(here.m_k) / LAMBDA == pytest.approx(float(row["kappa"]), abs=1e-6)
        assert float(here.m_v) == pytest.approx(float(row["nu"]), abs=1e-6)
        numbers = [*(float(here[k]) for k in NAMES), *(values[q.name] for q in model.controls)]
        assert float(risk(*numbers)) == pytest.approx(float(row["excess_risk"]), abs=1e-6)
    assert np.max(np.abs(path.q_k / LAMBDA**2 - 1)) < 1e-12 and np.max(np.abs(path.q_v - 1)) < 1e-12


def test_linear_pure_may_exchange_key_and_value() -> None:
    """A counter-example: k along v*, v along k*, with the same risk, stable but for the scale that
    it does not see.
    """
    found = evidence(24, activation="linear_pure", L=2, nu=1, Delta=0.1)
    rests = found.status.values == Status.SUCCESSFUL.code
    off = rests & (found.cross.values > 0.1)
    assert 3 <= off.sum() <= 21 and (rests & (found.cross.values < 1e-6)).sum() >= 3
    np.testing.assert_allclose(
        found.risk.values[rests], 0.1 + 2 / 3, atol=1e-9
    )  # Delta + L/(L + nu)
    assert np.max(found.rate.values[rests]) < gram_descent.NEUTRAL
    assert sum(e["count"] for e in classes(found)) == 24
    panel = figure_of(found).axes[0]
    assert (
        panel.get_title() == "spiked" and sum(len(line.get_xdata()) for line in panel.lines) == 24
    )


def test_solve_json_names_the_manifold_and_the_rates(command, tmp_path: Path) -> None:
    sets = [f"--set={k}={v}" for k, v in LINEAR.items()]
    code, out, _ = command("solve", "slr-flow", *sets, "--json", "-o", str(tmp_path / "ends.h5"))
    (end,) = json.loads(out)["fixed_points"]
    assert code == 0 and end["start"] == "aligned+generic+exchanged+reversed"
    assert (
        end["on_manifold"]
        and end["stable"]
        and len(end["rates"]) == 8
        and end["status"] == "successful"
    )
    assert end["observables"]["risk"] == pytest.approx(0.5) and end["observables"][
        "population_bayes_risk"
    ] == pytest.approx(0.42494330, abs=1e-7)
    assert float(replica.load(tmp_path / "ends.h5")["m_v"][0]) == pytest.approx(0.4)
    assert (
        command(
            "sweep",
            "slr-flow",
            *sets[:-1],
            "--over",
            "Delta=0.1:0.2:2",
            "-o",
            str(tmp_path / "x.h5"),
        )[0]
        == 2
    )


def test_mistakes_are_refused_in_a_sentence(command) -> None:
    with pytest.raises(
        replica.InputError, match="no vectors have the overlaps of the start 'mine'"
    ):
        replica.solve("slr-flow", starts={"mine": GENERIC | {"m_k": 2.0}}, **LINEAR)
    with pytest.raises(replica.InputError, match="no sampled route"):
        replica.solve("slr-flow", settings=replica.Settings(route="sampled"), **LINEAR)
    with pytest.raises(replica.InputError, match="q_kv is missing"):
        trajectory({k: v for k, v in GENERIC.items() if k != "q_kv"}, [1.0], **LINEAR)
    with pytest.raises(replica.InputError, match="times must increase"):
        trajectory(GENERIC, [2.0, 1.0], **LINEAR)
    code, _, err = command(
        "solve", "slr-flow", "--set=rule=max", "--set=L=2", "--set=nu=1", "--set=Delta=0.1"
    )
    assert code == 2 and "nu = inf only" in err


def test_a_risk_below_the_bayes_bound_is_an_error() -> None:
    model, values = resolve("slr-flow", LINEAR)
    for risk, status in ((0.3, Status.BELOW_BAYES), (0.5, Status.SUCCESSFUL)):
        seen = {"risk": (risk, 1e-9), "population_bayes_risk": (0.4, 1e-9)}
        assert gradient_flow.judged(model, Status.SUCCESSFUL, seen) is status
    assert set(gradient_flow.constants(model, values)) == {"population_bayes_risk"}
    model, values = resolve("slr-flow", LINEAR | {"rho_k": 1.1})
    assert gradient_flow.constants(model, values) == {}


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "length", "nu"), [("spiked", 3, 2.0), ("spiked", 2, 1.0)])
def test_softmax_flows_to_the_bayes_risk(rule: str, length: int, nu: float) -> None:
    solution = replica.solve("slr-flow", rule=rule, L=length, nu=nu, Delta=0.1)
    best = solution.branches[solution.best or 0]
    assert best.observables["risk"] == pytest.approx(
        best.observables["population_bayes_risk"], abs=1e-6
    )
    assert best.overlaps["m_k"] == pytest.approx(math.sqrt(nu), abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["spiked", "max"])
def test_elementwise_ends_agree_with_the_optimum_of_slr_population(rule: str) -> None:
    """On the manifold the flow of erf rests where slr-population has its optimum (offset 0)."""
    nu = 1.0 if rule == "spiked" else math.inf
    (end,) = replica.solve(
        "slr-flow", activation="erf", rule=rule, L=2, nu=nu, Delta=0.1, starts={"generic": GENERIC}
    ).branches
    best = replica.solve("slr-population", activation="erf_b0", rule=rule, L=2, nu=nu, Delta=0.1)
    assert best.best is not None
    assert end.observables["risk"] == pytest.approx(
        best.branches[best.best].observables["risk"], abs=1e-7
    )
