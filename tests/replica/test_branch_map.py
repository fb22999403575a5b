"""Maps of the branches of trained attention: against single solves, files that are continued, the
figure, bad input.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

import replica
from replica import InputError, Settings, Status
from replica.cli import app
from replica.files import store
from replica.files.store import load
from replica.phase.maps.branch_map import default_grid, distinct
from replica.plots.branches import draw_branches, edges, spacing
from replica.plots.figures import figure_of

FIXED = {"L": 2, "nu": 1, "Delta": 0.1, "lam_v": 0.5}
OVER, GRID, LOOSE = {"lam_k": [0.5, 2.0]}, [1.0, 3.0], 0.1


def phases(**how: Any) -> xr.Dataset:
    return replica.phase_diagram(
        "slr-erm", "alpha", over=OVER, grid=GRID, accuracy=LOOSE, progress=False, **(FIXED | how)
    )


@cache
def pure() -> xr.Dataset:
    """Linear attention without its offset, which has two branches and unstable ones, beside linear
    attention.
    """
    return replica.phase_diagram(
        "slr-erm",
        "alpha",
        over={"lam_k": [0.5, 2.0]},
        grid=[2.0, 4.0],
        accuracy=LOOSE,
        progress=False,
        activation="linear_pure",
        L=2,
        nu=1,
        Delta=0.1,
        lam_v=1,
    )


@pytest.mark.slow
def test_numbers_are_those_of_single_solves() -> None:
    found = pure().sel(lam_k=2.0, alpha=4.0)
    point = {"L": 2, "nu": 1, "Delta": 0.1, "lam_v": 1, "lam_k": 2.0, "alpha": 4.0}
    here, there = (
        replica.solve("slr-erm", settings=Settings(accuracy=LOOSE), activation=a, **point)
        for a in ("linear_pure", "linear")
    )
    best, other = here.branches[here.best or 0], there.branches[there.best or 0]
    assert int(found.branches) == len([b for b in here.branches if b.ok]) == 2
    assert float(found.best_risk) == pytest.approx(best.observables["risk"], abs=best.error["risk"])
    assert float(found.best_replicon) == pytest.approx(
        best.observables["replicon"], abs=best.error["replicon"]
    )
    assert (
        int(found.rs) == (best.observables["replicon"] > 1) == (best.status is Status.RS_UNSTABLE)
    )
    assert (
        Status.of(int(found.best_status)) is best.status
        and Status.of(int(found.linear_best_status)) is other.status
    )
    gain = other.observables["risk"] - best.observables["risk"]
    assert float(found.linear_pure_gain) == pytest.approx(
        gain, abs=float(found.error_linear_pure_gain)
    )
    assert float(found.error_linear_pure_gain) == pytest.approx(
        float(found.error_best_risk + found.linear_error_risk.min()), rel=2
    )


@pytest.mark.slow
def test_a_map_is_stored_point_by_point_and_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linear attention needs no comparison with itself."""
    whole, path, real = phases(activation="linear"), tmp_path / "m.h5", store.rewrite
    assert (
        whole.attrs["compared"] is None
        and "linear_gain" not in whole
        and whole.branches.dims == ("lam_k", "alpha")
    )
    writes: list[int] = []

    def interrupted(*args: Any, **how: Any) -> Path:
        writes.append(int((args[1]["status"] == Status.NOT_COMPUTED.code).sum()))
        real(*args, **how)
        if len(writes) == 4:
            raise KeyboardInterrupt
        return path

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(store, "rewrite", interrupted)
        phases(activation="linear", file=path)
    assert writes == [8, 7, 6, 5] and not load(path).attrs["complete"]
    part = load(path)
    assert set(np.unique(part.branches)) <= {-1, 1} and -1 in part.branches
    draw_branches(part)
    with pytest.raises(store.StoreError, match="settings"):
        phases(activation="linear", file=path, resume=True, lam_v=0.7)
    again = phases(activation="linear", file=path, resume=True)
    assert (
        again.identical(whole.assign_attrs(created=part.attrs["created"]))
        and load(path).identical(again)
        and again.attrs["complete"]
    )


