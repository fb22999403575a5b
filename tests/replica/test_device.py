"""What differs on other devices than a CPU, as far as it can be tried on one."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import replica
from replica.runtime.programs import known_options

ROOT = Path(replica.__file__).parents[1]
PINS = ("default_device", "devices", "device_put", "pure_callback", "io_callback", "debug_callback")
"""Names of JAX that choose a device, or call back to the host."""


def test_an_option_that_a_compiler_does_not_have_is_left_out() -> None:
    known = {"xla_backend_optimization_level": 1}
    assert known_options({**known, "xla_no_such_option": 3}) == known
    assert known_options({"xla_no_such_option": 3}) is None


def test_options_for_the_cpu_go_to_no_other_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    assert known_options({"xla_backend_optimization_level": 1}) is None


def test_no_code_chooses_a_device() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{node.lineno} {node.attr}"
        for package in ("replica", "solvers")
        for file in sorted((ROOT / package).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in PINS
    ]
    assert not found


def test_a_device_that_is_not_there_is_one_sentence() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "replica", "solve", "spiked-wigner", "--set", "snr=2"],
        env=os.environ | {"JAX_PLATFORMS": "cuda"},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if ran.returncode == 0:
        pytest.skip("there is such a device here")
    (sentence,) = ran.stderr.splitlines()
    assert ran.returncode == 2
    assert sentence.startswith("replica: JAX finds no device for JAX_PLATFORMS=cuda: install")
