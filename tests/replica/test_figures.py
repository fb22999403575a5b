"""The registry of figures, `replica.plot`, and several sweeps on one axis, from datasets made by
hand.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import replica
from replica import InputError, Status
from replica.phase.roles import BETWEEN, UNINFORMED
from replica.plots import registry
from replica.plots.base import COLOURS, STYLES, drawn_as, line_look, scale_of
from replica.plots.figures import figure_of, figure_of_all, plot
from replica.plots.registry import figure, kinds
from replica.plots.sweeps import draw_sweep, has_algorithmic_branch, legend_names

ALPHA = np.array([1.0, 2.0, 3.0, 4.0])
REACHED, BEST = np.array([0.9, 0.8, 0.7, 0.2]), np.array([0.9, 0.4, 0.3, 0.2])


def swept(starts: tuple[str, ...] = ("uninformed", "informed"), **attrs: Any) -> xr.Dataset:
    """A sweep as stored: the second start finds a better branch at two points."""
    risk = np.stack([REACHED, BEST], axis=1)[:, : len(starts)]
    about = {"model": "mine", "title": "a model of mine", "best": "largest", "options": {}}
    sign = -1 if (about | attrs)["best"] == "largest" else 1
    dims = ("alpha", "branch")
    variables = {
        "risk": (dims, risk, {"latex": "R"}),
        "error_risk": (dims, np.full(risk.shape, 1e-3)),
        "free_energy": (dims, sign * risk),
        "status": (dims, np.full(risk.shape, Status.SUCCESSFUL.code)),
    }
    coords = {"alpha": ("alpha", ALPHA, {"latex": r"\alpha"}), "branch": list(starts)}
    return xr.Dataset(variables, coords, about | {"controls": {}} | attrs)


def trained(activation: str, **attrs: Any) -> xr.Dataset:
    """A sweep of a trained predictor: the lowest energy is the equilibrium."""
    about = {"model": "learner", "best": "smallest", "options": {"activation": activation}}
    return swept(**about | attrs)


def legends(drawing: Any) -> list[str]:
    return [text.get_text() for text in drawing.axes[0].get_legend().get_texts()]


@pytest.fixture
def registered() -> Iterator[None]:
    """What a test registers is forgotten after it."""
    before = list(registry.FIGURES)
    yield
    registry.FIGURES[:] = before


# several sweeps on one axis -----------------------------------------------------------------------


def test_two_sweeps_of_an_own_bayes_model_keep_both_their_curves() -> None:
    drawing = plot(swept(controls={"nu": 1.0}), swept(controls={"nu": 2.0}))
    drawn = {line.get_label(): line.get_ydata() for line in drawing.axes[0].lines}
    assert list(drawn) == legends(drawing)
    expected = [
        (rf"Bayes, $\nu={nu}$, {kind}", values)
        for nu in (1, 2)
        for kind, values in (("algorithmic", REACHED), ("information-theoretic", BEST))
    ]
    assert list(drawn) == [name for name, _ in expected]
    for name, values in expected:
        np.testing.assert_array_equal(drawn[name], values)
    looks = {(line.get_color(), line.get_linestyle()) for line in drawing.axes[0].lines}
    assert len(looks) == 4


def test_a_model_with_an_algorithmic_branch_is_known_by_its_file_and_not_by_its_name() -> None:
    assert has_algorithmic_branch(swept()) and has_algorithmic_branch(swept(model="x"))
    assert not has_algorithmic_branch(swept(("uninformed",)))
    assert not has_algorithmic_branch(swept(("left", "right")))
    assert not has_algorithmic_branch(trained("softmax", model="my-bayes"))


def test_a_predictor_gives_the_branch_of_lowest_energy() -> None:
    drawing = plot(swept(), trained("softmax", optimised={"lam": 1.0}), trained("linear"))
    names = ["Bayes, algorithmic", "Bayes, information-theoretic", "softmax, best ridge", "linear"]
    assert legends(drawing) == names
    for line in drawing.axes[0].lines[2:]:
        np.testing.assert_array_equal(line.get_ydata(), BEST)


NAMED = [
    ((swept(), swept(model="other")), ["mine", "other"]),
    ((swept(), trained("erf")), ["Bayes", "erf"]),
    (
        (swept(options={"rule": "a"}), swept(options={"rule": "b"}), trained("erf")),
        ["Bayes, rule = a", "Bayes, rule = b", "erf"],
    ),
    (
        # The options tell them apart: then the controls are not needed.
        (swept(options={"my_rule": "a"}, controls={"L": 4.0}), swept(controls={"L": 8.0})),
        ["Bayes, my rule = a", "Bayes"],
    ),
    ((trained("erf"), trained("erf", model="second")), ["erf, learner", "erf, second"]),
    (
        (swept(controls={"noise": 0.5, "L": 2.0}), swept(controls={"noise": 1.5, "L": 2.0})),
        ["Bayes, noise = 0.5", "Bayes, noise = 1.5"],
    ),
    (
        (swept(controls={"nu": 1.0}), swept(controls={"nu": np.inf})),
        [r"Bayes, $\nu=1$", r"Bayes, $\nu=\infty$"],
    ),
]


@pytest.mark.parametrize(("sweeps", "names"), NAMED)
def test_equal_names_are_told_apart_by_what_differs(
    sweeps: tuple[xr.Dataset, ...], names: list[str]
) -> None:
    assert legend_names(sweeps) == names


def test_failed_points_are_gaps_on_a_shared_axis() -> None:
    broken = trained("erf")
    broken["status"][1] = Status.NON_FINITE.code
    line = plot(broken, trained("linear")).axes[0].lines[0]
    assert np.isnan(line.get_ydata()).tolist() == [False, True, False, False]


def test_what_does_not_share_an_axis_is_refused() -> None:
    with pytest.raises(InputError, match="over alpha, beta: on one axis they must share"):
        plot(swept(), swept().rename(alpha="beta"))
    with pytest.raises(InputError, match="a model of mine has no variable 'mse'"):
        plot(swept(), swept(), y="mse")
    with pytest.raises(InputError, match="is stored as a curve: draw it alone"):
        plot(swept(), swept(kind="curve"))
    with pytest.raises(InputError, match="cannot draw 0 swept controls"):
        plot(swept().isel(alpha=0, drop=True))


# one file -----------------------------------------------------------------------------------------


def test_plot_takes_datasets_and_files_and_has_styles(tmp_path: Path) -> None:
    path = replica.save(tmp_path / "sweep.h5", swept())
    for given in (swept(), path, str(path)):
        drawing = plot(given)
        assert legends(drawing) == ["uninformed start", "informed start", "hard phase"]
        assert drawing.axes[0].get_ylabel() == "$R$"
    assert plot(path, style="paper").get_figwidth() == 3.4 and plot(path).get_figwidth() == 5.2
    assert len(legends(plot(path, swept(model="other")))) == 4
    with pytest.raises(InputError, match="no style 'papr'"):
        plot(path, style="papr")
    with pytest.raises(InputError, match="cannot draw a dict"):
        plot({"risk": 1})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="nothing to draw"):
        plot()


def test_curves_of_one_axis_differ_in_colour_and_in_style() -> None:
    looks = [line_look(i) for i in range(len(COLOURS) * len(STYLES))]
    assert len({str(look) for look in looks}) == len(looks)
    assert scale_of(1, 21) == "log" and scale_of(1, 20) == "linear" == scale_of(-1, 100)


# the registry -------------------------------------------------------------------------------------

OUTSIDE = """
from replica.plots.base import new_figure
from replica.plots.registry import figure


