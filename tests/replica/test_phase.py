"""Thresholds against references, bisection on plain iteration and closed forms; diagrams, files,
figures, bad input.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy as sp
import xarray as xr
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import norm
from typer.testing import CliRunner

import replica
from equations import Model, Quantity, quantity
from equations.glm.priors import overlap_coupling, sign_term
from equations.quantities import conjugate
from replica.cli import app
from replica.errors import InputError, SolveError, StoreError
from replica.files import store
from replica.files.store import load, save
from replica.phase.branches import Stretch
from replica.phase.maps.cusp import cusp
from replica.phase.maps.diagram import phase_diagram
from replica.phase.maps.diagram_table import REGIONS
from replica.phase.thresholds import Search, Thresholds
from replica.phase.transition import find_transition, s_curve
from replica.plots.phase import draw_phase
from replica.theories import theory_of
from solvers import Curve

FOUND: dict[str, float] = {"alpha_IT": 1.244684, "alpha_alg": 1.492632}


@cache
def perceptron() -> Thresholds:
    return replica.thresholds("perceptron-bayes")


@cache
def mixed(side: bool) -> Model:
    """A +-1 signal seen in a matrix and a three-index tensor of relative strength gamma: q_hat =
    snr (q + gamma q^2) (+ side).
    """
    snr, q = quantity("snr"), quantity("q")
    gamma = Quantity("gamma", r"\gamma", 0)
    extra = Quantity("side", "", 0, default=0.0)
    hat = conjugate(q)
    field = hat.symbol + extra.symbol if side else hat.symbol
    return Model(
        name="mixed",
        title="",
        setting="",
        overlaps=(q,),
        conjugates=(hat,),
        controls=(snr, gamma, *([extra] if side else [])),
        prior=sign_term(field),
        coupling=overlap_coupling((q,), (hat,)),
        channel=snr.symbol * (q.symbol**2 / 4 + gamma.symbol * q.symbol**3 / 6),
        observables={"mse": 1 - q.symbol**2},
        starts={"uninformed": {"q": 1e-3}, "informed": {"q": 1.0}},
        sources=(),
    )


def overlap(h: float) -> float:
    """E tanh(h + sqrt(h) g), by adaptive quadrature."""
    return quad(
        lambda g: np.tanh(h + np.sqrt(h) * g) * norm.pdf(g),
        -12,
        12,
        epsabs=1e-14,
        epsrel=1e-13,
        limit=400,
    )[0]


def mixed_snr(h: float, gamma: float, side: float = 0.0) -> float:
    """snr at which the total field is h: the S-curve in closed form."""
    q = overlap(h)
    return (h - side) / (q + gamma * q**2)


def extremum(gamma: float, side: float, between: tuple[float, float], sign: int) -> float:
    found = minimize_scalar(
        lambda h: -sign * mixed_snr(h, gamma, side),
        bounds=between,
        method="bounded",
        options={"xatol": 1e-6},
    )
    return -sign * float(found.fun)


# reference numbers --------------------------------------------------------------------------------


def test_perceptron_reference() -> None:
    """Gyorgyi (1990): 1.245 and 1.492-1.493, here by independent quadrature to six digits."""
    found = perceptron()
    assert (
        found.transition == "first-order"
        and found.alpha_inf is None
        and found.error["alpha_inf"] is None
    )
    for name, value in FOUND.items():
        assert getattr(found, name) == pytest.approx(value, abs=6e-7)
        assert 0 < found.error[name] < 1e-8


def test_perceptron_unstable_branch_at_1_4() -> None:
    theory = theory_of(replica.equations.MODELS["perceptron-bayes"].build())
    line = theory.along("alpha", {}, theory.node_sizes())
    curve = s_curve(line, 1e-3, 1e3)
    (fold,) = curve.turns()
    q = [
        1 - float(Stretch(line, part).at(1.4)[0])
        for part in (curve.knots[: fold + 1], curve.knots[fold + 1 :])
    ]
    assert q == pytest.approx([0.7896990395, 0.9545986418], abs=1e-9)


@pytest.mark.slow
def test_slr_reference() -> None:
    found = replica.thresholds("slr-bayes", L=4, nu=1, Delta=1e-4)
    assert (found.alpha_inf, found.alpha_IT, found.alpha_alg) == pytest.approx(
        (1.15744, 1.32427, 1.68452), abs=2e-5
    )
    loose = replica.thresholds("slr-bayes", L=4, nu=1, Delta=1e-4, accuracy=1e-4)
    for name, error in loose.error.items():
        assert error is not None and abs(getattr(loose, name) - getattr(found, name)) < error + 1e-7


@pytest.mark.slow
@pytest.mark.parametrize(
    ("controls", "kind"),
    [
        ({"L": 4, "nu": 5.5, "Delta": 1e-4}, "first-order"),
        ({"L": 4, "nu": 8.7, "Delta": 1e-4}, "none"),
        ({"L": 1, "nu": 1, "Delta": 0.1}, "none"),
    ],
)
def test_slr_with_and_without_a_transition(controls: dict[str, float], kind: str) -> None:
    """At nu = 5.5 the S is small enough to be jumped by long steps along the curve."""
    assert replica.thresholds("slr-bayes", accuracy=1e-4, **controls).transition == kind


# against plain iteration --------------------------------------------------------------------------


def plain(alpha: float, tol: float = 1e-9) -> tuple[float, int]:
    settings = replica.Settings(polish="none", tol=tol, max_steps=200_000)
    branch = replica.solve("perceptron-bayes", settings=settings, alpha=alpha).branch("uninformed")
    return branch.overlaps["V"], branch.steps


@pytest.mark.slow
def test_spinodal_agrees_with_bisection_on_plain_iteration() -> None:
    low, high = 1.4, 1.55
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (middle, high) if plain(middle)[0] > 0.01 else (low, middle)
    assert low - 1e-7 <= perceptron().alpha_alg <= high + 1e-7


@pytest.mark.slow
def test_plain_iteration_slows_down_like_the_square_root() -> None:
    """Steps per decade of the residual grow like distance^(-1/2) below the spinodal."""
    distances = np.array([1e-3, 1e-4, 1e-5])
    steps = [
        plain(perceptron().alpha_alg - d, 1e-12)[1] - plain(perceptron().alpha_alg - d, 1e-11)[1]
        for d in distances
    ]
    assert np.polyfit(np.log(distances), np.log(steps), 1)[0] == pytest.approx(-0.5, abs=0.01)


def test_free_energies_are_equal_at_alpha_it() -> None:
    solution = replica.solve("perceptron-bayes", alpha=perceptron().alpha_IT)
    assert solution.branch("uninformed").free_energy == pytest.approx(
        solution.branch("informed").free_energy, abs=1e-10
    )


# a model with closed-form thresholds --------------------------------------------------------------


def test_spiked_wigner_is_continuous_at_one() -> None:
    found = replica.thresholds("spiked-wigner", "snr")
    assert found.transition == "continuous"
    assert (found.alpha_inf, found.alpha_IT, found.alpha_alg) == pytest.approx((1, 1, 1), abs=1e-9)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.9])
def test_weak_tensor_is_continuous(gamma: float) -> None:
    """F(q) = snr q + (snr gamma - snr^2) q^2 + ...: continuous at snr = 1 for gamma < 1."""
    found = replica.thresholds(mixed(False), "snr", gamma=gamma)
    assert found.transition == "continuous" and found.alpha_alg == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("gamma", [1.5, 3.0])
def test_strong_tensor_is_first_order_from_a_trivial_branch(gamma: float) -> None:
    found = replica.thresholds(mixed(False), "snr", gamma=gamma)
    assert found.transition == "first-order" and found.alpha_alg == pytest.approx(1, abs=1e-9)
    assert found.alpha_inf == pytest.approx(extremum(gamma, 0.0, (0.05, 12.0), -1), abs=1e-6)
    assert found.alpha_inf < found.alpha_IT < found.alpha_alg


@pytest.mark.parametrize("gamma", [4.0, 6.0])
def test_both_folds_of_an_s_curve(gamma: float) -> None:
    side = 0.02
    found = replica.thresholds(mixed(True), "snr", gamma=gamma, side=side)
    assert found.transition == "first-order"
    assert found.alpha_alg == pytest.approx(extremum(gamma, side, (side, 0.6), 1), abs=1e-6)
    assert found.alpha_inf == pytest.approx(extremum(gamma, side, (0.6, 12.0), -1), abs=1e-6)
    phi = [
        replica.solve(mixed(True), snr=found.alpha_IT, gamma=gamma, side=side).branch(s).free_energy
        for s in ("uninformed", "informed")
    ]
    assert phi[0] == pytest.approx(phi[1], abs=1e-8)


def test_a_fold_pair_between_two_knots_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """gamma = 3.32 lies just above the cusp; the knots with falling snr are taken out."""
    model = mixed(True)
    theory = theory_of(model)
    line = theory.along("snr", {"gamma": 3.32, "side": 0.05}, theory.node_sizes())
    curve = s_curve(line, 1e-3, 1e3)
    sparse = Curve(tuple(k for k in curve.knots if k.tangent[-1] > 0), "stopped")
    assert sparse.turns() == [] and len(curve.turns()) == 2
    whole = find_transition(line, 1e-3, 1e3)
    monkeypatch.setattr("replica.phase.transition.s_curve", lambda *_: sparse)
    found = find_transition(line, 1e-3, 1e3)
    assert found.disappears is not None and whole.disappears is not None
    assert found.disappears.value == pytest.approx(whole.disappears.value, rel=1e-9)


@pytest.mark.slow
def test_a_control_that_is_noise() -> None:
    """Along Delta = 1/snr the thresholds are the inverse ones, in the order in which information
    grows.
    """
    model = mixed(True)
    delta = quantity("Delta", open_low=True)
    snr = model.controls[0].symbol
    noisy = replace(
        model,
        controls=(delta, *model.controls[1:]),
        channel=model.channel.xreplace({snr: 1 / delta.symbol}),
    )
    found, inverse = (
        replica.thresholds(noisy, "Delta", gamma=4.0, side=0.05),
        replica.thresholds(model, "snr", gamma=4.0, side=0.05),
    )
    for name in ("alpha_inf", "alpha_IT", "alpha_alg"):
        assert getattr(found, name) == pytest.approx(1 / getattr(inverse, name), rel=1e-8)
    dataset = phase_diagram(noisy, "Delta", over={"gamma": [4.0]}, side=0.05)
    codes = dataset.region.sel(gamma=4.0).values  # along growing noise: easy, hard, impossible
    assert list(dict.fromkeys(codes.tolist())) == [2, 1, 0]


def test_no_transition_is_an_answer() -> None:
    found = replica.thresholds(mixed(True), "snr", gamma=0.5, side=0.1)
    assert found.transition == "none"
    assert (
        [found.alpha_inf, found.alpha_IT, found.alpha_alg]
        == [None] * 3
        == list(found.error.values())
    )
    below = replica.thresholds("perceptron-bayes", within=(0.01, 1.2))
    assert below.alpha_alg is None and below.alpha_IT is None


# diagrams -----------------------------------------------------------------------------------------


def lines(**how: object) -> xr.Dataset:
    return phase_diagram(mixed(True), "snr", over={"gamma": [4.0, 0.3, 6.0]}, side=0.05, **how)


def test_diagram_file_and_figure(tmp_path: Path) -> None:
    dataset = lines()
    one = replica.thresholds(mixed(True), "snr", gamma=4.0, side=0.05)
    column = dataset.sel(gamma=4.0)
    assert [float(column[n]) for n in ("alpha_inf", "alpha_IT", "alpha_alg")] == pytest.approx(
        [one.alpha_inf, one.alpha_IT, one.alpha_alg], rel=1e-12
    )
    assert np.isnan(dataset.alpha_alg.sel(gamma=0.3)) and dataset.transition.values.tolist() == [
        1,
        0,
        1,
    ]
    region = dataset.region.sel(gamma=4.0)
    for value, code in (
        (one.alpha_IT * 0.97, 0),
        ((one.alpha_IT + one.alpha_alg) / 2, 1),
        (one.alpha_alg * 1.05, 2),
    ):
        assert int(region.sel(snr=value, method="nearest")) == code
    assert set(np.unique(dataset.region.sel(gamma=0.3))) == {3} and REGIONS[3].startswith(
        "no transition"
    )
    save(tmp_path / "phase.h5", dataset)
    back = load(tmp_path / "phase.h5")
    assert back.identical(dataset)
    draw_phase(back).savefig(tmp_path / "phase.svg")
    assert (tmp_path / "phase.svg").stat().st_size > 5000


def test_an_interrupted_diagram_is_continued_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By dask workers, who are sent the model itself; the column before is not computed again, a
    failed one stays failed.
    """
    distributed = pytest.importorskip("distributed")
    whole, path, computed = lines(), tmp_path / "x.h5", []
    real, rewrite = replica.phase.maps.diagram.search, store.rewrite

    def search(*args: Any) -> Search:
        computed.append(args[-1]["gamma"])
        return real(*args)

    def interrupted(*args: object, **how: object) -> Path:
        rewrite(*args, **how)
        if computed:
            raise KeyboardInterrupt
        return path

    monkeypatch.setattr("replica.phase.maps.diagram.search", search)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(store, "rewrite", interrupted)
        lines(file=path)
    part = load(path)
    assert (
        part.transition.values.tolist() == [1, 4, 4]
        and not part.attrs["complete"]
        and part.attrs["tricritical"] == []
    )
    assert set(np.unique(part.region[1:])) == {4}
    draw_phase(part)
    with pytest.raises(StoreError, match=r"accuracy is 1e-06 there and 0\.01 here"):
        lines(file=path, resume=True, accuracy=0.01)
    with distributed.Client(
        processes=False,
        n_workers=1,
        threads_per_worker=1,
        dashboard_address=None,
        set_as_default=False,
    ) as client:
        assert lines(file=path, resume=True, dask=client).identical(
            whole.assign_attrs(created=part.attrs["created"])
        )
    assert (
        load(path).identical(whole.assign_attrs(created=part.attrs["created"]))
        and whole.attrs["complete"]
    )
    computed.clear()
    assert lines(file=path, resume=True).identical(load(path)) and computed == []


