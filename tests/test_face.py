"""``replica`` is all that users import: the notebooks, the documentation, the benchmarks and the
models of the tests use nothing else, and files written for earlier names still work or say what the
name is now.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import replica

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("replica", "equations", "solvers")
INNER = {
    "benchmarks/erm.py": "compares the solver's route with slower ones that nobody should use",
    "benchmarks/newton.py": "times the steps of one minimisation, which nobody calls by themselves",
    "benchmarks/special.py": "times single functions beside those of JAX",
    "benchmarks/subspace.py": "runs the simulation with the steps of a table, not those of a check",
}
"""Files that look inside, and why."""


def scripts() -> Iterator[tuple[str, str]]:
    """(name, text) of everything that is written as users write."""
    for pattern in ("benchmarks/*.py", "tests/data/models/*.py", "docs/conf.py"):
        for file in sorted(ROOT.glob(pattern)):
            yield str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")
    for file in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        blocks = re.findall(r"```python\n(.*?)```", file.read_text(encoding="utf-8"), re.DOTALL)
        for number, block in enumerate(blocks, 1):
            yield f"{file.relative_to(ROOT)}, block {number}", block
    for file in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
        for number, cell in enumerate(cells):
            if cell["cell_type"] == "code":
                yield f"{file.relative_to(ROOT)}, cell {number}", "".join(cell["source"])


def texts_of_models(tree: ast.AST) -> Iterator[ast.AST]:
    """The syntax trees of strings that are Python files, such as a model that a notebook writes."""
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and re.search(r"^from \w[\w.]* import ", text, re.MULTILINE):
            yield ast.parse(text)


def dotted(node: ast.AST) -> str:
    """``a.b.c`` of nested attributes of a name, or nothing."""
    if isinstance(node, ast.Name):
        return node.id
    inner = dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{inner}.{node.attr}" if inner else ""


def used(tree: ast.AST) -> set[str]:
    """Dotted names of the packages that a script imports, or reads as attributes of ``replica``."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute):
            found.add(dotted(node))
    return {name for name in found if name.partition(".")[0] in PACKAGES}


def is_public(name: str) -> bool:
    """Whether a dotted name is in ``replica``, or in a room that ``replica`` lists."""
    first, *rest = name.split(".")
    if first != "replica":
        return False
    here = replica
    for part in rest:
        if not inspect.ismodule(here):
            return True  # an attribute of an object, such as replica.Status.SUCCESSFUL
        if part not in names_of(here):
            return False
        here = getattr(here, part)
    return True


