"""Long work: killed, interrupted, locked, on a full disk, on dask workers; the result is always
that of one quiet run.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

import replica
from replica import InputError, Status, StoreError
from replica.cli import app
from replica.files import store, writer
from replica.jobs.checkpoint import VOLATILE
from replica.plots.sweeps import valid
from replica.sweeps.dataset import failures

GRID = {"snr": np.linspace(0.5, 4, 20)}
ROOT = Path(replica.__file__).parents[1]
TO_COME = Status.NOT_COMPUTED.code


@pytest.fixture(scope="module")
def whole() -> xr.Dataset:
    """The sweep in one go, without a file."""
    return replica.sweep("spiked-wigner", over=GRID)


def assert_same_bits(a: xr.Dataset, b: xr.Dataset) -> None:
    noted = {k: b.attrs[k] for k in VOLATILE if k in b.attrs}
    assert (
        a.drop_attrs(deep=False)
        .assign_attrs(a.attrs | noted)
        .identical(b.assign_attrs({k: v for k, v in a.attrs.items() if k not in b.attrs}))
    )
    for name in a.variables:
        if a[name].dtype.kind == "f":
            np.testing.assert_array_equal(
                a[name].values.view(np.int64), b[name].values.view(np.int64), err_msg=str(name)
            )


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collects the points of every column that is computed from now on."""
    points: list[int] = []
    real = replica.sweeps.columns.solve_column

    def solve_column(model: Any, column: Any, *args: Any, **kwargs: Any) -> Any:
        points.append(column.points)
        return real(model, column, *args, **kwargs)

    monkeypatch.setattr("replica.sweeps.sweep.solve_column", solve_column)
    return points


def at_write(monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[], None]) -> None:
    """Do something before the file is written for this time (the empty file is number 1)."""
    real, calls = store.rewrite, iter(range(1, 10**6))

    def rewrite(*args: Any, **kwargs: Any) -> Path:
        if next(calls) == number:
            act()
        return real(*args, **kwargs)

    monkeypatch.setattr(store, "rewrite", rewrite)


def finished(path: Path) -> int:
    return int((replica.load(path).status != TO_COME).sum())


