"""A case of tests/data/frozen.json: how it is run, and how two results of it are compared.

Shared by ``freeze.py``, which writes the file, and ``test_frozen.py``, which runs every case again.
"""

from __future__ import annotations

import contextlib
import gc
import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
from frozen_calls import CALLS
from frozen_values import dated, plain, text_lines, written

DATA = Path(__file__).resolve().parent / "data"
FILE = DATA / "frozen.json"
INPUTS = ("frozen_models", "schema1")
"""Folders of ``DATA`` that a case finds in its working folder; all paths in a case are relative."""
TOLERANCE = 1e-12
COLUMNS = "120"
"""Width of printed tables."""
MOST_MAPS = 30_000
"""Compiled programs are dropped beyond this number of memory maps; the system allows 65530."""
Command = Callable[..., tuple[int, str, str]]
"""(arguments) -> (exit code, stdout, stderr)."""
Json = Any

DECIMAL = re.compile(r"([-+]?\d+\.\d+(?:e[-+]?\d+)?|[-+]?\d+e[-+]?\d+)")


# running ------------------------------------------------------------------------------------------


def run(case: Mapping[str, Any], command: Command, folder: Path) -> list[Json]:
    """What the case gives: one entry for each of its commands, for its call, and for its files."""
    release()
    for name in INPUTS:
        shutil.copytree(DATA / name, folder / name)
    for name, text in case.get("files", {}).items():
        (folder / name).write_text(text, encoding="utf-8")
    given = set(folder.iterdir())
    # As a user has it: the tests of this folder switch 64 bits on, which hides what forgets to.
    with contextlib.chdir(folder), jax.enable_x64(False):
        result = [_said(line, command) for line in case.get("commands", ())]
        if "call" in case:
            result.append({"call": case["call"], "result": plain(CALLS[case["call"]]())})
    new = sorted(set(folder.iterdir()) - given)
    result.extend(written(path) for path in new if path.suffix in (".h5", ".csv"))
    return result


def release() -> None:
    """Drop compiled programs before the system runs out of memory maps."""
    maps = Path("/proc/self/maps")
    if maps.exists() and len(maps.read_bytes().splitlines()) > MOST_MAPS:
        jax.clear_caches()
        gc.collect()


def _said(line: str, command: Command) -> Json:
    """One command: JSON as such, other text as its lines; of stderr our own sentences."""
    try:
        code, out, err = command(*shlex.split(line))
    except Exception as error:  # a mistake of the package, which is frozen too
        return {"command": line, "raised": f"{type(error).__name__}: {error}"}
    for name, path in (("FOLDER", Path.cwd()), ("ROOT", DATA.parents[1])):
        out, err = out.replace(str(path), name), err.replace(str(path), name)
    stored = "schema1/" in line  # dates and versions in there are those of the file
    sentences = [
        text
        for text in err.splitlines()
        # That something is compiled is said on slow machines only.
        if text.startswith("replica: ") and not text.startswith("replica: compiling ")
    ]
    entry: dict[str, Json] = {"command": line, "code": code}
    if sentences:
        entry["err"] = [re.sub(r"about [\d.]+ s$", "about ? s", text) for text in sentences]
    try:
        found = json.loads(out)
    except json.JSONDecodeError:
        return entry | {"out": text_lines(out, undated=not stored)}
    return entry | {"json": plain(found if stored else dated(found))}


# comparing ----------------------------------------------------------------------------------------


def differences(found: Json, frozen: Json, loose: Mapping[str, Any] | None = None) -> list[str]:
    """Every leaf that differs, with its path; ``loose`` has a tolerance and a reason by path."""
    return list(_differences(found, frozen, "", loose or {}))


def _differences(found: Json, frozen: Json, path: str, loose: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(frozen, dict) and isinstance(found, dict):
        for key in sorted({*frozen, *found}):
            here = f"{path}.{key}"
            if key not in found or key not in frozen:
                yield f"{here}: {'gone' if key not in found else 'new'}"
            else:
                yield from _differences(found[key], frozen[key], here, loose)
    elif isinstance(frozen, list) and isinstance(found, list):
        if len(found) != len(frozen):
            yield f"{path}: {len(found)} entries, frozen {len(frozen)}"
        for i, (mine, theirs) in enumerate(zip(found, frozen, strict=False)):
            yield from _differences(mine, theirs, f"{path}[{i}]", loose)
    elif not _equal(found, frozen, _tolerance(path, loose)):
        yield f"{path}: {found!r}, frozen {frozen!r}"


def _tolerance(path: str, loose: Mapping[str, Any]) -> float:
    for pattern, (tolerance, _) in loose.items():
        if re.fullmatch(pattern, path):
            return tolerance
    return TOLERANCE


def _equal(found: Json, frozen: Json, tolerance: float) -> bool:
    """Floating-point numbers to ``tolerance``, also inside a text; the rest exactly."""
    if type(found) is not type(frozen):
        return False
    if isinstance(frozen, float):
        return abs(found - frozen) <= tolerance * max(1.0, abs(frozen))
    if isinstance(frozen, str) and found != frozen:
        return _same_text(found, frozen, tolerance)
    return found == frozen


def _same_text(found: str, frozen: str, tolerance: float) -> bool:
    mine, theirs = DECIMAL.split(found), DECIMAL.split(frozen)
    if mine[::2] != theirs[::2]:
        return False
    pairs = zip(mine[1::2], theirs[1::2], strict=True)
    return all(_equal(float(a), float(b), tolerance) for a, b in pairs)
