"""What takes no time: help, completion and importing the package load none of the heavy libraries;
files are described and drawn without JAX.
"""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import replica
from replica import on_demand
from replica.cli import app

ROOT = Path(__file__).resolve().parents[1]
HEAVY = (
    "dask",
    "diffrax",
    "equinox",
    "h5py",
    "jax",
    "matplotlib",
    "numpy",
    "optimistix",
    "pandas",
    "scipy",
    "sympy",
    "xarray",
)
FLOWS = ("diffrax", "equinox", "optimistix")
TABLES = ("h5py", "matplotlib", "pandas", "scipy.optimize", "scipy.stats", "xarray")
COMMANDS = [command.name for command in app.registered_commands]
RUN = """
import sys
sys.argv = ["replica", *{arguments!r}]
from replica.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""


def run(source: str, names: tuple[str, ...], **environment: str) -> str:
    """What a new process prints that runs ``source``, and in the last line after "loaded" which of
    ``names`` it has imported.
    """
    report = f"\nimport sys\nprint('loaded', *[n for n in {names!r} if n in sys.modules])"
    ran = subprocess.run(
        [sys.executable, "-c", source + report],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def loaded(source: str, names: tuple[str, ...]) -> list[str]:
    """Which of ``names`` a new process has imported that has run ``source``."""
    return run(source, names).rpartition("loaded")[2].split()


def test_the_face_is_light() -> None:
    assert loaded("import replica; dir(replica)", HEAVY) == []


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_is_light(command: str) -> None:
    arguments = [*command.split(), "--help"]
    assert loaded(RUN.format(arguments=arguments), HEAVY) == []


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("replica s", "sweep"), ("replica solve --", "--damping"), ("replica check --", "--trials")],
)
def test_completion_is_light(typed: str, offered: str) -> None:
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    asked = {"_REPLICA_COMPLETE": "complete_bash"}
    said = run(RUN.format(arguments=[]), HEAVY, **asked, **words)
    assert offered in said and said.endswith("loaded\n")


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["models"], ("jax", *TABLES)),
        (["info", "tests/data/schema1/sweep.h5"], ("jax", "sympy", "matplotlib", "dask.array")),
        (["plot", "tests/data/schema1/sweep.h5", "-y", "mse"], ("jax", *FLOWS)),
    ],
    ids=lambda value: value[0],
)
def test_commands_import_what_they_need(
    arguments: list[str], names: tuple[str, ...], tmp_path: Path
) -> None:
    output = ["-o", str(tmp_path / "a.png")] if arguments[0] == "plot" else []
    assert loaded(RUN.format(arguments=[*arguments, *output]), names) == []


def test_solving_needs_no_tables_and_no_flows() -> None:
    source = "import replica\nassert replica.solve('spiked-wigner', snr=2).branches[0].ok"
    assert loaded(source, (*FLOWS, *TABLES)) == []


def test_listing_is_what_is_built() -> None:
    """Models that take seconds to build say their title and controls beside ``build``."""
    listed = {name: spec for name, spec in replica.MODELS.items() if spec.listed is not None}
    assert len(listed) == 2
    for spec in listed.values():
        model = spec.build()
        assert spec.listing() == (model.title, model.controls)


def imported_names(file: Path) -> dict[str, str]:
    """name -> module of the imports that ``replica/__init__.py`` shows to type checkers."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    found = {}
    for node in block.body:
        if isinstance(node, ast.Import):
            found |= {alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            home = ("replica." if node.level else "") + (node.module or "")
            rooms = {alias.name: f"replica.{alias.name}" for alias in node.names}
            plain = {alias.name: home for alias in node.names}
            found |= rooms if home == "replica." else plain
    return found


def test_type_checkers_and_python_see_the_same_names() -> None:
    shown = imported_names(ROOT / "replica" / "__init__.py")
    assert set(shown) == set(replica.__all__)
    for name, home in shown.items():
        if name not in on_demand.ROOMS:
            value = getattr(importlib.import_module(home), name)
            assert getattr(replica, name) is value, name
    assert set(replica.__all__) <= set(dir(replica))


def test_importing_a_module_does_not_hide_the_function_of_its_name() -> None:
    source = "import replica.solve, replica.show, replica.check\nfrom replica import solve, check\n"
    source += "assert callable(solve) and callable(check) and callable(replica.show)"
    assert loaded(source, ("matplotlib",)) == []


def test_no_module_of_the_numerics_hides_a_function() -> None:
    source = (
        "import solvers.minimise, solvers.fixed_point\nfrom solvers import minimise, fixed_point"
    )
    assert loaded(f"{source}\nassert callable(minimise) and callable(fixed_point)", FLOWS) == []
