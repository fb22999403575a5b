"""The checkpoint itself, with work that takes no time: what is stored when, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import replica
from replica import StoreError
from replica.files import store
from replica.jobs.checkpoint import Results, opened
from replica.jobs.options import JobOptions
from replica.jobs.run import Batch, Job, SinglePoint, run_job

WIGNER = replica.equations.MODELS["spiked-wigner"].build()
VALUES = [1.0, 2.0, 3.0]


def square(model: Any, point: SinglePoint, done: Callable[[int], None]) -> float:
    done(1)
    return point.controls["x"] ** 2


class Squares(Job):
    """x^2, and their sum once all are there."""

    grids = ("x",)
    title = "squares"

    def __init__(self, scale: float = 1.0, stop: int | None = None) -> None:
        self.scale, self.stop = scale, stop
        self.found, self.total, self.concluded = np.full(3, np.nan), None, 0

    @property
    def complete(self) -> bool:
        return self.total is not None

    def dataset(self) -> xr.Dataset:
        attrs = {"scale": self.scale, "total": self.total, "created": f"for {id(self)}"}
        return xr.Dataset({"y": ("x", self.found.copy())}, {"x": VALUES}, attrs)

    def take(self, stored: xr.Dataset) -> None:
        self.found = stored["y"].values

    def outcomes(self, stored: xr.Dataset) -> tuple[str, ...]:
        return ("total",)

    def batches(self) -> list[Batch]:
        def put(i: int, result: float) -> int:
            if i == self.stop:
                raise KeyboardInterrupt
            self.found[i] = result
            return 0

        points = [SinglePoint({"x": x}) for x in VALUES]
        pending = np.flatnonzero(np.isnan(self.found)).tolist()
        return [Batch(square, WIGNER, None, points, pending, put, failed=0, cores=None)]

    def conclude(self) -> bool:
        self.total, self.concluded = float(self.found.sum()), self.concluded + 1
        return True


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many values each write has stored."""
    stored: list[int] = []
    real = store.rewrite

    def rewrite(path: Path, dataset: xr.Dataset, **how: Any) -> Path:
        stored.append(int(np.isfinite(dataset["y"].values).sum()))
        return real(path, dataset, **how)

    monkeypatch.setattr(store, "rewrite", rewrite)
    return stored


def part(path: Path) -> xr.Dataset:
    """The file of a run that was interrupted after its second piece."""
    with pytest.raises(KeyboardInterrupt):
        run_job(Squares(stop=2), JobOptions(path, attrs={"command": "first"}))
    return replica.load(path)


def test_the_empty_file_then_every_piece_then_the_conclusion(
    tmp_path: Path, writes: list[int]
) -> None:
    whole = run_job(Squares(), JobOptions(tmp_path / "x.h5"))
    assert writes == [0, 1, 2, 3, 3]
    assert whole.attrs["total"] == 14.0 and whole.attrs["complete"]
    assert replica.load(tmp_path / "x.h5").identical(whole)
    without = run_job(Squares(), JobOptions())
    assert without.identical(whole.assign_attrs(created=without.attrs["created"]))


def test_continued_work_is_the_same_and_keeps_what_the_first_run_has_noted(
    tmp_path: Path, writes: list[int]
) -> None:
    stored = part(tmp_path / "x.h5")
    assert not stored.attrs["complete"] and stored["y"].values[:2].tolist() == [1.0, 4.0]
    writes.clear()
    options = JobOptions(tmp_path / "x.h5", resume=True, attrs={"command": "second"})
    job = Squares()
    whole = run_job(job, options)
    assert writes == [3, 3] and job.concluded == 1
    assert whole.attrs["command"] == "first"
    assert whole.attrs["created"] == stored.attrs["created"]
    assert replica.load(tmp_path / "x.h5").identical(whole)
    writes.clear()
    job = Squares()
    assert run_job(job, options).identical(whole)
    assert writes == [] and job.concluded == 0, "complete work is not done again"


def test_a_refusal_names_the_settings_and_touches_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    part(path)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"\(scale is 1\.0 there and 2\.0 here\)"):
        run_job(Squares(2.0), JobOptions(path, resume=True))
    with pytest.raises(StoreError, match="exists: pass --resume"):
        run_job(Squares(), JobOptions(path))
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["x.h5"]
    assert run_job(Squares(2.0), JobOptions(path, force=True)).attrs["scale"] == 2.0


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    """Trials are stored only when the first of them is there: somebody may have been faster."""
    path = tmp_path / "x.h5"
    results: Results = Squares()
    with opened(results, JobOptions(path)) as checkpoint:
        path.write_text("mine")
        with pytest.raises(StoreError, match="exists"):
            checkpoint.write()
    assert path.read_text() == "mine"


def test_a_full_disk_is_told_with_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = store.rewrite, []

    def rewrite(*args: Any, **how: Any) -> Path:
        calls.append(1)
        if len(calls) == 3:
            raise StoreError("full")
        return real(*args, **how)

    monkeypatch.setattr(store, "rewrite", rewrite)
    with pytest.raises(StoreError, match=r"^full; the columns stored before it are kept, continue"):
        run_job(Squares(), JobOptions(tmp_path / "x.h5"))
    assert replica.load(tmp_path / "x.h5")["y"].values[0] == 1.0
