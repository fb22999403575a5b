"""subspace: reference values, direct Monte Carlo, the flow, the sign boundary, and simulation
against theory.
"""

import csv
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

import replica
from replica.dynamics import recovery
from replica.simulate.subspace import Ascent, _projected_gradient, gradient, prepared, run

ROWS = list(csv.DictReader((Path(__file__).parents[1] / "data" / "subspace.csv").open()))


@pytest.mark.parametrize(
    "row",
    [r for r in ROWS if r["quantity"] == "J"],
    ids=lambda r: "theta={theta} r={r} rho={rho}".format(**r),
)
def test_reference_objective_and_derivative(row: dict[str, str]) -> None:
    found = replica.evaluate(
        "subspace", {"rho": float(row["rho"])}, theta=float(row["theta"]), r=float(row["r"])
    )
    assert found["observables"]["objective"] == pytest.approx(float(row["value"]), abs=1e-7)
    assert found["observables"]["objective_derivative"] == pytest.approx(
        float(row["dJ_drho"]), abs=1e-7
    )
    assert "objective_finite" not in found["observables"]


@pytest.mark.parametrize(
    "row", [r for r in ROWS if r["quantity"] == "boundary_theta"], ids=lambda r: r["r"]
)
def test_reference_boundary(row: dict[str, str]) -> None:
    assert recovery.boundary_theta(float(row["r"])) == pytest.approx(float(row["theta"]), abs=1e-7)


def test_finite_size_term_needs_both_d_and_l(command) -> None:
    found = replica.evaluate("subspace", {"rho": 0.8}, theta=0.25, r=0.5, d=100, L=5000)
    assert found["observables"]["objective_finite"] == pytest.approx(1.29319, abs=1e-5)
    code, _, err = command(
        "eval", "subspace", "--set", "theta=1", "--set", "r=0.1", "--set", "d=5", "--at", "rho=0.5"
    )
    assert code == 2 and "L" in err


def test_objective_and_derivative_against_direct_monte_carlo() -> None:
    """L = 1e5 tokens, numpy; |f|^2 and its gradient along d q/d rho. The finite-size term is 1e-3
    here.
    """
    d, length, theta, r, rho, rng = 20, 100_000, 1.0, 0.1, 0.5, np.random.default_rng(0)
    q, tangent = np.zeros(d), np.zeros(d)
    q[:2], tangent[:2] = (rho, np.sqrt(1 - rho**2)), (1.0, -rho / np.sqrt(1 - rho**2))
    values, slopes = [], []
    for _ in range(24):
        x = rng.standard_normal((length, d), dtype=np.float32)
        x[: int(r * length), 0] += theta
        w = np.exp(x @ q)
        w /= w.sum()
        f = w @ x
        values.append(f @ f)
        slopes.append(2 * (w * (x @ f - f @ f)) @ (x @ tangent))
    found = replica.evaluate("subspace", {"rho": rho}, theta=theta, r=r, d=d, L=length)[
        "observables"
    ]
    for samples, expected in (
        (values, found["objective_finite"]),
        (slopes, found["drift_finite"] / (1 - rho**2)),
    ):
        assert abs(np.mean(samples) - expected) < 4 * np.std(samples, ddof=1) / np.sqrt(
            len(samples)
        )
        assert np.std(samples) < 0.1


@pytest.mark.parametrize("r", [0.01, 0.1, 0.5, 0.9, 0.99])
def test_weak_signals_leave_no_sign_ambiguity(r: float) -> None:
    for rho in np.linspace(-1, 0.999, 9):
        assert (
            replica.evaluate("subspace", {"rho": rho}, theta=0.25, r=r)["observables"][
                "objective_derivative"
            ]
            > 0
        )


@settings(max_examples=25)
@given(
    theta=st.floats(0.1, 6),
    r=st.floats(0.02, 0.98),
    beta=st.floats(0.3, 2),
    crowding=st.sampled_from([0, 10, 100]),
)
def test_fixed_points_alternate_and_minus_xi_attracts_below_the_boundary(
    theta: float, r: float, beta: float, crowding: int
) -> None:
    sizes = {"d": crowding + 1, "L": 300} if crowding else {}
    points = replica.solve("subspace", theta=theta, r=r, beta=beta, **sizes).to_dict()[
        "fixed_points"
    ]
    assert [p["stable"] for p in points] in ([False, True], [True, False, True])
    assert points[-1]["rho"] == 1.0 and points[0]["rho"] == -1.0
    assert all(p["status"] == "successful" and p["residual"] < 1e-10 for p in points)
    limit = float(recovery.boundary_crowding(theta, r, beta))
    if abs(crowding / 300 - limit) > 1e-6:
        assert points[0]["stable"] == (
            crowding / 300 > limit or float(recovery.boundary_share(theta, beta)) > r
        )


