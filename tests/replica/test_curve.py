"""The stored curve of fixed points, several S shapes, the risk over a diagram, and the figures of
both.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm
from typer.testing import CliRunner

import replica
from equations import Model, Quantity, quantity
from equations.glm.priors import overlap_coupling, sign_term
from equations.quantities import conjugate
from replica.cli import app
from replica.errors import InputError, SolveError, StoreError
from replica.files.store import load, save
from replica.phase.maps.diagram import phase_diagram
from replica.phase.roles import BETWEEN, FURTHER, INFORMED, UNINFORMED
from replica.plots.base import SHEETS, drawn_as, round_levels, save_figure
from replica.plots.curve import draw_curve
from replica.plots.figures import figure_of
from replica.plots.phase import draw_phase

SIDE = 0.02


@cache
def stairs(high: int, power: int) -> Model:
    """A +-1 signal of field snr (q + 4 q^2 + high q^power) + side: two S shapes for a
    large power.
    """
    snr, q = quantity("snr"), quantity("q")
    side = Quantity("side", "", 0, default=SIDE)
    hat, x = conjugate(q), q.symbol
    return Model(
        name="stairs",
        title="",
        setting="",
        overlaps=(q,),
        conjugates=(hat,),
        controls=(snr, side),
        prior=sign_term(hat.symbol + side.symbol),
        coupling=overlap_coupling((q,), (hat,)),
        channel=snr.symbol
        * (x**2 / 4 + 4 * x**3 / 6 + high * x ** (power + 1) / (2 * (power + 1))),
        observables={"mse": 1 - x**2},
        starts={"uninformed": {"q": 1e-3}, "informed": {"q": 1.0}},
        sources=(),
    )


GRID = np.linspace(-11, 11, 4001)
WEIGHTS = norm.pdf(GRID) * (GRID[1] - GRID[0])


def overlap(h: float) -> float:
    """E tanh(h + sqrt(h) g); the trapezoidal rule is exact to rounding for a function that falls
    like a Gaussian.
    """
    return float(WEIGHTS @ np.tanh(h + np.sqrt(h) * GRID))


def snr_at(h: float, high: int, power: int, side: float = SIDE) -> float:
    """snr at which the total field is h: the curve in closed form."""
    q = overlap(h)
    return (h - side) / (q + 4 * q**2 + high * q**power)


@cache
def s_shape() -> xr.Dataset:
    return replica.curve(stairs(0, 2), "snr")


@cache
def staircase() -> xr.Dataset:
    return replica.curve(stairs(10, 40), "snr")


def field_of(q: float) -> float:
    """The h at which the overlap is q."""
    return float(brentq(lambda h: overlap(h) - q, 1e-9, 60.0, xtol=1e-13))  # type: ignore[arg-type]


def off(part: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """How far the points of the S are from the closed form along snr, and how far their errors
    allow.
    """
    exact = np.array(
        [[snr_at(field_of(float(q) + shift), 0, 2) for shift in (-1e-5, 0, 1e-5)] for q in part.q]
    )
    slope = (exact[:, 2] - exact[:, 0]) / 2e-5
    return (
        np.abs(part.snr.values - exact[:, 1]),
        part.error_snr.values + np.abs(slope) * part.error_q.values,
    )


def test_points_lie_on_the_curve_in_closed_form() -> None:
    curve = s_shape()
    rows = np.linspace(3, curve.sizes["point"] - 1, 25).astype(int)
    seen = curve.isel(point=[i for i in rows if 1e-3 < curve.q[i] < 0.99])
    distance, allowed = off(seen)
    assert np.all(distance < allowed + 3e-7 * seen.snr.values) and np.max(distance) < 1e-5
    assert float(curve.residual.max()) < 2e-9 and set(np.unique(curve.piece)) == {0}
    np.testing.assert_allclose(curve.mse, 1 - curve.q**2, atol=1e-12)


def test_stability_is_the_sign_of_the_slope() -> None:
    """Along the curve of one overlap a part is unstable iff the control falls; both folds are
    points of it.
    """
    curve = s_shape()
    falls = np.diff(curve.snr) < 0
    inner = curve.role.values == BETWEEN
    assert not curve.stable.values[inner].any() and curve.stable.values[~inner].all()
    np.testing.assert_array_equal(falls, inner[:-1] | inner[1:])
    for fold in curve.attrs["folds"]:
        at = int(np.abs(curve.snr.values - fold["value"]).argmin())
        assert float(curve.snr[at]) == fold["value"] and float(
            curve.spectral_radius[at]
        ) == pytest.approx(1, abs=1e-5)
    limits = curve.attrs["thresholds"]
    assert {f["value"] for f in curve.attrs["folds"]} == {
        limits["alpha_inf"]["value"],
        limits["alpha_alg"]["value"],
    }


def test_every_fold_of_two_s_shapes() -> None:
    curve = staircase()
    exact = [
        -sign
        * float(
            minimize_scalar(
                lambda h, s=sign: -s * snr_at(h, 10, 40),
                bounds=between,
                method="bounded",
                options={"xatol": 1e-7},
            ).fun
        )
        for sign, between in ((1, (SIDE, 0.6)), (-1, (0.6, 2.0)), (1, (2.0, 4.5)), (-1, (4.5, 9.0)))
    ]
    for fold, value in zip(curve.attrs["folds"], exact, strict=True):
        assert abs(fold["value"] - value) < fold["error"] + 1e-9
    limits = {n: t["value"] for n, t in curve.attrs["thresholds"].items()}
    assert (limits["alpha_inf"], limits["alpha_alg"]) == pytest.approx(
        (exact[1], exact[2]), rel=1e-6
    )
    assert set(np.unique(curve.role)) == {UNINFORMED, BETWEEN, INFORMED, FURTHER}
    phi = {}
    for name, role in (("below", FURTHER), ("above", INFORMED)):
        part = curve.isel(point=curve.role.values == role)
        inner = part.sortby("snr").isel(point=slice(3, None))
        phi[name] = float(CubicSpline(inner.snr, inner.free_energy)(limits["alpha_IT"]))
    assert phi["below"] == pytest.approx(phi["above"], abs=1e-5)


def test_a_second_s_that_begins_after_the_first_has_ended() -> None:
    """At side = 0.03 the folds are 0.600, 0.547, 0.797, 0.635: the starts agree between 0.600 and
    0.635.
    """
    found = replica.thresholds(stairs(10, 40), "snr", side=0.03)
    assert (found.alpha_inf, found.alpha_IT, found.alpha_alg) == pytest.approx(
        (0.54702, 0.72842, 0.79726), abs=1e-5
    )


def test_the_trivial_branch_and_the_unstable_part_that_meets_it() -> None:
    model = stairs(0, 2)
    curve = replica.curve(model, "snr", side=0.0)
    pieces = [curve.isel(point=curve.piece.values == i) for i in np.unique(curve.piece)]
    trivial = next(p for p in pieces if np.all(p.q == 0))
    assert bool(trivial.stable[trivial.snr.values < 0.99].all()) and not bool(
        trivial.stable[trivial.snr.values > 1.01].any()
    )
    (other,) = (p for p in pieces if not np.all(p.q == 0))
    end = other.isel(point=-1)
    assert float(end.q) < 2e-3 and float(end.snr) == pytest.approx(
        1, abs=5e-3
    )  # where the trivial branch loses stability


def test_errors_cover_what_smaller_node_sets_miss() -> None:
    """On a rule of 35 nodes, against the closed form."""
    coarse = replica.curve(stairs(0, 2), "snr", nodes=replica.NodeSizes(gaussian=35), accuracy=1.0)
    part = coarse.isel(
        point=np.flatnonzero((coarse.q.values > 0.3) & (coarse.q.values < 0.95))[::4]
    )
    distance, allowed = off(part)
    assert (
        np.all(distance < allowed + 1e-9) and np.max(distance) > 1e-6
    )  # there is something to cover


@pytest.mark.parametrize("model", [(0, 2), (10, 40)])
def test_risk_over_a_diagram_is_that_of_plain_solves(model: tuple[int, int]) -> None:
    built = stairs(*model)
    column = phase_diagram(built, "snr", over={"side": [SIDE]}, tricritical=False).isel(side=0)
    for value in column.snr.values[5::9]:
        solution = replica.solve(built, snr=float(value), side=SIDE)
        at = column.sel(snr=value)
        reached = solution.branch("uninformed").observables["mse"]
        assert abs(float(at.algorithmic_risk) - reached) <= float(at.error_algorithmic_risk) + 1e-7
        if model == (0, 2):  # two starts do not find the branch between two S shapes
            best = solution.branches[solution.best or 0].observables["mse"]
            assert abs(float(at.best_risk) - best) <= float(at.error_best_risk) + 1e-7


# files and figures --------------------------------------------------------------------------------


def test_command_stores_and_draws_a_curve(tmp_path: Path) -> None:
    file, figure = tmp_path / "curve.h5", tmp_path / "curve.svg"
    ran = CliRunner().invoke(app, ["phase", "perceptron-bayes", "--curve", "-o", str(file)])
    assert ran.exit_code == 0 and "transition: first-order, folds: 1.492" in ran.stdout
    curve = load(file)
    assert (
        curve.attrs["command"].startswith("replica ")
        and curve.attrs["complete"]
        and len(curve.attrs["folds"]) == 1
    )
    assert (
        CliRunner().invoke(app, ["plot", str(file), "-o", str(figure), "-y", "q"]).exit_code == 0
        and figure.stat().st_size > 5000
    )
    again = CliRunner().invoke(app, ["phase", "perceptron-bayes", "--curve", "-o", str(file)])
    assert isinstance(again.exception, StoreError) and "exists" in str(again.exception)
    for wrong, message in (
        (["--json"], "one curve"),
        (["--over", "side=1:2:2"], "one curve"),
        (["--grid", "1:2:2"], "one curve"),
    ):
        ran = CliRunner().invoke(
            app, ["phase", "perceptron-bayes", "--curve", "-o", str(tmp_path / "x.h5"), *wrong]
        )
        assert isinstance(ran.exception, InputError) and message in str(ran.exception)
    with pytest.raises(InputError, match="did you mean risk"):
        draw_curve(curve, "rsk")


def test_stable_parts_are_solid_and_unstable_ones_dashed() -> None:
    (panel,) = draw_curve(staircase(), "q").axes
    drawn = [line for line in panel.lines if len(line.get_xdata()) > 2]
    assert [line.get_linestyle() for line in drawn] == ["-", "--", "-", "--", "-"]
    for line in drawn:  # the parts join at the folds
        rising = np.all(np.diff(line.get_xdata()) > -1e-6)  # the fold's own error
        assert rising == (line.get_linestyle() == "-")
    marked = sorted(
        float(line.get_xdata()[0]) for line in panel.lines if len(line.get_xdata()) == 2
    )
    assert marked == pytest.approx(
        sorted(t["value"] for t in staircase().attrs["thresholds"].values())
    )


def test_curve_survives_the_file(tmp_path: Path) -> None:
    save(tmp_path / "c.h5", staircase())
    assert load(tmp_path / "c.h5").identical(staircase())


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_paper_style(tmp_path: Path, suffix: str) -> None:
    """One column wide, 8 pt, fonts embedded as TrueType, nothing half transparent."""
    diagram = phase_diagram(stairs(0, 2), "snr", over={"side": [0.02, 0.04, 0.3]})
    path = tmp_path / f"p{suffix}"
    with drawn_as("paper"):
        figure = draw_phase(diagram)
        assert figure.get_figwidth() == 3.4 and figure.axes[0].xaxis.label.get_fontsize() == 8
    save_figure(figure, path)
    content = path.read_bytes()
    assert len(content) > 5000
    if suffix == ".pdf":
        assert b"/Type0" in content and b"/FontFile2" in content and b"/Type3" not in content
        assert {float(v) for v in _alphas(content)} <= {0.0, 1.0}  # 0: a frame that is not drawn
    with pytest.raises(InputError, match="did you mean paper"), drawn_as("papr"):
        pass
    assert set(SHEETS) == {"default", "paper"}


def _alphas(pdf: bytes) -> list[bytes]:
    """Opacities that a PDF asks for."""
    words = pdf.split()
    return [words[i + 1] for i, w in enumerate(words[:-1]) if w in (b"/ca", b"/CA")]


def test_phase_figure_has_a_map_of_the_risk_and_other_files_their_own_figure() -> None:
    diagram = phase_diagram(stairs(0, 2), "snr", over={"side": [0.02, 0.04, 0.3]})
    figure = figure_of(diagram)
    assert len(figure.axes) == 3 and figure.axes[2].get_ylabel() == "algorithmic risk"
    assert figure_of(diagram, "best_risk").axes[2].get_ylabel() == "best risk"
    with pytest.raises(InputError, match="no map of 'q'"):
        figure_of(diagram, "q")
    assert len(figure_of(staircase(), "mse").axes) == 1


def test_contour_levels_are_round() -> None:
    np.testing.assert_allclose(round_levels(0.61, 0.98, 8), [0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95])
    assert set(round_levels(0.1, 12.4, 6)) <= {0.2, 0.5, 1, 2, 5, 10}


# the command --------------------------------------------------------------------------------------


def test_quiet_says_nothing_and_no_transition_is_null(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["phase", "spiked-wigner", "--control", "snr", "--within", "0.1:0.9"]
    ran = CliRunner().invoke(app, [*command, "--json"])
    printed: dict[str, Any] = json.loads(ran.stdout)
    assert ran.exit_code == 0 and printed["transition"] == "none"
    assert (
        [printed[n] for n in ("alpha_inf", "alpha_IT", "alpha_alg")]
        == [None] * 3
        == list(printed["error"].values())
    )
    quiet = CliRunner().invoke(app, [*command, "--curve", "-o", str(tmp_path / "c.h5"), "--quiet"])
    assert quiet.exit_code == 0 and quiet.output == ""
    assert draw_curve(load(tmp_path / "c.h5"), "q")

    def lost(*_: object, **__: object) -> None:
        raise SolveError("the curve was lost")

    monkeypatch.setattr("replica.cli.phase.curve", lost)
    failed = CliRunner().invoke(app, [*command, "--curve", "-o", str(tmp_path / "d.h5")])
    assert (
        failed.exit_code == 1
        and "the curve was lost" in failed.output
        and not (tmp_path / "d.h5").exists()
    )
