"""Processes, options and signals: spawned and forked children, numbers of options, full disks,
Ctrl-C.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

import replica
import replica.__main__
from replica import InputError, StoreError
from replica.runtime import process

ROOT = Path(replica.__file__).parents[1]


def script(text: str, *args: str, **how: Any) -> subprocess.Popen[str]:
    """Python in a process of its own."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        [sys.executable, "-c", text, *args], cwd=ROOT, text=True, **(pipes | how)
    )


# children -----------------------------------------------------------------------------------------

CHILDREN = """
import multiprocessing, os, sys
import replica
import replica.__main__

def solved(snr):
    return replica.solve("spiked-wigner", snr=snr).best_branch.overlaps["q"]

if __name__ == "__main__":
    here = replica.solve("spiked-wigner", snr=2.0).branches[0].overlaps["q"]
    for how in sys.argv[1:]:
        with multiprocessing.get_context(how).Pool(1) as pool:
            there = pool.apply(replica.solve, ("spiked-wigner",), {"snr": 2.0})
        print(how, there.branches[0].overlaps["q"] == here, flush=True)
"""
FORKED = """
import os, warnings
import replica
import replica.__main__

warnings.simplefilter("ignore", RuntimeWarning)
replica.solve("spiked-wigner", snr=2.0)

def child(work):
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            said = work()
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        os.write(write, str(said).encode())
        os._exit(0)
    os.wait()
    print(os.read(read, 1000).decode(), flush=True)

child(lambda: "in peace")
child(lambda: replica.solve("spiked-wigner", snr=2.0))
child(lambda: replica.sweep("spiked-wigner", over={"snr": [1.0, 2.0]}))
child(lambda: replica.load("tests/data/schema1/sweep.h5").attrs["model"])
"""


@pytest.mark.slow
def test_spawned_children_compute_the_same(tmp_path: Path) -> None:
    file = tmp_path / "children.py"
    file.write_text(CHILDREN, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(file), "spawn", "forkserver"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.stdout.splitlines() == ["spawn True", "forkserver True"], done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_is_told_or_left_in_peace() -> None:
    out, err = script(FORKED).communicate(timeout=300)
    says = "InputError: this process is a fork of process "
    peace, solve, sweep, load = out.splitlines()
    assert peace == "in peace" and load == "spiked-wigner", err
    assert solve.startswith(says) and sweep.startswith(says)
    assert solve.endswith('use multiprocessing.get_context("spawn") or "forkserver"')


def test_only_a_fork_of_a_process_that_has_computed_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    computed_in: list[int] = []
    monkeypatch.setattr(process, "_COMPUTED_IN", computed_in)
    process.check_process()
    process.check_process()
    assert computed_in == [os.getpid()]
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(InputError, match=r"is a fork of process \d+.*spawn"):
        process.check_process()
    monkeypatch.setattr(process, "_COMPUTED_IN", [])
    process.check_process()


# numbers of options -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("solve", "spiked-wigner", "--set", "snr=2", "--tol", "1_0e-10"), "is not a number"),
        (("solve", "spiked-wigner", "--set", "snr=2", "--tol", "1e-400"), "is too small"),
        (("solve", "spiked-wigner", "--set", "snr=2", "--damping", "0_1"), "is not a number"),
        (("solve", "spiked-wigner", "--set", "snr=2", "--accuracy", "1e400"), "is too large"),
        (("solve", "spiked-wigner", "--set", "snr=2", "--max-steps", "1_000"), "is not a number"),
        (("solve", "spiked-wigner", "--set", "snr=2", "--max-steps", "1.5"), "not a whole number"),
        (("phase", "spiked-wigner", "--accuracy", "1_0"), "is not a number"),
        (("check", "slr-bayes", "--trials", "1_0"), "is not a number"),
        (("check", "slr-bayes", "--damping", "\u0661"), "is not a number"),
    ],
)
def test_options_are_read_as_settings_are(
    command: Any, arguments: tuple[str, ...], says: str
) -> None:
    code, out, message = command(*arguments)
    assert code == 2 and not out and "Invalid value" in message
    assert says in " ".join(message.replace("\u2502", " ").split())


# places that cannot be written --------------------------------------------------------------------


