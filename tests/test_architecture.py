"""The rules of the house, read off the syntax trees: who imports what, sizes, and habits."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import statistics
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from equations import MODELS

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("replica", "equations", "solvers")
FILES = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
ALL_FILES = FILES + sorted(
    file
    for folder in ("tests", "benchmarks", "notebooks")
    for file in (ROOT / folder).rglob("*.py")
    if "frozen_models" not in file.parts  # kept as users had them
)
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)

MAX_FILE, MEDIAN_FILE = 400, 160
MAX_FUNCTION, MOST_FUNCTIONS = 60, 35
MAX_LINE, MAX_FOLDER, MAX_LEVELS = 100, 13, 10
ALLOWED = {
    "equations": {"sympy", "equations"},
    "solvers": {"jax", "numpy", "scipy", "optimistix", "diffrax", "solvers"},
}
ORDER = (
    "ground",
    "files",
    "lowering",
    "theories",
    "models",
    "solve",
    "jobs",
    "sweeps",
    "linear_response",
    "simulate",
    "dynamics",
    "phase",
    "check",
    "plots",
    "cli",
)
"""Rooms of replica/: each imports from itself and from those before it."""
ROOMS = {
    "_guard": "ground",
    "errors": "ground",
    "inputs": "ground",
    "precision": "ground",
    "programs": "ground",
    "renamed": "ground",
    "solution": "solve",
    "show": "solve",
    "demo": "cli",
    "__main__": "cli",
}
"""Files of replica/ that are not folders and share a room."""
APPLICATIONS = (
    "equations.models",
    "equations.slr",
    "equations.glm",
    "solvers.attention",
    "replica.simulate",
    "replica.dynamics",
    "replica.check",
    "replica.plots.manifold",
    "replica.plots.subspace",
    "replica.demo",
    "equations.quantities",
)
"""What may name a model or an overlap: everything else serves any model."""
KINDS = (
    "Quadrature",
    "QuasiMonteCarlo",
    "EmpiricalRisk",
    "SphereFlow",
    "GradientFlow",
    "SaddlePoint",
    "SampledSaddlePoint",
    "Objective",
    "TrainedPredictor",
    "FlowOnSphere",
    "DescentOfVectors",
)
"""Records of theories, and the objects that are made of them."""
ASKED = ("path", "scrambled", "diagram")
"""Attributes that say what kind something is, to be looked up in a table and not compared."""
ONLY_IN = {"h5py": "replica.files.store", "matplotlib": "replica.plots.base"}


def module_name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


TREES = {file: ast.parse(file.read_text(encoding="utf-8"), str(file)) for file in FILES}
MODULES = {module_name(file) for file in FILES}


def imports(node: ast.AST, module: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """(line, absolute dotted name) of every import under ``node``; ``from a import b`` gives
    ``a.b``.
    """
    for item in ast.walk(node):
        if isinstance(item, ast.Import):
            yield from ((item.lineno, alias.name) for alias in item.names)
        elif isinstance(item, ast.ImportFrom):
            base = item.module or ""
            if item.level:
                parts = module.split(".")
                parents = parts[: len(parts) - item.level + is_package]
                base = ".".join([*parents, base] if base else parents)
            yield from ((item.lineno, f"{base}.{alias.name}") for alias in item.names)


def imports_of(file: Path, node: ast.AST | None = None) -> Iterator[tuple[int, str]]:
    return imports(node or TREES[file], module_name(file), file.name == "__init__.py")


def top(name: str) -> str:
    return name.partition(".")[0]


def third_party(file: Path) -> Iterator[tuple[int, str]]:
    return (
        (line, top(name))
        for line, name in imports_of(file)
        if top(name) not in sys.stdlib_module_names
    )


def deferred(tree: ast.Module, module: str, is_package: bool) -> list[tuple[int, str]]:
    """First-party imports inside functions."""
    functions = (node for node in ast.walk(tree) if isinstance(node, FUNCTION))
    found = {pair for function in functions for pair in imports(function, module, is_package)}
    return sorted((line, name) for line, name in found if top(name) in PACKAGES)


def cycle(edges: dict[str, set[str]]) -> list[str] | None:
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return error.args[1]
    return None


def edge(name: str, modules: set[str]) -> str:
    """The longest prefix of a dotted name that is a module (the rest is a name inside it)."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name


def bare_excepts(tree: ast.Module) -> list[int]:
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler) and node.type is None
    ]