@pytest.mark.slow
def test_two_sweeps_in_one_file_are_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped inside the sweep of the reference."""
    how: dict[str, Any] = {"activation": "linear_pure", "L": 2, "nu": 1, "Delta": 0.1, "lam_v": 1}
    path, real, count = tmp_path / "m.h5", store.rewrite, [0]

    def interrupted(*args: Any, **options: Any) -> Path:
        count[0] += 1
        real(*args, **options)
        if count[0] == 11:
            raise KeyboardInterrupt
        return path

    def run(**more: Any) -> xr.Dataset:
        return replica.phase_diagram(
            "slr-erm",
            over=OVER,
            grid=[2.0, 4.0],
            accuracy=LOOSE,
            progress=False,
            file=path,
            **how,
            **more,
        )

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(store, "rewrite", interrupted)
        run()
    part = load(path)
    assert (part.status != Status.NOT_COMPUTED.code).all() and (
        part.linear_status == Status.NOT_COMPUTED.code
    ).sum() == 6
    assert run(resume=True).identical(pure().assign_attrs(created=part.attrs["created"]))


def test_distinct_points_within_their_errors() -> None:
    """Two starts and three points: the same, different, and one failed."""
    ok, bad = Status.SUCCESSFUL.code, Status.NON_FINITE.code
    table = xr.Dataset(
        {
            "m": (
                ("a", "branch"),
                [[0.1, 0.1 + 1e-9], [0.1, 0.5], [0.1, np.nan], [np.nan, np.nan], [0.1, 0.13]],
            ),
            "error_m": (("a", "branch"), np.full((5, 2), 1e-8)),
            "status": (
                ("a", "branch"),
                [[ok, ok], [ok, ok], [ok, bad], [bad, bad], [ok, Status.NOT_COMPUTED.code]],
            ),
        },
        attrs={"starts": {"uninformed": {"m": "0"}}},
    )
    assert distinct(table).tolist() == [1, 2, 1, 0, -1]
    wide = table.assign(error_m=(("a", "branch"), np.full((5, 2), 0.3)))
    assert distinct(wide).tolist() == [1, 1, 1, 0, -1]


@pytest.mark.slow
def test_softmax_gains_over_linear_attention() -> None:
    found = phases(activation="softmax", lam_v=0.1)
    assert "softmax_gain" in found and bool((found.softmax_gain > found.error_softmax_gain).any())
    assert found.attrs["compared"] == {"activation": "linear", "rule": "spiked"}


@pytest.mark.slow
def test_figure_has_regions_hatches_and_contours() -> None:
    figure = draw_branches(pure())
    texts = [t.get_text() for t in figure.legends[0].get_texts()]
    assert {"one branch", "two branches", "replica symmetry unstable"} <= set(texts)
    hatched = [c for c in figure.axes[0].collections if c.get_hatch()]
    assert len(hatched) == 1 and len(hatched[0].get_paths()) == int((pure().rs == 1).sum())
    assert any("gain" in t for t in texts)
    assert figure_of(pure(), "q_v").axes[0].get_xlabel() == r"$\lambda_k$"


def test_cells_surround_the_values_of_a_grid() -> None:
    assert spacing(np.geomspace(0.1, 2, 8)) == "log" and spacing(np.linspace(1, 6, 6)) == "linear"
    np.testing.assert_allclose(edges(np.array([1.0, 2.0, 3.0]), "linear"), [0.5, 1.5, 2.5, 3.5])
    np.testing.assert_allclose(edges(np.array([1.0, 4.0]), "log"), [0.5, 2.0, 8.0])


def test_command_writes_a_map_and_a_figure(tmp_path: Path) -> None:
    file, figure = tmp_path / "m.h5", tmp_path / "m.svg"
    given = [f"--set={k}={v}" for k, v in (FIXED | {"activation": "linear"}).items()]
    command = [
        "phase",
        "slr-erm",
        "--over",
        "lam_k=0.5:2:2:log",
        "--grid",
        "1:3:2",
        *given,
        "--accuracy",
        "0.1",
        "-o",
        str(file),
    ]
    ran = CliRunner().invoke(app, [*command, "--quiet"])
    assert ran.exit_code == 0 and ran.output == "" and load(file).attrs["kind"] == "branch map"
    assert (
        CliRunner().invoke(app, ["plot", str(file), "-o", str(figure)]).exit_code == 0
        and figure.stat().st_size > 3000
    )


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="give one of them"):
        phases(activation="linear", within=(1, 2))
    with pytest.raises(InputError, match="needs no grid"):
        replica.phase_diagram("slr-bayes", over={"nu": [1.0]}, grid=[1.0], L=4, Delta=0.1)
    with pytest.raises(InputError, match="no curve to follow"):
        replica.thresholds("slr-erm", **FIXED, lam_k=1)
    with pytest.raises(InputError, match="no curve to follow"):
        replica.curve("slr-erm", **FIXED, lam_k=1)
    with pytest.raises(InputError, match="positive and increasing"):
        default_grid((2.0, 1.0))
    given = [f"--set={k}={v}" for k, v in FIXED.items()]
    ran = CliRunner().invoke(
        app,
        [
            "phase",
            "slr-erm",
            "--over",
            "lam_k=1:2:2",
            "--grid",
            "1:2",
            *given,
            "-o",
            str(tmp_path / "x.h5"),
        ],
    )
    assert isinstance(
        ran.exception, InputError
    ) and "write start:stop:num or start:stop:num:log" in str(ran.exception)