@figure("histogram of mine")
def draw_histogram(dataset, y):
    drawing, (panel,) = new_figure(1)
    panel.bar(dataset["bin"], dataset["count"])
    panel.set(ylabel=y)
    return drawing
"""


@pytest.mark.usefixtures("registered")
def test_a_figure_of_a_users_own_file(
    tmp_path: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = xr.Dataset({"count": ("bin", [1, 4, 2])}, {"bin": [0, 1, 2]})
    mine = counts.assign_attrs(kind="histogram of mine")
    file, picture = replica.save(tmp_path / "mine.h5", mine), tmp_path / "mine.png"
    code, _, err = command("plot", str(file), "-o", str(picture))
    assert code == 2 and "no figure for files of kind 'histogram of mine'" in err
    (tmp_path / "figures_of_mine.py").write_text(OUTSIDE)
    monkeypatch.syspath_prepend(str(tmp_path))
    __import__("figures_of_mine")
    sys.modules.pop("figures_of_mine")
    assert "histogram of mine" in kinds()
    drawn = plot(mine, y="count", style="paper")
    assert drawn.axes[0].get_ylabel() == "count" and len(drawn.axes[0].patches) == 3
    assert command("plot", str(file), "-o", str(picture))[0] == 0
    assert picture.stat().st_size > 3000


@pytest.mark.usefixtures("registered")
def test_a_figure_of_some_files_of_a_kind_goes_first() -> None:
    @figure("sweep", when=lambda dataset: dataset.attrs["model"] == "special")
    def draw_special(dataset: xr.Dataset, y: str) -> str:
        return f"special {y}"

    assert figure_of(swept(model="special")) == "special risk"
    assert legends(figure_of(swept()))[0] == "uninformed start"


@pytest.mark.usefixtures("registered")
def test_a_kind_has_one_figure_which_may_be_defined_again() -> None:
    with pytest.raises(InputError, match=r"drawn by replica\.plots\.sweeps\.draw_sweep already"):
        figure("sweep")(lambda dataset, y: None)
    count = len(registry.FIGURES)
    assert figure("sweep")(draw_sweep) is draw_sweep
    assert len(registry.FIGURES) == count


def test_every_kind_that_is_stored_has_a_figure() -> None:
    stored = {"sweep", "curve", "phase diagram", "branch map", "check", "evidence", "sign diagram"}
    assert set(kinds()) == stored
    with pytest.raises(InputError, match="did you mean phase diagram"):
        figure_of(swept(kind="phase diagramm"))


# checks, simulations and maps ---------------------------------------------------------------------


def ascent() -> xr.Dataset:
    """Paths of stochastic ascent beside the comparisons that every check has."""
    path = np.linspace(0, 1, 5)[None] * np.array([1.0, -0.9, 0.8])[:, None]
    variables = {name: (("trial", "step"), path) for name in ("rho", "rho_theory", "rho_flow")}
    variables |= {"time": ("step", np.arange(5.0)), "mean": ("comparison", [1.0])}
    coords = {"step": np.arange(5), "comparison": ["risk"]}
    return xr.Dataset(variables, coords, {"kind": "check", "model": "ascent"})


def test_a_check_of_paths_has_its_own_picture_and_is_no_dot_on_a_curve() -> None:
    assert legends(figure_of_all([ascent()]))[0] == "10-90 % of 3 trials"
    with pytest.raises(InputError, match="stored as a check: draw it alone"):
        figure_of_all([swept(), ascent()])


def branch_map(**attrs: Any) -> xr.Dataset:
    """A map of an activation that is compared with another one."""
    dims = ("side", "alpha")
    gain = np.add.outer(np.linspace(-1, 1, 3), np.linspace(0, 1, 4))
    variables = {
        "branches": (dims, np.ones((3, 4), dtype=int)),
        "rs": (dims, np.zeros((3, 4), dtype=int)),
        "erf_gain": (dims, gain, {"latex": "G"}),
        "status": ((*dims, "branch"), np.zeros((3, 4, 1), dtype=int)),
    }
    coords = {"side": [1.0, 2.0, 3.0], "alpha": ALPHA, "branch": ["uninformed"]}
    about = {
        "kind": "branch map",
        "over": "side",
        "control": "alpha",
        "activation": "erf",
        "options": {"activation": "erf", "rule": "max"},
        "compared": {"activation": "softplus", "rule": "max"},
    }
    return xr.Dataset(variables, coords, about | attrs)


def test_the_reference_of_a_gain_is_read_from_the_file() -> None:
    texts = [text.get_text() for text in figure_of(branch_map()).legends[0].get_texts()]
    assert texts == ["one branch", "gain over softplus, $G$"]


def test_figures_drawn_inside_a_style_keep_it_when_they_are_saved(tmp_path: Path) -> None:
    with drawn_as("paper"):
        drawing = draw_sweep(swept())
    drawing.savefig(tmp_path / "one.png")
    again = plot(swept(), style="paper")
    again.savefig(tmp_path / "two.png")
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


def test_a_stable_stretch_between_two_branches_is_one_more_branch() -> None:
    """Plain iteration stays there: it is neither unstable nor one of the two."""
    variables = {
        "alpha": ("point", ALPHA, {"latex": r"\alpha"}),
        "risk": ("point", BEST),
        "error_risk": ("point", 0 * BEST),
        "spectral_radius": ("point", [0.5, 0.5, 0.5, 1.5]),
        "role": ("point", [UNINFORMED, UNINFORMED, BETWEEN, BETWEEN]),
        "piece": ("point", [0, 0, 0, 0]),
    }
    limits = {name: {"value": None} for name in ("alpha_inf", "alpha_IT", "alpha_alg")}
    about = {"kind": "curve", "control": "alpha", "thresholds": limits, "folds": []}
    drawing = figure_of(xr.Dataset(variables, attrs=about | {"transition": "none"}))
    shown = [line.get_label() for line in drawing.axes[0].lines]
    assert shown == ["uninformed branch", "further branch", "unstable"]