def test_controls_beyond_floating_point_are_refused_and_strong_ones_are_not() -> None:
    assert len(replica.solve("subspace", theta=100, r=0.5).branches) == 3
    with pytest.raises(replica.InputError, match="floating point"):
        replica.solve("subspace", theta=2000, r=0.5)
    with pytest.raises(replica.InputError, match="floating point"):
        replica.solve("subspace", theta=1, r=0.5, beta=40, d=10, L=100)


def test_rates_are_the_slopes_of_the_drift() -> None:
    for branch in replica.solve("subspace", theta=3, r=0.2).branches:
        rho, inward = branch.overlaps["rho"], -1e-6 if branch.overlaps["rho"] > 0 else 1e-6
        near = replica.evaluate("subspace", {"rho": rho + inward}, theta=3, r=0.2)["observables"][
            "drift"
        ]
        assert near / inward == pytest.approx(branch.observables["rate"], rel=1e-4)


def test_solve_json_and_show(command, tmp_path: Path) -> None:
    code, out, _ = command("solve", "subspace", "--set", "theta=3", "--set", "r=0.2", "--json")
    points = json.loads(out)["fixed_points"]
    assert code == 0 and out.count("\n") == 1
    assert [p["stable"] for p in points] == [True, False, True]
    assert points[0]["rate"] == pytest.approx(2 * -0.13674352, abs=1e-7)
    code, out, _ = command("show", "subspace")
    assert "dJ/drho = " in out and "J' = " in out and "N(rho*theta, 1)" in out
    assert command("show", "subspace", "--latex")[1].count("\\begin{equation*}") >= 3
    assert (
        command(
            "sweep",
            "subspace",
            "--over",
            "theta=1:2:2",
            "--set",
            "r=0.1",
            "-o",
            str(tmp_path / "x.h5"),
        )[0]
        == 2
    )


def test_the_flow_is_autonomous() -> None:
    controls = {"theta": 1.0, "r": 0.1}
    times = np.linspace(0, 6, 13)
    late = recovery.trajectory(-0.2, times, **controls)
    early = recovery.trajectory(float(late.values[4]), times[:9], **controls)
    assert early.values == pytest.approx(late.values[4:], abs=late.error + early.error + 1e-9)


@pytest.mark.parametrize("sizes", [{}, {"d": 200, "L": 1000}])
def test_recovery_time_against_quadrature(sizes: dict[str, int]) -> None:
    name = "drift_finite" if sizes else "drift"

    def inverse(rho: float) -> float:
        return (
            1
            / replica.evaluate("subspace", {"rho": rho}, theta=1, r=0.2, **sizes)["observables"][
                name
            ]
        )

    expected = quad(inverse, 200**-0.5, 0.99, epsabs=1e-9)[0]
    found = recovery.recovery_time(200**-0.5, theta=1, r=0.2, **sizes)
    assert float(found.values) == pytest.approx(expected, abs=max(found.error, 1e-7))


def test_sign_probability_against_the_sphere() -> None:
    """theta = 3: uniform starts below the unstable point end at -xi; a weak signal leaves none
    there.
    """
    (unstable,) = [
        b.overlaps["rho"]
        for b in replica.solve("subspace", theta=3, r=0.1, d=20, L=400).branches
        if abs(b.overlaps["rho"]) < 1
    ]
    starts = np.random.default_rng(0).standard_normal((100_000, 20))
    hits = np.mean(starts[:, 0] / np.linalg.norm(starts, axis=1) > unstable)
    expected = recovery.sign_probability(theta=3, r=0.1, d=20, L=400)
    assert hits == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / 1e5))
    assert recovery.sign_probability(theta=0.25, r=0.1, d=20, L=400) == 1.0


