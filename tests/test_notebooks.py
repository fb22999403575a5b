"""The notebooks' code runs and their own assertions hold."""

import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook(path: Path) -> None:
    cells = json.loads(path.read_text())["cells"]
    code = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
    assert sum("assert" in c for c in code) >= 1, "a notebook asserts its headline numbers"
    assert any(c.get("outputs") for c in cells), "committed with its figures"
    namespace: dict[str, object] = {}
    for source in code:
        exec(compile(source, str(path), "exec"), namespace)
