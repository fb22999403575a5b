"""What differs on other devices than a CPU, as far as it can be tried on one."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import replica
from replica.runtime import precision

ROOT = Path(replica.__file__).parents[1]
PINS = ("default_device", "devices", "device_put", "pure_callback", "io_callback", "debug_callback")
"""Names of JAX that choose a device, or call back to the host."""


def test_options_for_the_cpu_go_to_no_other_device(monkeypatch: pytest.MonkeyPatch) -> None:
    options = precision.CpuOptions(xla_backend_optimization_level=1)
    assert dict(options) == {"xla_backend_optimization_level": 1}
    monkeypatch.setattr(precision, "on_cpu", lambda: False)
    assert dict(options) == {} and len(options) == 0


def test_a_batch_is_the_same_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere than on a CPU the lines of a column are one batch."""
    over, batched = {"snr": np.linspace(0.5, 4, 40)}, []
    settings = replica.Settings(tol=3e-11)  # a program that no other test has compiled
    real, tried = precision.mapped, []

    def mapped(function: object, values: object) -> object:
        tried.append(precision.on_cpu())
        return real(function, values)  # type: ignore[arg-type]

    monkeypatch.setattr("replica.theories.lines.mapped", mapped)
    for cpu in (True, False):
        monkeypatch.setattr(precision, "on_cpu", lambda cpu=cpu: cpu)
        changed = replica.Settings(tol=settings.tol * (1 if cpu else 1 + 1e-12))
        batched.append(replica.sweep("spiked-wigner", over=over, settings=changed))
    assert set(tried) == {True, False}
    one, many = batched
    assert (one.status == many.status).all()
    good = one.status.values == 0
    np.testing.assert_allclose(many.q.values[good], one.q.values[good], atol=1e-12)


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