def function_sizes(tree: ast.Module) -> list[tuple[str, int]]:
    """Lines of each function, without its docstring."""
    sizes = []
    for node in ast.walk(tree):
        if isinstance(node, FUNCTION):
            first = node.body[0]
            words = first.value if isinstance(first, ast.Expr) else None
            told = isinstance(words, ast.Constant) and isinstance(words.value, str)
            sizes.append(
                (
                    node.name,
                    (node.end_lineno or 0)
                    - node.lineno
                    + 1
                    - ((words.end_lineno or 0) - words.lineno + 1 if told else 0),
                )
            )
    return sizes


def lines(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


def test_the_rules_look_at_all_three_packages() -> None:
    assert {top(module) for module in MODULES} == set(PACKAGES)
    assert len(FILES) >= 20


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_package_imports_only_what_its_room_allows(package: str) -> None:
    wrong = [
        f"{name_of(file)}:{line} imports {name}"
        for file in FILES
        if top(module_name(file)) == package
        for line, name in third_party(file)
        if name not in ALLOWED[package]
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("library", sorted(ONLY_IN))
def test_library_is_imported_in_one_module(library: str) -> None:
    wrong = [
        f"{name_of(file)}:{line}"
        for file in FILES
        if module_name(file) != ONLY_IN[library]
        for line, name in third_party(file)
        if name == library
    ]
    assert not wrong, f"{library} belongs in {ONLY_IN[library]}: {wrong}"


def test_imported_libraries_are_declared() -> None:
    """Those of an extra may be imported inside functions only, where it is needed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names, extra = (
        {r.partition(">=")[0] for r in listed}
        for listed in (project["dependencies"], project["optional-dependencies"]["distributed"])
    )
    found = [
        (file, line, name)
        for file in FILES
        for line, name in third_party(file)
        if name not in names | set(PACKAGES)
    ]
    at_top = {
        (file, line)
        for file in FILES
        for node in TREES[file].body
        for line, _ in imports_of(file, node)
        if not isinstance(node, FUNCTION)
    }
    wrong = [
        f"{name_of(file)}:{line} imports {name}"
        for file, line, name in found
        if name not in extra or (file, line) in at_top
    ]
    assert not wrong, "\n".join(wrong)


def test_no_first_party_import_is_deferred() -> None:
    wrong = [
        f"{name_of(file)}:{line} imports {name} inside a function"
        for file, tree in TREES.items()
        for line, name in deferred(tree, module_name(file), file.name == "__init__.py")
    ]
    assert not wrong, "\n".join(wrong)


def test_first_party_imports_have_no_cycle() -> None:
    edges = {
        module_name(file): {edge(name, MODULES) for _, name in imports_of(file)} - {""}
        for file in FILES
    }
    found = cycle(edges)
    assert found is None, " -> ".join(found or [])


def test_no_bare_except() -> None:
    wrong = [
        f"{name_of(file)}:{line}" for file, tree in TREES.items() for line in bare_excepts(tree)
    ]
    assert not wrong, wrong


def test_files_are_short() -> None:
    wrong = {name_of(file): lines(file) for file in FILES if lines(file) > MAX_FILE}
    assert not wrong, f"more than {MAX_FILE} lines: {wrong}"


def test_the_median_file_is_short() -> None:
    assert statistics.median(map(lines, FILES)) <= MEDIAN_FILE


def test_most_functions_are_shorter() -> None:
    sizes = sorted(size for tree in TREES.values() for _, size in function_sizes(tree))
    assert sizes[int(0.9 * len(sizes))] <= MOST_FUNCTIONS


def test_lines_are_short() -> None:
    wrong = [
        f"{name_of(file)}:{number}"
        for file in ALL_FILES
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if len(line.partition("  # type: ")[0].partition("  # noqa")[0]) > MAX_LINE
    ]
    assert not wrong, f"more than {MAX_LINE} columns: {wrong}"


def test_folders_are_small() -> None:
    counts = Counter(file.parent for file in FILES if file.name != "__init__.py")
    wrong = {name_of(folder): count for folder, count in counts.items() if count > MAX_FOLDER}
    assert not wrong, f"more than {MAX_FOLDER} files: {wrong}"


def room_of(module: str) -> str:
    """The room of a module of replica/; of another package its folder."""
    package, _, rest = module.partition(".")
    first = rest.partition(".")[0]
    if package != "replica":
        folder = first if first and f"{package}.{first}" in PACKAGES_INSIDE else ""
        return f"{package}.{folder}" if folder else package
    return ROOMS.get(first, first)


PACKAGES_INSIDE = {module_name(file) for file in FILES if file.name == "__init__.py"}


def arrows() -> Iterator[tuple[str, str, str]]:
    """(file and line, importing module, imported module) within the three packages."""
    for file in FILES:
        for line, name in imports_of(file):
            target = edge(name, MODULES)
            if target and target != module_name(file):
                yield f"{name_of(file)}:{line}", module_name(file), target


def test_rooms_import_downwards_only() -> None:
    wrong = []
    for where, source, target in arrows():
        rooms = room_of(source), room_of(target)
        faces = source == "replica" or target == "replica"
        if faces or not all(room in ORDER for room in rooms):
            continue
        if ORDER.index(rooms[0]) < ORDER.index(rooms[1]):
            wrong.append(f"{where}: {rooms[0]} imports {target}")
    assert not wrong, "\n".join(wrong)


def test_every_room_of_replica_has_its_place() -> None:
    rooms = {room_of(m) for m in MODULES if m.startswith("replica.")}
    assert rooms <= set(ORDER), sorted(rooms - set(ORDER))


def levels(edges: dict[str, set[str]]) -> int:
    """The length of the longest chain."""
    depth: dict[str, int] = {}
    for node in TopologicalSorter(edges).static_order():
        depth[node] = 1 + max((depth[n] for n in edges.get(node, ())), default=0)
    return max(depth.values())


def test_rooms_stand_on_few_levels() -> None:
    edges: dict[str, set[str]] = {}
    for _, source, target in arrows():
        a, b = room_of(source), room_of(target)
        if a != b and "replica" not in (source, target):
            edges.setdefault(a, set()).add(b)
    inside = {a: {b for b in bs if b in ORDER} for a, bs in edges.items() if a in ORDER}
    assert levels(inside) <= MAX_LEVELS + 2, levels(inside)


def kind_tests(tree: ast.Module) -> list[int]:
    """Lines that ask what kind of model or theory something is."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
            named = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
            named |= {n.attr for n in ast.walk(node.args[1]) if isinstance(n, ast.Attribute)}
            if named & set(KINDS):
                found.append(node.lineno)
        is_type = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "type"
        if is_type and "theory" in ast.unparse(node):
            found.append(node.lineno)
        if isinstance(node, ast.Compare) and getattr(node.left, "attr", "") in ASKED:
            found.append(node.lineno)
    return found


def test_only_theory_of_asks_what_kind_a_model_is() -> None:
    wrong = [
        f"{name_of(file)}:{line}"
        for file, tree in TREES.items()
        for line in kind_tests(tree)
        if module_name(file) != "replica.theories"
    ]
    assert not wrong, wrong


def literals(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Strings that are no docstrings."""
    words = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in words:
            yield node.lineno, node.value


def test_generic_rooms_name_no_model_and_no_overlap() -> None:
    """Single letters and words of the language aside, which mean other things too."""
    names = set(MODELS)
    for spec in MODELS.values():
        built = spec.build()
        names |= {q.name for q in (*built.overlaps, *built.conjugates)}
    names -= {"V", "q", "rho", "scale", "offset", "q_hat"}
    wrong = [
        f"{name_of(file)}:{line} names {text}"
        for file, tree in TREES.items()
        if not module_name(file).startswith(APPLICATIONS)
        for line, text in literals(tree)
        if text in names or any(f" {name} " in f" {text} " for name in names if "-" in name)
    ]
    assert not wrong, "\n".join(wrong)


def private_uses(tree: ast.Module) -> list[tuple[int, str]]:
    """Names with a leading underscore that are not this file's own."""
    kinds = (*FUNCTION, ast.ClassDef)
    own = {n.name for n in ast.walk(tree) if isinstance(n, kinds)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            own.add(node.attr)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            found += [(node.lineno, a.name) for a in node.names if private(a.name)]
        if isinstance(node, ast.Attribute) and private(node.attr) and node.attr not in own:
            holder = getattr(node.value, "id", "")
            if holder not in ("self", "cls"):
                found.append((node.lineno, node.attr))
    return found


def private(name: str) -> bool:
    """``_replace`` of named tuples, ``_print`` of SymPy's printers and ``os._exit`` are public but
    for their names.
    """
    allowed = ("_replace", "_print", "_exit", "_fields")
    return name.startswith("_") and not name.startswith("__") and name not in allowed


def test_no_private_name_is_used_across_files() -> None:
    wrong = [
        f"{name_of(file)}:{line} {name}"
        for file, tree in TREES.items()
        if module_name(file) != "replica"
        for line, name in private_uses(tree)
    ]
    assert not wrong, wrong


def test_functions_are_short() -> None:
    wrong = {
        f"{name_of(file)}:{name}": size
        for file, tree in TREES.items()
        for name, size in function_sizes(tree)
        if size > MAX_FUNCTION
    }
    assert not wrong, f"more than {MAX_FUNCTION} lines: {wrong}"


def test_files_are_ascii() -> None:
    wrong = [
        f"{name_of(file)}:{number}"
        for file in ALL_FILES
        for number, line in enumerate(file.read_bytes().splitlines(), 1)
        if not line.isascii()
    ]
    assert not wrong, wrong


def written_docstring(value: object) -> str:
    """The docstring somebody wrote: not inherited, not the signature that dataclass and NamedTuple
    generate.
    """
    text = (
        value.__dict__.get("__doc__") if isinstance(value, type) else inspect.getdoc(value)
    ) or ""
    return "" if isinstance(value, type) and text.startswith(f"{value.__name__}(") else text.strip()


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_have_docstrings(package: str) -> None:
    module = importlib.import_module(package)
    assert written_docstring(module)
    values = {name: getattr(module, name) for name in module.__all__}
    described = {
        name: value for name, value in values.items() if callable(value) or inspect.ismodule(value)
    }
    assert not [name for name, value in described.items() if not written_docstring(value)]


def undocumented(value: object) -> list[str]:
    """What a public docstring leaves out: parameters of a function and what it returns, fields of a
    class.
    """
    text = inspect.getdoc(value) or ""
    if inspect.isclass(value):
        fields = (
            [f.name for f in dataclasses.fields(value)]
            if dataclasses.is_dataclass(value)
            else getattr(value, "_fields", ())
        )
        return [name for name in fields if not re.search(rf"(?<![.\w]){name}\b", text)]
    signature = inspect.signature(value)  # type: ignore[arg-type]
    missing = [
        name
        for name in signature.parameters
        if not re.search(rf"^[ \w,*]*\b{name}\b[ \w,*]*( :|$)", text, re.MULTILINE)
    ]
    returns = (
        signature.return_annotation in ("None", None, inspect.Signature.empty)
        or "Returns\n---" in text
    )
    return missing if returns else [*missing, "what it returns"]


@pytest.mark.parametrize("package", PACKAGES)
def test_public_docstrings_are_complete(package: str) -> None:
    module = importlib.import_module(package)
    values = {name: inspect.unwrap(getattr(module, name)) for name in module.__all__}
    described = {
        name: v
        for name, v in values.items()
        if getattr(v, "__module__", "").partition(".")[0] in PACKAGES
    }
    wrong = {
        name: gaps
        for name, v in described.items()
        if (inspect.isfunction(v) or inspect.isclass(v)) and (gaps := undocumented(v))
    }
    assert described and not wrong, wrong


def f_without_words(a: int) -> int:
    """Too short."""
    return a


def test_the_rules_catch_what_they_are_for() -> None:
    """Each reader above, on a source that breaks its rule."""
    assert undocumented(f_without_words) == ["a", "what it returns"]
    source = (
        "def f():\n    from ..errors import E\n    import jax\n    try:\n        pass\n   "
        " except:\n        pass\n"
    )
    tree = ast.parse(source)
    assert deferred(tree, "replica.simulate.data", False) == [(2, "replica.errors.E")]
    assert deferred(tree, "replica.simulate", True) == [(2, "replica.errors.E")]
    assert bare_excepts(tree) == [6]
    assert function_sizes(tree) == [("f", 7)]
    assert list(imports(ast.parse("from . import a"), "solvers", True)) == [(1, "solvers.a")]
    assert list(imports(ast.parse("from . import a"), "solvers.c", False)) == [(1, "solvers.a")]
    assert list(imports(ast.parse("from .a import b"), "solvers.c", False)) == [(1, "solvers.a.b")]
    assert edge("solvers.a.b", {"solvers", "solvers.a"}) == "solvers.a"
    assert edge("numpy.linalg", {"solvers"}) == ""
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) is not None
    assert levels({"a": {"b"}, "b": {"c"}}) == 3
    assert kind_tests(ast.parse("isinstance(m.theory, Quadrature)")) == [1]
    assert kind_tests(ast.parse('if theory.diagram == "map":\n    pass')) == [1]
    assert kind_tests(ast.parse("isinstance(a, int)")) == []
    assert list(literals(ast.parse("'''doc'''\nx = 'q_k'"))) == [(2, "q_k")]
    assert private_uses(ast.parse("from .a import _b\nc._d()\nself._e()")) == [(1, "_b"), (2, "_d")]
    assert room_of("replica.theories.base") == "theories" and room_of("replica.errors") == "ground"
    assert (
        room_of("equations.slr.data") == "equations.slr"
        and room_of("equations.model") == "equations"
    )
    assert cycle({"a": {"b"}, "b": {"c"}}) is None
