"""Every theory serves a user's own model: it works, or one sentence says what to use instead."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sympy as sp

import replica
from equations import (
    Average,
    Criterion,
    Model,
    ModelError,
    Observable,
    SphereFlow,
    conjugate,
    quantity,
)
from equations.calculus.averages import Numerical
from replica.lowering.rules import RULES, lowers
from replica.models import built
from replica.theories import theory_of
from solvers import Status

MODELS = Path(__file__).parents[1] / "data" / "models"
QUERY, VECTORS, ATTENTION, SIGNS = (
    str(MODELS / f"{name}.py")
    for name in (
        "query_on_a_sphere",
        "two_vectors",
        "attention_by_other_names",
        "hidden_signs",
    )
)
Command = Callable[..., tuple[int, str, str]]


def test_a_flow_in_one_overlap_derives_its_drift(command: Command) -> None:
    """dc/dt = (1 - c^2)(snr c + 1/4): zeros of the force at c = -1/(4 snr)."""
    code, out, _ = command("solve", QUERY, "--set=snr=2", "--json")
    points = json.loads(out)["fixed_points"]
    assert code == 0 and [p["c"] for p in points] == pytest.approx([-1, -0.125, 1], abs=1e-12)
    assert [p["stable"] for p in points] == [True, False, True]
    assert points[1]["rate"] == pytest.approx(2 * (1 - 0.125**2), abs=1e-10)
    code, out, _ = command("eval", QUERY, "--set=snr=2", "--at", "c=0.5", "--json")
    found = json.loads(out)
    assert code == 0 and found["residual"] == pytest.approx(0.75 * 1.25, abs=1e-12)
    assert found["objective"] == pytest.approx(0.375) and found["observables"] == {"squared": 0.25}


def test_a_flow_of_a_gram_matrix_ends_at_ridge_regression(command: Command) -> None:
    """w = t/(1 + lam), from both starts."""
    code, out, _ = command("solve", VECTORS, "--set=lam=0.5", "--json")
    (end,) = json.loads(out)["fixed_points"]
    assert code == 0 and end["overlaps"]["o"] == pytest.approx(2 / 3, abs=1e-10)
    assert end["overlaps"]["n"] == pytest.approx(4 / 9, abs=1e-10) and end["stable"]
    assert end["observables"]["risk"] == pytest.approx(1 / 9, abs=1e-10)
    code, out, _ = command("eval", VECTORS, "--set=lam=0.5", "--at", "o=0.5,n=1", "--json")
    found = json.loads(out)
    # do/dt = 1 - (1 + lam) o, dn/dt = 2 o - 2 (1 + lam) n.
    assert code == 0 and found["drift"] == pytest.approx({"o": 0.25, "n": -2.0})


@pytest.mark.parametrize(
    ("model", "control", "instead"),
    [(QUERY, "snr", "lists the fixed points"), (VECTORS, "lam", "follows a gradient flow")],
)
def test_what_a_flow_does_not_offer_names_the_command_that_exists(
    model: str, control: str, instead: str, command: Command, tmp_path: Path
) -> None:
    file = str(tmp_path / "x.h5")
    for arguments in (
        ("sweep", model, "--over", f"{control}=1:2:3", "-o", file),
        ("phase", model, "--control", control),
        ("phase", model, "--control", control, "--curve", "-o", file),
    ):
        code, _, err = command(*arguments)
        assert code == 2 and "use solve" in err and instead in err and err.count("\n") == 1
        assert not Path(file).exists()
    point = replica.solve(model, **{control: 1})
    with pytest.raises(replica.InputError, match="derivatives with respect to the controls"):
        replica.sensitivity(point)
    with pytest.raises(replica.InputError, match="not solved by iterating a map"):
        replica.onset(model, control, (1, 2))
    with pytest.raises(replica.InputError, match="no best controls to search for"):
        replica.optimise(model, [control])


def test_flows_of_the_package_name_the_command_that_exists(
    command: Command, tmp_path: Path
) -> None:
    file, known = str(tmp_path / "x.h5"), ("--set=L=2", "--set=Delta=0.1")
    for arguments in (
        ("sweep", "slr-flow", "--over", "nu=1:2:3", "-o", file, *known),
        ("sweep", "subspace", "--over", "theta=1:2:3", "-o", file, "--set=r=0.1"),
        ("phase", "slr-flow", "--control", "nu", *known),
    ):
        code, _, err = command(*arguments)
        assert code == 2 and "use solve" in err


@pytest.mark.slow
def test_trained_attention_by_other_names_is_slr_erm() -> None:
    """The same samples and the same equations: the same numbers."""
    common = {"L": 2, "nu": 1, "Delta": 0.1, "alpha": 3}
    settings = replica.Settings(accuracy=3e-2)
    mine = replica.solve(ATTENTION, settings=settings, ridge_a=0.5, ridge_b=0.6, **common)
    given = common | {"lam_k": 0.5, "lam_v": 0.6, "activation": "linear"}
    theirs = replica.solve("slr-erm", settings=settings, **given).branches[0]
    (branch,) = mine.branches
    assert branch.status is Status.SUCCESSFUL
    np.testing.assert_allclose(
        list(branch.overlaps.values()), list(theirs.overlaps.values()), rtol=1e-8
    )
    assert branch.observables["test_error"] == pytest.approx(theirs.observables["risk"], rel=1e-8)
    assert branch.observables["stability"] == pytest.approx(
        theirs.observables["replicon"], rel=1e-8
    )


@pytest.mark.slow
def test_trained_attention_is_evaluated_at_given_overlaps() -> None:
    """At the fixed point the map gives it back, to the errors of the samples."""
    given = {"activation": "linear", "L": 2, "nu": 1, "Delta": 0.1, "alpha": 3}
    given |= {"lam_k": 0.5, "lam_v": 0.5}
    branch = replica.solve("slr-erm", settings=replica.Settings(accuracy=3e-2), **given).branches[0]
    found = replica.evaluate("slr-erm", branch.overlaps, **given)
    assert found["residual"] < 3e-2 and found["spectral_radius"] < 1
    for name, value in found["conjugates"].items():
        assert value == pytest.approx(branch.conjugates[name], abs=5 * branch.error[name] + 1e-9)
    assert found["observables"]["risk"] == pytest.approx(branch.observables["risk"], abs=3e-2)


def test_a_bayes_model_of_any_name_has_both_risks() -> None:
    solution = replica.solve(SIGNS, alpha=1.0, Delta=0.2)
    assert set(solution.risks) == {"algorithmic", "information_theoretic"}


@pytest.mark.parametrize(
    ("model", "given"),
    [
        (QUERY, ("--set=snr=1",)),
        (VECTORS, ("--set=lam=1",)),
        (SIGNS, ("--set=alpha=1", "--set=Delta=0.2")),
        (
            ATTENTION,
            tuple(f"--set={x}=1" for x in ("alpha", "L", "nu", "Delta", "ridge_a", "ridge_b")),
        ),
    ],
)
def test_a_check_without_a_simulation_says_what_to_add(
    model: str, given: tuple[str, ...], command: Command
) -> None:
    code, _, err = command("check", model, *given)
    assert code == 2 and "add simulate(controls, D, generator)" in err and err.count("\n") == 1


def test_a_bayes_model_of_any_name_is_checked_swept_and_drawn(
    command: Command, tmp_path: Path
) -> None:
    points = {a: replica.solve(SIGNS, alpha=a, Delta=0.5) for a in (0.5, 0.7)}
    risks = {a: point.branch("uninformed").observables["risk"] for a, point in points.items()}
    table, file, figure = (tmp_path / name for name in ("m.csv", "x.h5", "x.png"))
    rows = [f"{a},0.5,{r + 0.01},0.02" for a, r in risks.items()]
    table.write_text("\n".join(["alpha,Delta,risk,risk_error", *rows]) + "\n")
    code, out, err = command("check", SIGNS, "--csv", str(table), "--json")
    assert code == 0, err
    assert [p["z"] for p in json.loads(out)["comparisons"]] == pytest.approx([0.5, 0.5], abs=1e-3)
    sweep = ("sweep", SIGNS, "--over", "alpha=0.5:0.7:2", "--set=Delta=0.5")
    assert command(*sweep, "--quiet", "-o", str(file))[0] == 0
    assert command("plot", str(file), "-o", str(figure))[0] == 0 and figure.exists()
    found = replica.load(file)
    assert found.risk.isel(branch=0).values == pytest.approx(list(risks.values()))


@pytest.mark.slow
def test_trained_attention_by_other_names_is_swept_mapped_and_drawn(
    command: Command, tmp_path: Path
) -> None:
    file = str(tmp_path / "x.h5")
    known = [f"--set={x}=1" for x in ("nu", "ridge_a", "ridge_b")]
    known += ["--set=L=2", "--quiet", "-o", file]
    for arguments in (
        ("sweep", ATTENTION, "--over", "alpha=2:3:2", "--accuracy=0.05", "--set=Delta=0.1", *known),
        ("phase", ATTENTION, "--control=alpha", "--grid=2:3:2", "--over=Delta=0.1:0.2:2", *known),
    ):
        code, _, err = command(*arguments, "--force")
        assert code == 0, err
        assert replica.load(file).test_error.notnull().any()
        figure = tmp_path / f"{arguments[0]}.png"
        code, _, err = command("plot", file, "-o", str(figure), "--y", "test_error")
        assert code == 0 and figure.exists(), err


# records ------------------------------------------------------------------------------------------


def own(**changes: object) -> Model:
    snr, q = quantity("snr"), quantity("q")
    hat = conjugate(q)
    fields = {
        "name": "own",
        "title": "",
        "setting": "",
        "overlaps": (q,),
        "conjugates": (hat,),
        "controls": (snr,),
        "prior": (hat.symbol - sp.log(1 + hat.symbol)) / 2,
        "coupling": -q.symbol * hat.symbol / 2,
        "channel": snr.symbol * q.symbol**2 / 4,
        "observables": {"risk": 1 - q.symbol},
        "starts": {"uninformed": {"q": 0.3}, "informed": {"q": 1.0}},
        "sources": (),
    }
    return Model(**(fields | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("old", "now"),
    [
        ({"path": "flow"}, "theory="),
        ({"scrambled": True}, "QuasiMonteCarlo"),
        ({"exact": lambda e: e}, "rewrite="),
        ({"bound": "risk"}, "bayes_risk"),
        ({"units": {"risk": "1"}}, "units="),
        ({"latex": {"risk": "R"}}, "latex="),
    ],
)
def test_a_field_of_earlier_versions_says_what_it_is_now(old: dict[str, object], now: str) -> None:
    with pytest.raises(ModelError, match="no field any more") as refused:
        own(**old)
    assert now in str(refused.value)


def test_a_plain_expression_has_the_role_of_its_name() -> None:
    model = own()
    assert model.with_role("risk") == "risk" and model.with_role("replicon") is None
    q = model.overlaps[0].symbol
    named = own(observables={"loss": Observable(1 - q, "R", "y^2", "risk")})
    assert named.with_role("risk") == "loss" and named.expressions["loss"] == 1 - q


def test_what_contradicts_itself_is_refused() -> None:
    q = own().overlaps[0].symbol
    twice = {"a": Observable(q, role="risk"), "b": Observable(q, role="risk")}
    with pytest.raises(ModelError, match="two observables have the role"):
        own(observables=twice)
    with pytest.raises(ModelError, match="no role 'riks'"):
        own(observables={"a": Observable(q, role="riks")})
    with pytest.raises(ModelError, match="a criterion names"):
        own(criteria=(Criterion("nothing", "above", 1, "RS_UNSTABLE"),))


def test_a_criterion_of_a_model_is_the_status_of_its_points() -> None:
    limit = Criterion("risk", "above", 0.1, "RS_UNSTABLE", when="finite")
    stable = replica.solve(own(), snr=3.0).branch("informed")
    assert stable.status is Status.SUCCESSFUL and stable.observables["risk"] > 0.1
    flagged = replica.solve(own(criteria=(limit,)), snr=3.0).branch("informed")
    assert flagged.status is Status.RS_UNSTABLE and flagged.overlaps == stable.overlaps


@pytest.mark.parametrize(("gap", "is_below"), [(1.0, True), (1e-8, True), (1e-12, False)])
def test_a_risk_below_its_bayes_risk_is_an_error(gap: float, is_below: bool) -> None:
    """By more than the errors of both and rounding."""
    q = own().overlaps[0].symbol
    measured = {"risk": 1 - q, "least": Observable(1 + gap - q, role="bayes_risk")}
    branch = replica.solve(own(observables=measured), snr=3.0).branch("informed")
    assert 1e-14 < branch.error["risk"] < 1e-9
    assert (branch.status is Status.BELOW_BAYES) == is_below and branch.ok != is_below


def test_theories_are_objects_of_their_models() -> None:
    model = own()
    assert theory_of(model) is theory_of(model)
    assert theory_of(own()) is not theory_of(model)
    flow = dataclasses.replace(
        built(QUERY, {})[0], theory=SphereFlow(drifts=(("gone", "squared"),))
    )
    with pytest.raises(ModelError, match="names gone, which is no observable"):
        theory_of(flow).check()


# a node of one's own ------------------------------------------------------------------------------


class Doubled(Numerical):
    """2 f, evaluated by a rule that this file registers."""

    def _eval_derivative(self, t: sp.Symbol) -> sp.Expr:
        return Doubled(self.args[0].diff(t))


def test_a_node_of_ones_own_is_evaluated_by_its_registered_rule() -> None:
    q, g = own().overlaps[0].symbol, sp.Symbol("g", real=True)
    channel = own().controls[0].symbol * Doubled(Average(q**2 * g**2, g)) / 8
    with pytest.raises(replica.LoweringError, match="no lowering for Doubled"):
        replica.solve(own(channel=channel), snr=3.0)

    @lowers(Doubled)
    def doubled(evaluation: object, node: Doubled) -> object:
        return 2 * evaluation.value(node.args[0])  # type: ignore[attr-defined]

    try:
        mine = replica.solve(own(channel=channel), snr=3.0).branch("informed")
    finally:
        del RULES[Doubled]
    plain = replica.solve(own(), snr=3.0).branch("informed")
    assert mine.overlaps["q"] == pytest.approx(plain.overlaps["q"], abs=1e-10)