def test_attention_goes_to_the_informative_tokens_as_theta_or_r_grow() -> None:
    masses = [
        float(recovery.attention_mass(1.0, theta=theta, r=0.1)) for theta in (0.25, 1, 4, 16, 60)
    ]
    assert np.all(np.diff(masses) > 0) and masses[-1] == pytest.approx(1, abs=1e-12)
    masses = [float(recovery.attention_mass(1.0, theta=1, r=r)) for r in (0.05, 0.3, 0.9, 0.999)]
    assert np.all(np.diff(masses) > 0) and masses[-1] > 0.999


def test_flow_refuses_bad_starts_and_reports_no_arrival() -> None:
    with pytest.raises(replica.InputError, match="rho0"):
        recovery.trajectory(1.5, [1.0], theta=1, r=0.1)
    assert recovery.recovery_time(-0.9, 0.999, latest=1e-3, theta=1, r=0.1).values == np.inf


def test_sign_diagram_and_phase_command(command, tmp_path: Path) -> None:
    code, out, _ = command("phase", "subspace", "--control", "theta", "--set", "r=0.1", "--json")
    assert code == 0 and json.loads(out)["boundary"] == pytest.approx(1.08014411, abs=1e-7)
    file = tmp_path / "s.h5"
    assert (
        command(
            "phase", "subspace", "--over", "theta=0.5:4:8", "--over", "r=0.1:0.9:5", "-o", str(file)
        )[0]
        == 0
    )
    assert command("plot", str(file), "-o", str(tmp_path / "s.png"))[0] == 0
    stored = replica.load(file)
    assert float(stored.boundary_share.sel(theta=0.5)) == 0
    assert command("phase", "subspace", "--set", "r=0.1")[0] == 2


def test_gradient_in_blocks_is_the_gradient_of_the_objective() -> None:
    """Against jax.grad of |f|^2 on the same tokens, with a last block that is not full."""
    key, d, length, informative, block, theta, beta = jax.random.key(5), 6, 11, 3, 4, 1.3, 0.7
    q = jnp.ones(d) / jnp.sqrt(d)
    x = jnp.concatenate(
        [jax.random.normal(jax.random.fold_in(key, b), (block, d)) for b in range(3)]
    )[:length]
    x = x.at[:informative, 0].add(theta)
    expected = jax.grad(lambda p: jnp.sum((jax.nn.softmax(beta * x @ p) @ x) ** 2))(q)
    found, mass = gradient(key, q, theta, beta, length, informative, block)
    assert np.asarray(found) == pytest.approx(np.asarray(expected), abs=1e-10)
    assert float(mass) == pytest.approx(
        float(jax.nn.softmax(beta * x @ q)[informative:].sum()), abs=1e-10
    )


def test_projected_tokens_have_the_law_of_explicit_ones() -> None:
    """Tiny sizes, where no limit helps: mean, variance and third moment of rho after two large
    steps, and the attention.
    """
    base = Ascent(
        1.2,
        d=5,
        L=7,
        informative=3,
        c=0.8,
        steps=2,
        k0=1.0,
        trials=8_000,
        batch=2,
        rho0=0.3,
        block=7,
        dtype="float64",
    )
    explicit, projected = (
        run(Ascent(**{**vars(base), "tokens": kind, "seed": s}))
        for kind, s in (("explicit", 1), ("projected", 2))
    )
    for power in (1, 2, 3):
        a, b = explicit.rho[:, -1] ** power, projected.rho[:, -1] ** power
        assert abs(a.mean() - b.mean()) < 4 * np.hypot(a.std(), b.std()) / np.sqrt(a.size)
    a, b = explicit.noise_mass[:, 1], projected.noise_mass[:, 1]
    assert abs(a.mean() - b.mean()) < 4 * np.hypot(a.std(), b.std()) / np.sqrt(a.size)


def test_gradient_noise_against_simulated_gradients() -> None:
    """Its limit, the correction at finite L, and a share of terms beyond the leading one (d/L =
    0.02).
    """
    d, length, r, rho = 200, 10_000, 0.2, 0.5
    ascent = Ascent(
        1.0, d=d, L=length, informative=int(r * length), c=1.0, tokens="projected", dtype="float64"
    )
    draw = jax.jit(
        jax.vmap(lambda key: _projected_gradient(ascent, 1.0, 1.0, key, jnp.asarray(rho))[1])
    )
    squares = np.asarray((draw(jax.random.split(jax.random.key(0), 600)) ** 2).sum(axis=1))
    model, _, controls = recovery._resolved({"theta": 1.0, "r": r, "d": d, "L": length})
    expected = float(recovery._noise(model, True)(controls, jnp.asarray(rho)))
    assert abs(squares.mean() - expected) < 4 * squares.std() / np.sqrt(squares.size)
    assert squares.std() / np.sqrt(squares.size) < 0.04 * expected