# killed -------------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
import numpy as np
import replica
from replica.files import store
real, left = store.rewrite, [int(sys.argv[2])]
def rewrite(*args, **kwargs):
    left[0] -= 1
    if not left[0]:
        setattr(os, sys.argv[3], lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
    return real(*args, **kwargs)
store.rewrite = rewrite
warm = {"warm": "snr"} if sys.argv[4:] else {}
replica.sweep("spiked-wigner", over={"snr": np.linspace(0.5, 4, 20)}, file=sys.argv[1], **warm)
"""


def killed(path: Path, write: int, call: str, *warm: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(path), str(write), call, *warm],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr


@pytest.mark.parametrize(
    ("write", "call"),
    [(1, "link"), (9, "fsync"), pytest.param(9, "replace", marks=pytest.mark.slow)],
)
def test_killed_in_the_middle_of_a_write(
    tmp_path: Path, whole: xr.Dataset, monkeypatch: pytest.MonkeyPatch, write: int, call: str
) -> None:
    """The columns stored before (here of one point each) are there and not computed again; what
    lies about is swept up.
    """
    path = tmp_path / "x.h5"
    killed(path, write, call)
    assert len(list(tmp_path.glob(".replica-*"))) == 2, "the lock and the half-written file"
    points = counted(monkeypatch)
    assert (finished(path) if write > 1 else path.exists()) == max(write - 2, 0)
    assert_same_bits(replica.sweep("spiked-wigner", over=GRID, file=path, resume=True), whole)
    assert sum(points) == 40 - max(write - 2, 0)
    assert_same_bits(replica.load(path), whole)
    assert [p.name for p in tmp_path.iterdir()] == ["x.h5"]
    points.clear()
    assert_same_bits(replica.sweep("spiked-wigner", over=GRID, file=path, resume=True), whole)
    assert points == []


@pytest.mark.slow
def test_killed_between_warm_lines(tmp_path: Path) -> None:
    killed(tmp_path / "x.h5", 3, "fsync", "warm")
    assert finished(tmp_path / "x.h5") == 20
    warm = replica.sweep("spiked-wigner", over=GRID, warm="snr")
    assert_same_bits(
        replica.sweep("spiked-wigner", over=GRID, warm="snr", file=tmp_path / "x.h5", resume=True),
        warm,
    )


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path: Path) -> None:
    """Again and again, from outside; the file is whole whenever it is looked at."""
    path, rng = tmp_path / "x.h5", np.random.default_rng(0)
    command = [
        sys.executable,
        "-m",
        "replica",
        "sweep",
        "spiked-wigner",
        "--over",
        "snr=0.5:4:600",
        "-o",
        str(path),
        "--resume",
        "--quiet",
    ]
    counts = [0]
    for _ in range(4):
        process = subprocess.Popen(command, cwd=ROOT)
        wait_for(path, min(counts[-1] + 1, 1200))
        time.sleep(rng.uniform(0, 0.25))
        process.kill()
        process.wait()
        counts.append(finished(path))
    assert counts == sorted(counts)
    over = {"snr": np.linspace(0.5, 4, 600)}
    assert_same_bits(
        replica.sweep("spiked-wigner", over=over, file=path, resume=True),
        replica.sweep("spiked-wigner", over=over),
    )


def wait_for(path: Path, points: int) -> None:
    end = time.monotonic() + 60
    while not (path.exists() and finished(path) >= points):
        assert time.monotonic() < end
        time.sleep(0.02)


# interrupted, and two writers ---------------------------------------------------------------------


SLOW = """
import sys, time
from replica import cli
from replica.files import store
real = store.rewrite
def rewrite(*args, **kwargs):
    time.sleep(0.2)
    return real(*args, **kwargs)
store.rewrite = rewrite
cli.main()
"""


def test_two_writers_and_ctrl_c(tmp_path: Path, whole: xr.Dataset) -> None:
    path = tmp_path / "x.h5"
    command = [
        sys.executable,
        "-c",
        SLOW,
        "sweep",
        "spiked-wigner",
        "--over",
        "snr=0.5:4:20",
        "-o",
        str(path),
    ]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    wait_for(path, 1)
    for how in ({}, {"resume": True}, {"force": True}):
        with pytest.raises(
            StoreError,
            match=(
                rf"is being written by process {process.pid} on .*: wait until that ends, or choose"
                r" another name"
            ),
        ):
            replica.sweep("spiked-wigner", over=GRID, file=path, **how)
    with pytest.raises(StoreError, match="is being written by"):
        replica.save(path, xr.Dataset(), force=True)
    process.send_signal(signal.SIGINT)
    _, message = process.communicate(timeout=20)
    assert process.returncode == 130
    last = message.splitlines()[-1]  # on a slow machine a line says before what is compiled
    assert last == f"replica: interrupted, {path} keeps what was finished: continue with --resume"
    assert 0 < finished(path) < 40 and [p.name for p in tmp_path.iterdir()] == ["x.h5"]
    drawn = CliRunner().invoke(
        app, ["plot", str(path), "-o", str(tmp_path / "x.svg"), "--y", "mse"]
    )
    assert (
        drawn.exit_code == 0 and f"{path} is unfinished: continue it with --resume" in drawn.stderr
    )
    resumed = replica.sweep("spiked-wigner", over=GRID, file=path, resume=True)
    assert_same_bits(resumed, whole)
    assert resumed.attrs["command"].startswith("replica sweep spiked-wigner --over")


def test_a_second_resume_in_the_same_process_is_refused(tmp_path: Path) -> None:
    with (
        writer.locked(tmp_path / "x.h5"),
        pytest.raises(StoreError, match=f"by process {os.getpid()} "),
    ):
        replica.sweep("spiked-wigner", over=GRID, file=tmp_path / "x.h5", resume=True)
    assert list(tmp_path.iterdir()) == []


def test_a_lock_removed_by_its_owner_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between our opening the lock file and locking it, its owner ends: the lock on the removed
    file is worth nothing.
    """
    lock = writer._lock_file(tmp_path / "x.h5")
    real = os.open

    def late(file: Any, *args: Any) -> int:
        handle = real(file, *args)
        lock.unlink()
        monkeypatch.setattr(os, "open", real)
        return handle

    monkeypatch.setattr(os, "open", late)
    with writer.locked(tmp_path / "x.h5"):
        assert lock.exists()
        with pytest.raises(StoreError, match="being written"), writer.locked(tmp_path / "x.h5"):
            pass


def test_a_file_system_without_locks_warns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(writer.fcntl, "flock", flock)
    with (
        pytest.warns(UserWarning, match="has no locks: make sure that no second run"),
        writer.locked(tmp_path / "x.h5"),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dropped", [False, True])
def test_interrupted_in_python(
    tmp_path: Path, whole: xr.Dataset, monkeypatch: pytest.MonkeyPatch, dropped: bool
) -> None:
    """Also when the exception is lost, as in a callback of a weak reference: then after this
    column.
    """

    def interrupt() -> None:
        with suppress(KeyboardInterrupt) if dropped else nullcontext():
            signal.raise_signal(signal.SIGINT)

    handler = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patch:
        at_write(patch, 5 - dropped, interrupt)
        with pytest.raises(KeyboardInterrupt):
            replica.sweep("spiked-wigner", over=GRID, file=tmp_path / "x.h5")
    assert signal.getsignal(signal.SIGINT) is handler
    part = replica.load(tmp_path / "x.h5")
    assert int((part.status != TO_COME).sum()) == 3 and not part.attrs["complete"]
    assert (
        np.isnan(part.q.values[part.status.values == TO_COME]).all()
        and failures(part.status.values) == 0
    )
    assert_same_bits(
        replica.sweep("spiked-wigner", over=GRID, file=tmp_path / "x.h5", resume=True), whole
    )


# refusals -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("work") / "x.h5"
    replica.sweep("spiked-wigner", over=GRID, file=path)
    return path


WIGNER = replica.equations.MODELS["spiked-wigner"].build()
OTHER: dict[str, tuple[Any, dict[str, Any], str]] = {
    "tolerance": (
        "spiked-wigner",
        {"settings": replica.Settings(tol=1e-9)},
        r"settings\.tol is 1e-10 there and 1e-09 here",
    ),
    "two": (
        "spiked-wigner",
        {"settings": replica.Settings(damping=0.5, max_steps=7)},
        (
            r"settings\.max_steps is 100000 there and 7 here; settings\.damping is 0\.0 there and"
            r" 0\.5 here"
        ),
    ),
    "grid": (
        "spiked-wigner",
        {"over": {"snr": [1, 2]}},
        r"the grid of snr is 0\.5\.\.4\.0 \(20 values\) there and \[1\.0, 2\.0\] here",
    ),
    "one value": (
        "spiked-wigner",
        {"over": {"snr": np.nextafter(GRID["snr"], 9)}},
        "the grid of snr is",
    ),
    "warm": ("spiked-wigner", {"warm": "snr"}, "warm is None there and snr here; directions.*"),
    "nodes": (
        "spiked-wigner",
        {"nodes": replica.NodeSizes(gaussian=99)},
        r"nodes\.gaussian is 71 there and 99 here",
    ),
    "model": (
        "perceptron-bayes",
        {"over": {"alpha": [1, 2]}},
        "model is spiked-wigner there and perceptron-bayes here;.* the grid of alpha is",
    ),
    "equations": (
        replace(WIGNER, channel=2 * WIGNER.channel),
        {},
        r"\(equations is [0-9a-f]+ there and [0-9a-f]+ here\)",
    ),
    "start": (
        replace(WIGNER, starts={**WIGNER.starts, "informed": {"q": 0.5}}),
        {},
        r"\(starts\.informed\.q is 1.* there and 0\.5 here\)",
    ),
}


@pytest.mark.parametrize("name", OTHER)
def test_other_settings_are_refused_and_named(file: Path, name: str) -> None:
    (model, changed, message), before = OTHER[name], file.read_bytes()
    with pytest.raises(
        StoreError,
        match=rf"was made with other settings .*{message}.*: repeat those, or choose another name",
    ):
        replica.sweep(model, **({"over": GRID} | changed), file=file, resume=True)
    assert file.read_bytes() == before and len(list(file.parent.iterdir())) == 1


def test_another_version_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "replica.sweeps.dataset.versions", lambda: store.versions() | {"jax": "0.0"}
    )
    with pytest.raises(StoreError, match=r"versions\.jax is [\d.]+ there and 0\.0 here"):
        replica.sweep("spiked-wigner", over=GRID, file=file, resume=True)


def test_an_existing_file_and_what_cannot_be_resumed(file: Path, tmp_path: Path) -> None:
    with pytest.raises(
        StoreError,
        match="exists: pass --resume to continue it, --force to replace it, or choose another name",
    ):
        replica.sweep("spiked-wigner", over=GRID, file=file)
    for how in ({"resume": True}, {"file": file, "resume": True, "force": True}):
        with pytest.raises(InputError, match="resume continues a file"):
            replica.sweep("spiked-wigner", over=GRID, **how)
    (tmp_path / "x.h5").write_text("mine")
    with pytest.raises(StoreError, match="is not an HDF5 file"):
        replica.sweep("spiked-wigner", over=GRID, file=tmp_path / "x.h5", resume=True)
    replica.save(tmp_path / "y.h5", xr.Dataset({"m": 1}))
    with pytest.raises(StoreError, match="model is not given there and spiked-wigner here"):
        replica.sweep("spiked-wigner", over=GRID, file=tmp_path / "y.h5", resume=True)


# full disk ----------------------------------------------------------------------------------------


def test_a_full_disk_stops_with_one_sentence_and_keeps_the_columns(
    tmp_path: Path, whole: xr.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "x.h5"
    with monkeypatch.context() as patch:
        at_write(patch, 6, lambda: patch.setattr(os, "fsync", full))
        with pytest.raises(
            StoreError,
            match=(
                "full: free some space or choose another folder; the columns stored before it are"
                " kept"
            ),
        ) as caught:
            replica.sweep("spiked-wigner", over=GRID, file=path)
    assert len(str(caught.value).splitlines()) == 1
    assert finished(path) == 4 and [p.name for p in tmp_path.iterdir()] == ["x.h5"]
    assert_same_bits(replica.sweep("spiked-wigner", over=GRID, file=path, resume=True), whole)


# progress, failures -------------------------------------------------------------------------------


def test_the_bar_shows_rate_failures_and_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    replica.sweep(
        "spiked-wigner",
        over={"snr": [0.5, 1.001, 4.0]},
        settings=replica.Settings(max_steps=9),
        progress=True,
    )
    err = capsys.readouterr().err
    assert "6/6" in err and "/s" in err and "3 failed" in err and "ETA" in err
    replica.sweep("spiked-wigner", over={"snr": [2.0]}, progress=False)
    assert capsys.readouterr().err == ""


def test_a_warning_about_the_theory_is_no_failure() -> None:
    """Points that are drawn, and that a sweep does not count as failed."""
    codes = [
        s.code
        for s in (
            Status.SUCCESSFUL,
            Status.RS_UNSTABLE,
            Status.FORMS_DIFFER,
            Status.MAX_STEPS,
            Status.NOT_COMPUTED,
        )
    ]
    dataset = xr.Dataset({"q": ("snr", np.arange(5.0)), "status": ("snr", codes)})
    assert failures(dataset.status.values) == 1
    np.testing.assert_array_equal(valid(dataset, "q"), [0, 1, 2, np.nan, np.nan])


# dask ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as made:
        yield made


def test_a_worker_killed_on_the_way_is_replaced(
    cluster: Any, tmp_path: Path, whole: xr.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[int] = []

    def kill() -> None:
        killed.append(next(iter(cluster.workers.values())).pid)
        os.kill(killed[0], signal.SIGKILL)

    at_write(monkeypatch, 4, kill)
    assert_same_bits(
        replica.sweep(
            "spiked-wigner", over=GRID, file=tmp_path / "x.h5", dask=cluster.scheduler_address
        ),
        whole,
    )
    assert killed
    assert_same_bits(replica.load(tmp_path / "x.h5"), whole)


@pytest.mark.slow
def test_a_client_a_model_of_ones_own_and_a_scheduler_file(
    cluster: Any, tmp_path: Path, whole: xr.Dataset
) -> None:
    with cluster.get_client() as client:
        mine = replica.sweep(replace(WIGNER, name="mine"), over=GRID, dask=client)
        assert client.status == "running"
    (tmp_path / "scheduler.json").write_text(json.dumps({"address": cluster.scheduler_address}))
    np.testing.assert_array_equal(mine.q.values.view(np.int64), whole.q.values.view(np.int64))
    assert_same_bits(
        replica.sweep("spiked-wigner", over=GRID, dask=str(tmp_path / "scheduler.json")), whole
    )


def test_what_is_wrong_with_dask_is_said(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replica.jobs.workers.TIMEOUT", 1)
    with pytest.raises(
        InputError,
        match=(
            r"no dask scheduler answers at tcp://127\.0\.0\.1:9 .*: start one with `dask scheduler`"
        ),
    ):
        replica.sweep("spiked-wigner", over=GRID, dask="tcp://127.0.0.1:9", file=tmp_path / "x.h5")
    with pytest.raises(InputError, match="no dask scheduler answers at nonsense"):
        replica.sweep("spiked-wigner", over=GRID, dask="nonsense://x")
    with monkeypatch.context() as patch:
        patch.setattr("replica.jobs.workers.versions", lambda: store.versions() | {"jax": "0.0"})
        with pytest.raises(
            InputError,
            match=(
                r"a worker has jax [\d.]+ instead of 0\.0: install the same versions on all"
                r" machines"
            ),
        ):
            replica.sweep("spiked-wigner", over=GRID, dask=cluster.scheduler_address)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(
        InputError, match=r"not installed: pip install 'replica-solver\[distributed\]'"
    ):
        replica.sweep(
            "spiked-wigner", over=GRID, dask=cluster.scheduler_address, file=tmp_path / "x.h5"
        )
    assert list(tmp_path.iterdir()) == []
