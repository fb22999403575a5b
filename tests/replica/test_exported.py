"""Programs that are kept as they were before they were compiled: a later process neither derives
nor traces, and whatever is wrong with an entry, or unknown about a model, costs time alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy as sp

import replica
from equations import MODELS
from replica.lowering.content import NoContentError, text_of
from replica.lowering.node_sizes import NodeSizes
from replica.lowering.rules import RULES
from replica.runtime import exported as kept_programs
from replica.runtime.programs import Program
from replica.theories import point_programs
from replica.theories.equations import CompiledEquations

ROOT = Path(replica.__file__).parents[1]
SOLVED = """
import json
import replica
from replica.theories import equations

{before}
solution = replica.solve("spiked-wigner", snr=2.0)
print(json.dumps([[b.overlaps, b.error, b.conjugates, b.observables] for b in solution.branches]))
"""
NOTHING_DERIVED = """
def never(*_, **__):
    raise AssertionError("it was in the cache")
equations.derive = equations.CompiledEquations.group = never
"""


def solved(cache: Path, before: str = "") -> Any:
    ran = subprocess.run(
        [sys.executable, "-c", SOLVED.format(before=before)],
        cwd=ROOT,
        env=os.environ | {"REPLICA_CACHE": str(cache)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_a_second_process_neither_derives_nor_traces(tmp_path: Path) -> None:
    first = solved(tmp_path)
    assert len(list((tmp_path / "exported").iterdir())) == 3
    assert solved(tmp_path, NOTHING_DERIVED) == first


def name_of(model: Any, *role: Any) -> str | None:
    return point_programs.name_of(CompiledEquations(model, NodeSizes()), *role)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_model_of_the_package_has_a_name(name: str) -> None:
    build = MODELS[name].build
    assert name_of(build(), "observed") == name_of(build(), "observed") is not None


def test_all_that_a_program_depends_on_is_in_its_name() -> None:
    model = MODELS["spiked-wigner"].build()
    snr, q = model.controls[0].symbol, model.overlaps[0].symbol
    others = [
        replace(model, channel=model.channel + sp.Rational(1, 10**9) * q * snr),
        replace(model, prior=2 * model.prior),
        replace(model, coupling=2 * model.coupling),
        replace(model, observables={"mse": q}),
        replace(model, overlaps=(replace(model.overlaps[0], high=0.5),)),
        MODELS["perceptron-bayes"].build(),
    ]
    names = {name_of(each, "observed") for each in (model, *others)}
    names |= {name_of(model, role) for role in ("search", "linearised")}
    assert None not in names and len(names) == len(others) + 3


def test_what_a_function_encloses_is_in_its_text() -> None:
    spiked = MODELS["slr-bayes"].build
    laws = [spiked(L=law).theory.rewrite for law in ("2:1/2,4:1/2", "2:1/2,5:1/2", "2:1/2,6:1/2")]
    assert len({text_of(rewrite) for rewrite in laws}) == 3


class Mine(sp.Expr):
    """A node of a user's own."""


@pytest.mark.parametrize(
    "thing",
    [sp.Dummy("x"), Mine(sp.Integer(1)), sp.Function("f")(1), lambda x: x, object(), Mine],
    ids=["dummy", "node", "function", "lambda", "object", "class"],
)
def test_what_may_be_another_thing_next_time_has_no_text(thing: Any) -> None:
    with pytest.raises(NoContentError):
        text_of((1, {"a": [thing]}))


def test_a_rule_of_the_users_own_leaves_its_nodes_without_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expression = MODELS["spiked-wigner"].build().prior
    average = next(iter(expression.atoms(replica.Average)))
    assert text_of(expression)
    monkeypatch.setitem(RULES, type(average), lambda evaluation, node: 0.0)
    with pytest.raises(NoContentError):
        text_of(expression)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kept_programs, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(kept_programs, "kept_in", lambda: str(tmp_path))
    return tmp_path / "exported"


def twice(folder: Path, between: Callable[[Path], None]) -> tuple[int, Any]:
    """A program in two "processes": how often it was traced, and what it gave the second time."""
    traced = []

    def function(x: jax.Array) -> jax.Array:
        traced.append(x)
        return jnp.sin(x)

    x = np.linspace(0.0, 1.0, 4, dtype=np.float32)
    Program(function, name="f")(x)
    for entry in folder.iterdir():
        between(entry)
    value = Program(function, name="f")(x)
    assert np.array_equal(value, jnp.sin(x))
    return len(traced), value


@pytest.mark.parametrize(
    ("damage", "times"),
    [
        (lambda b: b, 1),
        (lambda b: b[: len(b) // 2], 2),
        (lambda b: b"", 2),
        (lambda b: b[:200] + bytes([b[200] ^ 4]) + b[201:], 2),
        (lambda b: b"0" * 64 + b"\nnot a program", 2),
    ],
    ids=["whole", "half", "empty", "a flipped bit", "foreign"],
)
def test_a_damaged_entry_is_made_anew(folder: Path, damage: Any, times: int) -> None:
    count, _ = twice(folder, lambda entry: entry.write_bytes(damage(entry.read_bytes())) and None)
    assert count == times
    assert twice(folder, lambda entry: None)[0] == 0  # what was made anew was kept


def test_a_program_under_the_digest_of_another_is_made_anew(folder: Path) -> None:
    other = jax.export.export(jax.jit(lambda x: (jnp.cos(x),)))(np.zeros(4, dtype=np.float32))

    def exchanged(entry: Path) -> None:
        digest, _, _ = entry.read_bytes().partition(b"\n")
        entry.write_bytes(digest + b"\n" + other.serialize())

    assert twice(folder, exchanged)[0] == 2  # and its value is the sine


def test_an_entry_that_is_whole_but_unreadable_is_made_anew(folder: Path) -> None:
    def foreign(entry: Path) -> None:
        entry.unlink()
        kept_programs.write(entry, b"of another version")

    assert twice(folder, foreign)[0] == 2


def test_a_program_that_cannot_be_exported_runs_all_the_same(folder: Path) -> None:
    def function(x: jax.Array) -> jax.Array:
        return jax.pure_callback(lambda x: 2 * x, jax.ShapeDtypeStruct((), jnp.float32), x)

    assert float(Program(function, name="g")(np.float32(3.0))) == 6.0
    assert not folder.exists()


def test_the_result_has_its_form(folder: Path) -> None:
    pair = Program(lambda x: (x + 1, {"a": x}), name="h", result=lambda a, b: (a, {"a": b}))
    one, rest = pair(np.float32(1.0))
    assert (float(one), float(rest["a"])) == (2.0, 1.0)
    wrong = Program(lambda x: (x, x), name="k", result=lambda a, b: [a, b])
    with pytest.raises(AssertionError):
        wrong(np.float32(1.0))
