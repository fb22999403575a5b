"""Compiled programs that are kept: where, that a second process finds them, that nothing that is
wrong with the folder is an error, and the line that says what is compiled.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import jax.monitoring
import pytest

import replica
from replica.runtime import kept, notice

ROOT = Path(replica.__file__).parents[1]
EVENT = f"{notice.COMPILING}backend_compile_duration"
PROGRAM = """
import json, warnings
import jax, jax.monitoring
from replica.runtime.precision import double_precision

warnings.simplefilter("error")
seen = []
jax.monitoring.register_event_listener(lambda event, **_: seen.append(event.rpartition("/")[2]))
{before}
with double_precision():
    value = float(jax.jit(lambda x: jax.numpy.sin(x) ** 2 + 1)(jax.numpy.asarray(2.0)))
print(json.dumps([value, seen.count("cache_hits"), jax.config.jax_compilation_cache_dir]))
"""
VALUE = 1.826821810431806  # 1 + sin(2)^2


def computed(cache: Path | str, before: str = "", **environment: str) -> tuple[int, str | None]:
    """Compile a small program in a new process: how many programs it found, and JAX's folder."""
    keep_small = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(before=before)],
        cwd=ROOT,
        env=os.environ | keep_small | environment | {"REPLICA_CACHE": str(cache)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0 and ran.stderr == "", ran.stderr
    value, found, folder = json.loads(ran.stdout)
    assert value == pytest.approx(VALUE, abs=1e-15)
    return found, folder


def entries(cache: Path) -> list[Path]:
    return sorted(cache.rglob("*-cache"))


def test_a_second_process_finds_what_the_first_has_compiled(tmp_path: Path) -> None:
    found, folder = computed(tmp_path)
    assert found == 0 and folder == str(tmp_path / "jax" / kept.machine())
    written = entries(tmp_path)
    assert written and computed(tmp_path)[0] == len(written)


def test_a_damaged_or_foreign_entry_is_ignored_and_rebuilt(tmp_path: Path) -> None:
    computed(tmp_path)
    whole = {entry: entry.read_bytes() for entry in entries(tmp_path)}
    damages = (lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b"not a program" * 50)
    for number, entry in enumerate(whole):
        entry.write_bytes(damages[number % 3](whole[entry]))
    assert computed(tmp_path)[0] == 0
    assert {entry.name for entry in entries(tmp_path)} == {entry.name for entry in whole}
    assert computed(tmp_path)[0] == len(whole)


def test_a_flipped_bit_is_seen(tmp_path: Path) -> None:
    content = bytearray(zlib.compress(bytes(range(256)) * 40))
    good, bad, old = (tmp_path / f"{name}-cache" for name in ("good", "bad", "old"))
    good.write_bytes(content)
    content[len(content) // 2] ^= 4
    bad.write_bytes(content)
    assert kept.remove_unreadable(tmp_path) == [bad] and good.exists()
    old.write_bytes(content)
    os.utime(old, (0, 0))  # not changed since the last time: not read again
    assert kept.remove_unreadable(tmp_path) == [] and old.exists()


@pytest.mark.parametrize("state", ["a file", "read-only", "full"])
def test_a_folder_that_cannot_be_used_is_no_error(tmp_path: Path, state: str) -> None:
    if state == "a file":
        cache = tmp_path / "file"
        cache.write_text("", encoding="ascii")
        assert computed(cache) == (0, None)
        return
    # Root may write everywhere: writing fails as it does there and on a full disk.
    number = {"read-only": "EROFS", "full": "ENOSPC"}[state]
    fails = f"""
import errno, pathlib
def fail(self, *_, **__):
    raise OSError(errno.{number}, "cannot write")
pathlib.Path.write_bytes = pathlib.Path.touch = fail
"""
    computed(tmp_path)
    some = entries(tmp_path)
    assert computed(tmp_path, fails)[0] == len(some)  # what is there is used
    some[0].unlink()
    assert computed(tmp_path, fails)[0] == len(some) - 1
    assert not some[0].exists()


def test_the_users_own_folder_and_the_switch_are_respected(tmp_path: Path) -> None:
    own = tmp_path / "own"
    set_in_python = f"jax.config.update('jax_compilation_cache_dir', {str(own)!r})"
    assert computed(tmp_path / "ours", set_in_python)[1] == str(own)
    assert computed(tmp_path / "ours", JAX_COMPILATION_CACHE_DIR=str(own))[1] == str(own)
    assert computed("off")[1] is None
    assert computed(tmp_path / "ours", JAX_ENABLE_COMPILATION_CACHE="false")[1] is None
    assert not (tmp_path / "ours").exists() and entries(own)


def test_where_programs_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for text, folder in (
        (str(tmp_path), tmp_path),
        ("~/x", Path.home() / "x"),
        ("here", Path.cwd() / "here"),
        ("off", None),
        (" OFF ", None),
    ):
        monkeypatch.setenv("REPLICA_CACHE", text)
        assert replica.cache_folder() == folder
    monkeypatch.delenv("REPLICA_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    default = replica.cache_folder()
    assert default is not None and default.name == "replica-solver" and default.is_absolute()


# the line that says what is compiled --------------------------------------------------------------


class Clock:
    """Time that passes when a test says so, with the timers that are set meanwhile."""

    def __init__(self) -> None:
        self.now, self.timers = 0.0, []

    def monotonic(self) -> float:
        return self.now

    def timer(self, delay: float, act: Callable[[], None]) -> SimpleNamespace:
        entry = (self.now + delay, act)
        return SimpleNamespace(
            start=lambda: self.timers.append(entry),
            cancel=lambda: self.timers.remove(entry) if entry in self.timers else None,
        )

    def passes(self, seconds: float) -> None:
        end = self.now + seconds
        while due := sorted((e for e in self.timers if e[0] <= end), key=lambda e: e[0]):
            self.now = due[0][0]
            self.timers.remove(due[0])
            due[0][1]()
        self.now = end

    def compiles(self, seconds: float) -> None:
        """What JAX announces when it compiles for so long."""
        jax.monitoring.record_scalar(EVENT, 0.0, fun_name="f")
        self.passes(seconds)
        jax.monitoring.record_event_duration_secs(EVENT, seconds, fun_name="f")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Clock:
    made = Clock()
    monkeypatch.setattr(notice, "time", made)
    monkeypatch.setattr(notice, "Timer", made.timer)
    caplog.set_level(logging.INFO, "replica")
    return made


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == "replica"]


def test_one_line_is_said_for_each_computation(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with notice.computing("a"), notice.computing("inside"):
        clock.compiles(0.9)
        assert said(caplog) == []
        clock.compiles(3)
        clock.compiles(3)
    (line,) = said(caplog)
    assert line.startswith("compiling a (compiled programs are ")
    with notice.computing("b"):
        clock.compiles(2)
    assert [text.split()[1] for text in said(caplog)] == ["a", "b"]


def test_short_compilations_add_up(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    with notice.computing("a"):
        for idle in (0.6, 0.3, 0.3):
            clock.compiles(0.3)
            clock.passes(idle)
        assert said(caplog) == []  # 0.9 s, though more than two seconds have gone by
        clock.compiles(0.3)
    assert len(said(caplog)) == 1


def test_nothing_is_said_without_compilation_or_outside(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    clock.compiles(5)
    with notice.computing("a"):
        clock.compiles(0.1)
        clock.passes(5)
    with notice.computing("b"):
        clock.compiles(0.1)
    clock.passes(5)
    assert said(caplog) == [] and clock.timers == []


def test_programs_that_are_compiled_side_by_side_share_the_line(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with notice.computing("a"):
        jax.monitoring.record_scalar(EVENT, 0.0, fun_name="f")
        clock.compiles(0.7)
        assert said(caplog) == []
        clock.compiles(0.7)
        jax.monitoring.record_event_duration_secs(EVENT, 1.4, fun_name="f")
    assert len(said(caplog)) == 1


def test_jax_announces_when_it_begins(caplog: pytest.LogCaptureFixture) -> None:
    """What the line rests on: a begin and an end for each program."""
    begun, ended = [], []
    jax.monitoring.register_scalar_listener(lambda event, *_, **__: begun.append(event))
    jax.monitoring.register_event_duration_secs_listener(lambda e, *_, **__: ended.append(e))
    jax.jit(lambda x: x * 17.25 + 3)(1.0)
    names = [e for e in begun if e.startswith(notice.COMPILING)]
    assert EVENT in names and sorted(names) == sorted(
        e for e in ended if e.startswith(notice.COMPILING)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "lines"), [((), 1), (("--quiet",), 0), (("--json",), 0)], ids=["", "quiet", "json"]
)
def test_the_command_line_says_it(tmp_path: Path, flags: tuple[str, ...], lines: int) -> None:
    command = ["sweep", "slr-bayes", "--over", "alpha=1:2:2", "-o", str(tmp_path / "a.h5")]
    settings = ["--set", "L=2", "--set", "nu=1", "--set", "Delta=0.1"]
    ran = subprocess.run(
        [sys.executable, "-m", "replica", *command, *settings, *flags],
        cwd=ROOT,
        env=os.environ | {"REPLICA_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0 and len(ran.stderr.splitlines()) == lines, ran.stderr
    if lines:
        assert ran.stderr.startswith("replica: compiling slr-bayes (compiled programs are kept in")
    if "--json" in flags:
        assert json.loads(ran.stdout)["failed"] == 0