@pytest.fixture(scope="module")
def sweep_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sweep") / "x.h5"
    replica.sweep("spiked-wigner", over={"snr": [0.5, 2.0]}, file=path)
    return path


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
@pytest.mark.parametrize("name", ["x.png", "x.pdf", "x.csv"])
def test_a_disk_that_is_full_or_read_only(
    command: Any,
    sweep_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    code: int,
) -> None:
    def refuse(_: int) -> None:
        raise OSError(code, os.strerror(code))

    target = tmp_path / name
    monkeypatch.setattr(os, "fsync", refuse)
    line = ("export",) if name.endswith("csv") else ("plot", "--y", "mse")
    ended, out, message = command(*line, str(sweep_file), "-o", str(target))
    assert ended == 2 and not out and message.count("\n") == 1
    assert message.startswith(f"replica: {target} was not written, ")
    assert list(tmp_path.iterdir()) == []


def test_a_figure_is_refused_before_it_is_drawn(command: Any, sweep_file: Path) -> None:
    for target, says in (
        ("/dev/null", "use a name that ends in"),
        ("nowhere/x.png", "nowhere does not exist"),
        (str(sweep_file.parent), "use a name that ends in"),
    ):
        ended, _, message = command("plot", str(sweep_file), "--y", "mse", "-o", target)
        assert ended == 2 and says in message and message.count("\n") == 1


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device here")
def test_standard_output_that_is_full(sweep_file: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "replica", "info", str(sweep_file)],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=200,
        )
    assert done.returncode == 2
    assert done.stderr == (
        "replica: the output was not written, No space left on device: send it elsewhere\n"
    )


def test_a_label_that_cannot_be_drawn(command: Any, tmp_path: Path, sweep_file: Path) -> None:
    dataset = replica.load(sweep_file)
    dataset["mse"].attrs["latex"] = r"\frac{"
    path = replica.save(tmp_path / "x.h5", dataset)
    ended, _, message = command("plot", str(path), "--y", "mse", "-o", str(tmp_path / "x.png"))
    assert ended == 2 and "the figure cannot be drawn" in message and message.count("\n") == 1
    assert not (tmp_path / "x.png").exists()


def test_a_part_that_a_figure_needs(tmp_path: Path) -> None:
    attrs = {"kind": "curve", "control": "alpha", "transition": "continuous"}
    attrs |= {"thresholds": {}, "folds": []}
    numbers = {name: ("point", [1.0]) for name in ("risk", "error_risk", "alpha")}
    path = replica.save(tmp_path / "x.h5", xr.Dataset(numbers, attrs=attrs))
    with pytest.raises(InputError, match="of kind 'curve' needs more than this dataset has"):
        replica.plot(path)
    with pytest.raises(StoreError, match="needs the attribute 'folds'"):
        replica.save(tmp_path / "y.h5", xr.Dataset(attrs=attrs | {"folds": None}))


# Ctrl-C -------------------------------------------------------------------------------------------

LOOP = """
import signal, sys
import replica
import replica.__main__

signal.signal(signal.SIGINT, signal.SIG_IGN)
first = replica.solve("spiked-wigner", snr=2.0)
for round in range(5):
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print("ready", flush=True)
        for i in range(10**6):
            replica.solve("spiked-wigner", snr=1.5 + 1e-6 * i)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # one is enough
        again = replica.solve("spiked-wigner", snr=2.0)
        print(again.branches[0].overlaps == first.branches[0].overlaps, flush=True)
"""


@pytest.mark.slow
def test_ctrl_c_in_a_loop_leaves_a_usable_interpreter() -> None:
    loop = script(LOOP)
    assert loop.stdout is not None
    try:
        for _ in range(5):
            assert loop.stdout.readline() == "ready\n"
            answered: list[object] = []
            while not answered:  # Python may drop one, in the callback of a weak reference
                loop.send_signal(signal.SIGINT)
                answered, *_ = select.select([loop.stdout], [], [], 10)
            assert loop.stdout.readline() == "True\n"
        assert loop.wait(timeout=60) == 0, loop.stderr and loop.stderr.read()
    finally:
        loop.kill()


def test_ctrl_c_while_the_command_line_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(replica.__main__, "import_module", interrupted)
    with pytest.raises(SystemExit) as end:
        replica.__main__.main()
    assert end.value.code == 130