def names_of(module: ModuleType) -> list[str]:
    """What a module lists, or else what it defines without an underscore."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    values = vars(module).items()
    return [
        name
        for name, value in values
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]


def test_only_the_face_is_used() -> None:
    wrong, looked_at = [], 0
    for name, text in scripts():
        if name in INNER:
            continue
        tree = ast.parse(text, name)
        for part in (tree, *texts_of_models(tree)):
            names = used(part)
            looked_at += len(names)
            wrong += [f"{name}: {n}" for n in sorted(names) if not is_public(n)]
    assert looked_at > 100
    assert not wrong, "\n".join(wrong)


def test_what_looks_inside_exists_and_does() -> None:
    """An exception that is no longer needed is taken off the list."""
    texts = dict(scripts())
    for name in INNER:
        assert not all(is_public(n) for n in used(ast.parse(texts[name]))), name


def test_the_reader_sees_what_it_is_for() -> None:
    source = (
        "import replica\nfrom replica.theories import x\nfrom equations import X\n"
        "replica.dynamics.recovery.trajectory(replica.Status.SUCCESSFUL)\nreplica.nothing\n"
        "text = '''\nfrom solvers.ode import y\n'''\n"
    )
    tree = ast.parse(source)
    names = used(tree)
    assert {name for name in names if not is_public(name)} == {
        "replica.theories.x",
        "equations.X",
        "replica.nothing",
    }
    assert "replica.dynamics.recovery" in names
    (model,) = texts_of_models(tree)
    assert used(model) == {"solvers.ode.y"}


def test_rooms_name_what_they_hold() -> None:
    rooms = [getattr(replica, name) for name in replica.__all__]
    for room in filter(inspect.ismodule, rooms):
        assert names_of(room) and room.__doc__
        assert not [name for name in names_of(room) if not hasattr(room, name)]


def test_all_of_the_physics_is_in_the_face() -> None:
    inner = {"ModelSpec", "Source"}  # how files of models are read
    assert set(replica.equations.__all__) - set(replica.__all__) == inner


def test_functions_stand_before_the_modules_of_their_names() -> None:
    assert all(callable(getattr(replica, name)) for name in ("check", "plot", "show", "solve"))


def test_show_is_a_function_of_a_name_and_options() -> None:
    text = replica.show("slr-population", activation="erf", L=2)
    assert text.startswith("slr-population: ") and "activation = erf" in text
    assert replica.show("spiked-wigner", latex=True).startswith("\\documentclass")
    page = replica.show("spiked-wigner", markdown=True)
    assert page.startswith("# spiked-wigner") and "```{math}" in page
    with pytest.raises(replica.InputError, match="two formats"):
        replica.show("spiked-wigner", latex=True, markdown=True)
    with pytest.raises(replica.InputError, match="no control 'activation'"):
        replica.show("spiked-wigner", activation="erf")


# earlier names ------------------------------------------------------------------------------------

EARLIER = '''"""A sparse signal."""

from sympy import DiracDelta

from equations import Quantity, X, Y, Z, bayes_glm, normal, quantity

rho = Quantity("rho", r"\\rho", 0, 1, open_low=True, open_high=True, information=-1)
Delta = quantity("Delta", open_low=True)


def build():
    return bayes_glm(
        prior=(1 - rho.symbol) * DiracDelta(X) + rho.symbol * normal(X),
        channel=normal(Y, Z, Delta.symbol),
        controls=(rho, Delta),
        name="earlier",
    )
'''
EARLIER_LOSS = """
from sympy import Eq, Heaviside, sign
from equations import Y, Z, convex_erm


def build():
    return convex_erm((Y - Z) ** 2 / 2, teacher=Eq(Y, sign(Z)), risk=Heaviside(-Y * Z), name="b")
"""
EARLIER_FREE_ENERGY = """
from sympy import log
from equations import Average, LogNdtr, Model, Rounded, Softplus, Width, conjugate, quantity

alpha, q = quantity("alpha"), quantity("q")
q_hat = conjugate(q)


def build():
    return Model(
        name="c",
        title="",
        setting="",
        overlaps=(q,),
        conjugates=(q_hat,),
        controls=(alpha,),
        prior=q_hat.symbol - log(1 + q_hat.symbol),
        coupling=-q.symbol * q_hat.symbol,
        channel=-alpha.symbol * log(Width(1 - q.symbol)) / 2,
        observables={"risk": 1 - q.symbol},
        starts={"uninformed": {"q": 1e-3}, "informed": {"q": 0.95}},
        sources=(),
    )
"""


@pytest.mark.parametrize(
    ("text", "derived"),
    [(EARLIER, "V = "), (EARLIER_LOSS, "m = "), (EARLIER_FREE_ENERGY, "q_hat = ")],
    ids=["bayes_glm", "convex_erm", "Model"],
)
def test_a_file_that_imports_equations_still_works(tmp_path: Path, text: str, derived: str) -> None:
    file = tmp_path / "earlier.py"
    file.write_text(text, encoding="ascii")
    assert derived in replica.show(str(file))


def test_a_renamed_name_says_what_it_is_now() -> None:
    with pytest.raises(
        AttributeError, match=r"replica\.Rule has another name now: write NodeSizes"
    ):
        replica.Rule  # noqa: B018
    with pytest.raises(AttributeError, match="module 'replica' has no attribute 'nothing'"):
        replica.nothing  # noqa: B018
    assert not hasattr(replica, "Rule") and "Rule" not in replica.__all__


def test_a_renamed_name_does_so_in_a_fresh_interpreter() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", "import replica; replica.recovery"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 1
    assert ran.stderr.strip().endswith(
        "AttributeError: replica.recovery has another name now: write replica.dynamics.recovery"
    )
