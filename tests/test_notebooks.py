"""The notebooks' code runs, with small settings, and their own assertions hold.

A cell tagged ``parameters`` holds the sizes; what the notebook's metadata gives under ``small`` is
assigned after it here.
"""

import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


SLOW = [path for path in NOTEBOOKS if json.loads(path.read_text())["metadata"].get("slow")]


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, id=p.stem, marks=[pytest.mark.slow] if p in SLOW else []) for p in NOTEBOOKS],
)
def test_notebook(path: Path) -> None:
    notebook = json.loads(path.read_text())
    cells, small = notebook["cells"], notebook["metadata"].get("small", {})
    code = ["".join(c["source"]) + _small(c, small) for c in cells if c["cell_type"] == "code"]
    assert sum("assert" in c for c in code) >= 1, "a notebook asserts its headline numbers"
    assert any(c.get("outputs") for c in cells), "committed with its figures"
    namespace: dict[str, object] = {}
    for source in code:
        exec(compile(source, str(path), "exec"), namespace)


def _small(cell: dict, small: dict[str, object]) -> str:
    """Assignments that follow a cell of parameters; each replaces one that the cell makes."""
    if "parameters" not in cell["metadata"].get("tags", ()):
        return ""
    assigned = {
        line.split("=")[0].strip() for line in "".join(cell["source"]).splitlines() if "=" in line
    }
    assert set(small) <= assigned, "small settings that the cell of parameters does not have"
    return "".join(f"\n{name} = {value!r}" for name, value in small.items())
