"""What a user's file imports from its own folder: part of the model, so part of its hash.

Found in the text, before anything is executed: ``import helper`` and ``from . import helper``
anywhere in the file or in what it imports. What a file imports by other means (``importlib``) is
not seen.
"""

from __future__ import annotations

import ast
import hashlib
import os
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path

from ..errors import InputError

Imports = tuple[tuple[str, str], ...]
"""(path from the folder of the file, SHA-256), sorted."""

_LOADED: dict[Path, str] = {}
"""Hashes of files when they were first executed: Python imports a file once."""


def imports_beside(file: str, text: str) -> Imports:
    """The files of a model's folder that it imports, and that these import."""
    main = Path(os.path.abspath(file))
    found: dict[Path, str] = {}
    waiting = [(main, text)]
    while waiting:
        for path in _imported(*waiting.pop(), main.parent):
            if path not in found and path != main:
                content = path.read_bytes()
                found[path] = hashlib.sha256(content).hexdigest()
                waiting.append((path, content.decode("utf-8", "replace")))
    return tuple(sorted((p.relative_to(main.parent).as_posix(), h) for p, h in found.items()))


def check_loaded(file: str, imports: Imports) -> None:
    """Raise InputError if Python would give a model other modules than those of its hash."""
    folder = Path(os.path.abspath(file)).parent
    for name, sha256 in imports:
        path = folder / name
        parts = Path(name).with_suffix("").parts
        dotted = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        there = getattr(sys.modules.get(dotted), "__file__", None)
        if there is not None and Path(os.path.abspath(there)) != path:
            raise InputError(
                f"{file} imports {name} of its folder, but Python has imported {there} by that name"
                " before: rename one of them, or start Python anew"
            )
        if _LOADED.setdefault(path, sha256) != sha256:
            raise InputError(
                f"{path}, which {file} imports, has changed since it was imported: start Python"
                " anew"
            )


def _imported(path: Path, text: str, folder: Path) -> Iterator[Path]:
    """The files of the folder that one file imports."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # executing it says so, with the line
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files(folder, alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = path.parents[node.level - 1] if node.level else folder
            parts = node.module.split(".") if node.module else []
            for alias in node.names:
                yield from _files(base, [*parts, alias.name], inside=bool(node.level))


def _files(base: Path, parts: list[str], inside: bool = False) -> Iterator[Path]:
    """The files that Python executes for a dotted name, as far as they are below ``base``."""
    if not inside and _hidden(base, parts[0]):
        return
    for i in range(1, len(parts) + 1):
        place = base.joinpath(*parts[:i])
        for candidate in (place / "__init__.py", place.with_suffix(".py")):
            if candidate.is_file():
                yield candidate
                break


def _hidden(folder: Path, name: str) -> bool:
    """Whether Python finds the name elsewhere: the folder comes last."""
    if name in sys.stdlib_module_names:
        return True
    spec = PathFinder.find_spec(name)
    origin = spec.origin if spec is not None else None
    return origin is not None and folder not in Path(os.path.abspath(origin)).parents
