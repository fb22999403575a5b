"""Programs as they were before they were compiled, kept on disk: a later process takes them from
there and neither derives equations nor traces functions.

    <cache folder>/exported/<digest of the name, the sources of this package, the versions>

An entry is one line, the digest of what follows, and the program as ``jax.export`` writes it (the
compiled one is kept by JAX). An entry that is damaged, or of another version of JAX, is as if there
were none. A program whose operations JAX does not promise to keep is not exported.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
from jax import export

from .kept import cache_folder, kept_in

PACKAGES = ("equations", "solvers", "replica")
LIBRARIES = ("jax", "jaxlib", "sympy", "numpy", "scipy", "optimistix", "diffrax")

_log = logging.getLogger("replica")


def exported(
    name: str, flat: Callable[..., Any], leaves: Sequence[Any]
) -> Callable[..., Any] | None:
    """A program by its name, from disk if it is there, else traced and put there.

    Parameters
    ----------
    name : str
        All that distinguishes it from other programs of the same sources and versions, the shapes
        of its arguments among it.
    flat : callable
        The function, of arrays, which returns a list of arrays.
    leaves : sequence of arrays
        Arguments to trace it with, if it is not kept yet.

    Returns
    -------
    callable or None
        A function of the same arrays, which can be traced; None where programs are not kept, or
        this one cannot be.
    """
    root = cache_folder()
    if root is None or not kept_in():
        return None
    file = root / "exported" / _digest(name, jax.default_backend(), _surroundings())
    found = _read(file)
    if found is not None:
        return found.call
    try:
        made = export.export(jax.jit(flat))(*leaves)
    except (ValueError, NotImplementedError) as problem:  # JAX does not promise to keep it
        _log.debug("a program is not exported (%s)", problem)
        return None
    write(file, made.serialize())
    return made.call


def _read(file: Path) -> export.Exported | None:
    """The program of an entry, None if there is none that is whole."""
    try:
        digest, _, content = file.read_bytes().partition(b"\n")
    except OSError:
        return None
    if hashlib.sha256(content).hexdigest().encode() != digest:
        return None
    try:
        return export.deserialize(bytearray(content))
    except Exception as problem:  # whole, but not of this JAX, which says so in many ways
        _log.debug("an exported program is made anew (%s)", problem)
        return None


def write(file: Path, content: bytes | bytearray) -> None:
    """Put an entry in place at once; a folder that cannot be written to is no error."""
    part = file.with_name(f"{file.name}-{secrets.token_hex(8)}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
        part.replace(file)
    except OSError as problem:
        _log.debug("an exported program is not kept (%s)", problem)
        with suppress(OSError):  # a full disk leaves a part of it
            part.unlink(missing_ok=True)


@cache
def _surroundings() -> str:
    """The sources of this package and the versions of what it uses, as a digest."""
    content = hashlib.sha256()
    for package in PACKAGES:
        spec = find_spec(package)
        assert spec is not None and spec.origin is not None
        folder = Path(spec.origin).parent
        for file in sorted(folder.rglob("*.py")):
            text = file.read_bytes()
            content.update(f"{file.relative_to(folder).as_posix()} {len(text)}\n".encode() + text)
    return _digest(content.hexdigest(), *(f"{name} {version(name)}" for name in LIBRARIES))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