@pytest.mark.parametrize(
    "changes", [{"block": 1024, "batch": 2}, {"tokens": "projected", "batch": 3}]
)
def test_the_memory_announced_is_what_the_program_takes(changes: dict[str, object]) -> None:
    """XLA's account of the compiled program, at the largest size of the source: never more than
    announced, nor much less.
    """
    ascent = Ascent(**{**vars(Ascent(1.0, d=200, L=10_500, informative=500, c=1.0)), **changes})
    program, arguments = prepared(ascent)
    used = program.lower(*arguments).compile().memory_analysis()
    taken = used.temp_size_in_bytes + used.output_size_in_bytes
    assert ascent.memory() / 2 < taken <= ascent.memory() < 1e9


def test_trials_are_reproducible_and_independent_of_their_number() -> None:
    few = Ascent(1.0, d=8, L=50, informative=10, c=0.5, steps=5, trials=2)
    many = Ascent(**{**vars(few), "trials": 4})
    assert run(many).rho[:2] == pytest.approx(run(few).rho, abs=1e-6)
    assert len({float(x) for x in run(many).rho[:, -1]}) == 4


@pytest.mark.parametrize(
    "changes, word",
    [
        ({"gamma": 0.5}, "gamma"),
        ({"block": 10_000, "d": 10_000}, "GB"),
        ({"informative": 50}, "informative"),
        ({"rho0": 2.0}, "rho0"),
    ],
)
def test_simulation_refuses_what_cannot_work(changes: dict[str, float], word: str) -> None:
    with pytest.raises(replica.InputError, match=word):
        run(Ascent(**{**vars(Ascent(1.0, d=8, L=50, informative=10, c=0.5)), **changes}))


CHECK = [
    "check",
    "subspace",
    "--set",
    "theta=1.5",
    "--set",
    "r=0.2",
    "--d",
    "60",
    "--L",
    "1500",
    "--steps",
    "120",
]


def test_check_agrees_stores_and_draws(command, tmp_path: Path) -> None:
    file = tmp_path / "c.h5"
    code, out, err = command(*CHECK, "--json", "-o", str(file))
    report = json.loads(out)
    assert code == 0 and report["agrees"]
    assert {"name", "theory", "theory_error", "mean", "standard_error", "z"} <= report[
        "comparisons"
    ][0].keys()
    assert report["comparisons"][4]["mean"] > 0.9
    assert "MB" in err
    stored = replica.load(file)
    assert stored.rho.shape == (30, 121)
    assert stored.attrs["command"].startswith("replica check subspace")
    assert command("plot", str(file), "-o", str(tmp_path / "c.png"))[0] == 0


def test_check_exits_one_when_the_theory_is_another(
    command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The theory at a signal 1.2 times as strong is refuted."""
    exact = recovery.mean_path
    monkeypatch.setattr(
        recovery, "mean_path", lambda *a, theta, **k: exact(*a, theta=1.2 * theta, **k)
    )
    code, _, err = command(*CHECK)
    assert code == 1 and "disagree" in err


def test_check_of_a_model_without_simulation(command) -> None:
    code, _, err = command("check", "spiked-wigner", "--set", "snr=2")
    assert code == 2 and "subspace" in err


@pytest.mark.slow
def test_check_with_explicit_tokens(command) -> None:
    assert command(*CHECK, "--tokens", "explicit", "--batch", "2")[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "theta, r, d, length",
    [
        (1.0, 0.1, 200, 5000),
        (0.5, 0.4, 100, 2000),
        (2.5, 0.1, 100, 2000),
        (1.0, 0.2, 200, 1000),
        (3.0, 0.1, 50, 1000),
    ],
)
def test_theory_and_simulation_agree(theta: float, r: float, d: int, length: int) -> None:
    report = replica.check("subspace", theta=theta, r=r, d=d, L=length)
    assert report.agrees, report.verdict