def test_the_hard_phase_closes_at_a_cusp() -> None:
    """There d snr/dh and d^2 snr/dh^2 vanish together: the least slope of the closed-form curve is
    zero.
    """
    (point,) = lines().attrs["tricritical"]

    def least(gamma: float) -> float:
        def slope(h):
            return (mixed_snr(h + 1e-4, gamma, 0.05) - mixed_snr(h - 1e-4, gamma, 0.05)) / 2e-4

        return float(minimize_scalar(slope, bounds=(0.1, 1.5), method="bounded").fun)

    gamma = point["gamma"]
    assert least(gamma * 0.99) > 0 > least(gamma * 1.01)
    assert abs(least(gamma)) < 1e-4
    assert cusp(mixed(True), "snr", "gamma", (4.0, 5.0), {"side": 0.05}, (1e-3, 1e3)) is None


def test_a_failed_column_keeps_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    real = replica.phase.maps.diagram.search

    def failing(*args: Any) -> Search:
        if args[-1]["gamma"] == 5.0:
            raise SolveError("lost")
        return real(*args)

    monkeypatch.setattr("replica.phase.maps.diagram.search", failing)
    near = np.nextafter(5.0, 6)
    dataset = phase_diagram(mixed(True), "snr", over={"gamma": [4.0, 5.0, near]}, side=0.05)
    assert dataset.transition.values.tolist() == [1, 3, 1] and dataset.attrs["failures"] == {
        "gamma=5": "lost"
    }
    assert set(np.unique(dataset.region.sel(gamma=5.0))) == {4} and np.isnan(dataset.alpha_IT[1])


