"""The package as users start it: files of theirs that hide ours, silence at import,
typing markers.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

PACKAGES = ("replica", "equations", "solvers")


def _home() -> Path:
    spec = find_spec("replica")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent.parent


HOME = _home()


def python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter in ``cwd`` that finds the tested packages after the working folder,
    installed or not.
    """
    hidden = ("PYTHONSAFEPATH", "PYTHONWARNINGS", "JAX_ENABLE_X64")
    environment = {k: v for k, v in os.environ.items() if k not in hidden} | {
        "PYTHONPATH": str(HOME)
    }
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def write(folder: Path, *names: str) -> list[Path]:
    files = [folder / name for name in names]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("MODELS = {}\n", encoding="ascii")
    return [file.resolve() for file in files]


HIDING = [("equations.py",), ("solvers/__init__.py",), ("equations.py", "solvers/__init__.py")]


@pytest.mark.parametrize("names", HIDING, ids=" and ".join)
def test_a_hiding_file_is_named_in_one_import_error(tmp_path: Path, names: tuple[str, ...]) -> None:
    files = write(tmp_path, *names)
    run = python("-c", "import replica", cwd=tmp_path)
    assert run.returncode == 1
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert all(str(file) in last for file in files)
    assert "rename" in last and "python -P" in last
    assert run.stderr.count("Error:") == 1
    assert "solvers" in last or "solvers/__init__.py" not in names


@pytest.mark.parametrize("names", HIDING, ids=" and ".join)
def test_safe_path_starts_beside_a_hiding_file(tmp_path: Path, names: tuple[str, ...]) -> None:
    write(tmp_path, *names)
    run = python(
        "-P",
        "-c",
        "import replica, equations, solvers; print(equations.__file__, solvers.__file__,"
        " sep='\\n')",
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == [
        str(HOME / name / "__init__.py") for name in ("equations", "solvers")
    ]


def test_a_hiding_module_that_is_already_imported_is_named(tmp_path: Path) -> None:
    (file,) = write(tmp_path / "early", "equations.py")
    run = python(
        "-c",
        "import sys; sys.path.insert(0, 'early'); import equations; del sys.path[0]; import"
        " replica",
        cwd=tmp_path,
    )
    assert run.returncode == 1
    assert str(file) in run.stderr.strip().splitlines()[-1]


def test_a_hiding_script_that_imports_replica_is_named(tmp_path: Path) -> None:
    script = tmp_path / "solvers.py"
    script.write_text("import replica\n", encoding="ascii")
    run = python("solvers.py", cwd=tmp_path)
    assert run.returncode == 1
    assert str(script.resolve()) in run.stderr.strip().splitlines()[-1]


def test_a_folder_without_modules_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "equations").mkdir()
    (tmp_path / "solvers").mkdir()
    (tmp_path / "solvers" / "notes.txt").write_text("not a package", encoding="ascii")
    run = python("-c", "import replica", cwd=tmp_path)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("flags", [(), ("-W", "error")], ids=["plain", "warnings are errors"])
def test_import_is_silent(tmp_path: Path, flags: tuple[str, ...]) -> None:
    run = python(*flags, "-c", "import replica", cwd=tmp_path)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


UNTOUCHED = """
import os
import jax
jax.config.update("jax_enable_x64", {x64})
settings, environment = dict(jax.config.values), dict(os.environ)
import replica
changed = {{k: (v, jax.config.values[k]) for k, v in settings.items() if jax.config.values[k] != v}}
assert not changed, changed
assert jax.config.jax_enable_x64 is {x64}
assert jax.numpy.ones(()).dtype == ("float64" if {x64} else "float32")
assert dict(os.environ) == environment
"""


@pytest.mark.parametrize("x64", [False, True])
def test_import_changes_no_jax_configuration(tmp_path: Path, x64: bool) -> None:
    run = python("-c", UNTOUCHED.format(x64=x64), cwd=tmp_path)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("package", PACKAGES)
def test_package_is_marked_as_typed(package: str) -> None:
    assert (HOME / package / "py.typed").is_file()
