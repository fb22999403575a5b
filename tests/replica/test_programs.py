"""Compiled programs are kept in one store: found again, shared between threads, let go."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep

import jax
import jax.numpy as jnp
import pytest

import replica
from replica.runtime import programs
from replica.runtime.programs import STORE, Program, clear_caches, known_options, memory_maps

TRACED: list[tuple[int, ...]] = []


def squared(x: jax.Array) -> jax.Array:
    """Notes every trace."""
    TRACED.append(x.shape)
    sleep(0.05)
    return x**2


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    TRACED.clear()
    yield


def test_a_program_is_compiled_once_for_each_shape() -> None:
    program = Program(squared)
    for n in (2, 3, 2, 3):
        assert program(jnp.arange(n)).tolist() == [i**2 for i in range(n)]
    assert TRACED == [(2,), (3,)]


def test_threads_that_need_a_program_wait_for_one_compilation() -> None:
    program = Program(squared)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(program, map(jnp.asarray, range(8)))) == [i**2 for i in range(8)]
    assert TRACED == [()]


def test_the_least_recently_used_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    clear_caches()
    monkeypatch.setattr(programs, "MOST", 2)
    a, b, c = (Program(squared) for _ in range(3))
    one = jnp.asarray(1.0)
    for program in (a, b, a, c, a):
        program(one)
    assert len(TRACED) == 3 and len(STORE) == 2
    b(one)
    assert len(TRACED) == 4, "b was let go, and is compiled again"
    a(one)
    assert len(TRACED) == 4


def test_memory_maps_bound_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    if not memory_maps():
        pytest.skip("the system does not say")
    clear_caches()
    monkeypatch.setattr(programs, "MOST_MAPS", 1)
    monkeypatch.setattr(programs, "FEWEST", 2)
    monkeypatch.setattr(programs, "GROWTH", -memory_maps())  # there is always too little room
    for program in (Program(squared) for _ in range(6)):
        program(jnp.asarray(2.0))
    assert len(STORE) <= 3


def test_what_is_in_use_stays_when_others_hold_the_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    clear_caches()
    monkeypatch.setattr(programs, "memory_maps", lambda: programs.MOST_MAPS + 1)
    used = [Program(squared) for _ in range(programs.FEWEST)]
    for _ in range(3):
        for program in used:
            program(jnp.asarray(2.0))
    assert len(TRACED) == len(used), "none is compiled twice"


def test_a_program_inside_another_is_a_part_of_it() -> None:
    inner = Program(squared)
    outer = Program(lambda x: inner(x) + 1)
    assert float(outer(jnp.asarray(3.0))) == 10.0


def test_options_that_xla_does_not_have_are_left_out() -> None:
    assert known_options({"no_such_option": 1}) is None
    assert known_options({"xla_backend_optimization_level": 1, "no_such_option": 1}) == {
        "xla_backend_optimization_level": 1
    }


def test_clear_caches_changes_no_number() -> None:
    before = replica.solve("spiked-wigner", snr=2).branches
    replica.clear_caches()
    assert len(STORE) == 0
    assert replica.solve("spiked-wigner", snr=2).branches == before


OWN = """
from replica import X, Y, Z, bayes_glm, normal, quantity

Delta = quantity("Delta", open_low=True)

def build():
    return bayes_glm(normal(X, 0, {variance}), normal(Y, Z, Delta.symbol), (Delta,))
"""


MANY = """
import json, sys
from itertools import product
from pathlib import Path
import replica
from replica.runtime.programs import STORE, memory_maps

folder, text = Path(sys.argv[1]), sys.argv[2]
begun, most = STORE.compilations, 0
for i, polish in product(range(40), ("anderson", "newton", "none")):
    file = folder / f"model_{i}.py"
    file.write_text(text.replace("{variance}", str(1 + i)), encoding="utf-8")
    settings = replica.Settings(polish=polish)
    assert replica.solve(str(file), alpha=1.5, Delta=0.1, settings=settings).branches[0].ok
    most = max(most, memory_maps())
for nu in (1, 20, 50):
    replica.solve("slr-bayes", alpha=1.4, L=4, nu=nu, Delta=0.1)
    most = max(most, memory_maps())
resident = int(Path("/proc/self/statm").read_text().split()[1]) * 4096
print(json.dumps([STORE.compilations - begun, most, resident]))
"""


@pytest.mark.slow
def test_many_programs_stay_within_maps_and_memory(tmp_path: Path) -> None:
    """Models of one's own, routes and polishes: each setting is another set of programs. In a
    process of its own: what other tests have left in this one is not theirs.
    """
    if not memory_maps():
        pytest.skip("the system does not say")
    ran = subprocess.run(
        [sys.executable, "-c", MANY, str(tmp_path), OWN], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    compilations, maps, resident = json.loads(ran.stdout)
    assert compilations > 150
    assert maps < 15_000
    assert resident < 2e9
