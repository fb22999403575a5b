"""Every case of tests/data/frozen.json gives the numbers that are frozen there (``freeze.py``)."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
frozen_cases = importlib.import_module("frozen_cases")

FROZEN = json.loads(frozen_cases.FILE.read_text(encoding="utf-8"))


def _parameter(case: dict[str, Any]) -> Any:
    return pytest.param(case, id=case["name"], marks=[pytest.mark.slow] if case["slow"] else [])


@pytest.mark.parametrize("case", [_parameter(case) for case in FROZEN["cases"]])
def test_numbers_are_the_frozen_ones(
    case: dict[str, Any],
    command: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", frozen_cases.COLUMNS)
    found = json.loads(json.dumps(frozen_cases.run(case, command, tmp_path), allow_nan=False))
    wrong = frozen_cases.differences(found, case["result"], case.get("loose"))
    made = FROZEN["made"]
    where = f"{case['name']}: {len(wrong)} differ from those made on {made['machine']} with {made}"
    assert not wrong, "\n".join([where, *wrong])


def test_the_comparison_sees_what_it_is_for() -> None:
    frozen = {"a": [1.0, 2, "x 1.5e-3 (y)"], "b": None, "c": True}
    assert not frozen_cases.differences(frozen, frozen)
    near = {"a": [1.0 + 1e-13, 2, "x 1.5000000000001e-3 (y)"], "b": None, "c": True}
    assert not frozen_cases.differences(near, frozen)
    far = {"a": [1.0 + 1e-11, 3, "x 1.6e-3 (y)", 4], "b": 0.0, "d": True}
    paths = [line.partition(":")[0] for line in frozen_cases.differences(far, frozen)]
    assert paths == [".a", ".a[0]", ".a[1]", ".a[2]", ".b", ".c", ".d"]
    assert not frozen_cases.differences({"a": 1.1}, {"a": 1.0}, {r"\.a": (0.2, "for this test")})
    assert frozen_cases.differences({"a": 1}, {"a": 1.0}) and frozen_cases.differences(["1"], [1])