# bad input ----------------------------------------------------------------------------------------

BAD = [
    (("slr-population",), {}, "no control 'alpha'|no uninformed"),
    (("perceptron-bayes", "beta"), {}, "no control 'beta'"),
    (("perceptron-bayes",), {"alpha": 1.0}, "both searched and fixed"),
    (("perceptron-bayes",), {"within": (2.0, 1.0)}, "cannot search"),
    (("perceptron-bayes",), {"within": (0.0, 1.0)}, "out of range"),
    (("perceptron-bayes",), {"within": (0.1, float("nan"))}, "not finite"),
    (("perceptron-bayes",), {"accuracy": float("nan")}, "accuracy"),
    (("slr-bayes",), {"L": 4, "nu": 1}, "needs Delta"),
    (("slr-bayes", "L"), {"alpha": 1, "nu": 1, "Delta": 0.1}, "varies continuously"),
    (("nope",), {}, "unknown model"),
]


@pytest.mark.parametrize(("names", "settings", "message"), BAD)
def test_bad_input_is_one_sentence(
    names: tuple[str, ...], settings: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        replica.thresholds(*names, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "over",
    [
        {},
        {"gamma": []},
        {"gamma": [1, 1]},
        {"gamma": ["x"]},
        {"gamma": [-1]},
        {"snr": [1, 2]},
        {"nu": [1]},
        {"gamma": [1], "side": [1]},
    ],
)
def test_bad_second_controls(over: dict[str, list[float]]) -> None:
    with pytest.raises(InputError):
        phase_diagram(mixed(True), "snr", over=over, **({} if "side" in over else {"side": 0.1}))


# command line -------------------------------------------------------------------------------------


def test_json_of_the_command() -> None:
    ran = CliRunner().invoke(app, ["phase", "perceptron-bayes", "--control", "alpha", "--json"])
    assert ran.exit_code == 0
    printed = json.loads(ran.stdout)
    assert printed["alpha_inf"] is None and printed["error"]["alpha_inf"] is None
    assert (
        printed["alpha_alg"] == pytest.approx(1.492632, abs=1e-6)
        and printed["error"]["alpha_alg"] < 1e-6
    )


def test_the_command_refuses_what_makes_no_sense(tmp_path: Path) -> None:
    for arguments, message in (
        (["perceptron-bayes", "-o", str(tmp_path / "x.h5")], "needs --over"),
        (["slr-bayes", "--over", "nu=1:2:2", "--set", "L=4", "--set", "Delta=1"], "give -o"),
        (["perceptron-bayes", "--within", "1"], "write low:high"),
    ):
        ran = CliRunner().invoke(app, ["phase", *arguments])
        assert isinstance(ran.exception, InputError) and message in str(ran.exception)


@pytest.mark.slow
def test_derivative_of_phi_along_a_branch_is_its_explicit_one() -> None:
    """d Phi/d alpha = Psi_out at the fixed point."""
    model = replica.equations.MODELS["perceptron-bayes"].build()
    line = theory_of(model).along("alpha", {}, theory_of(model).node_sizes())
    x = {
        a: np.array([replica.solve(model, alpha=a).branch("uninformed").overlaps["V"]])
        for a in (1.299, 1.3, 1.301)
    }
    phi = {a: float(line.at(v, a).free_energy) for a, v in x.items()}
    assert (phi[1.301] - phi[1.299]) / 0.002 == pytest.approx(
        float(line.at(x[1.3], 1.3).dPhi_dc), abs=1e-6
    )
    assert float(line.at(x[1.3], 1.3).dPhi_dc) == pytest.approx(
        float(sp.N(2 * quad(_entropy(x[1.3][0]), -12, 12, limit=400)[0])), abs=1e-9
    )


def _entropy(v: float) -> object:
    scale = np.sqrt((1 - v) / v)
    return lambda g: np.exp(norm.logcdf(scale * g)) * norm.logcdf(scale * g) * norm.pdf(g)
