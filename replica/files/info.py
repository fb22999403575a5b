"""What is in a stored file, and what made it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from . import reading, schema

NO_COMMAND = "made from Python, which leaves no command"


def describe(path: Path) -> dict[str, Any]:
    """Everything ``replica info`` prints, as JSON-like values.

    Returns
    -------
    dict
        file, kind, model, title, command (the exact shell command, None if made from Python),
        complete, created, digests (how far the file is known to be what was written), versions,
        options, controls, settings, axes (name -> values), statuses (sentence -> number of points),
        variables (name -> dims, range, ...).
    """
    stored = reading.read(path)
    reading.check_whole(path, stored)
    dataset = stored.dataset
    known = {name: value for name, value in dataset.attrs.items() if value is not None}
    return {
        "file": str(path),
        "kind": known.get("kind") or ("sweep" if set(dataset.dims) - {"branch"} else "solution"),
        "model": known.get("model"),
        "title": known.get("title"),
        "command": known.get("command"),
        "complete": bool(known.get("complete", True)),
        "created": known.get("created"),
        "digests": stored.integrity,
        "versions": dict(known.get("versions", {})),
        "options": _for_json(known.get("options", {})),
        "controls": _for_json(known.get("controls", {})),
        "settings": _for_json(known.get("settings", {})),
        "axes": {
            str(name): _axis_values(dataset[name].values)
            for name in dataset.dims
            if name in dataset.coords
        },
        "statuses": statuses(dataset),
        "variables": {str(name): _variable(dataset, str(name)) for name in dataset.data_vars},
    }


def statuses(dataset: xr.Dataset) -> dict[str, int]:
    """How many points ended in which way."""
    if "status" not in dataset:
        return {}
    meanings = schema.meanings(dataset["status"])
    codes, counts = np.unique(dataset["status"].values, return_counts=True)
    found = {}
    for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
        known = isinstance(code, int) and 0 <= code < len(meanings)
        found[meanings[code] if known else f"status {code}"] = count
    return found


def _axis_values(values: np.ndarray) -> list[Any]:
    """Values of an axis for JSON."""
    return [_for_json(value) for value in np.ravel(values).tolist()]


def _for_json(value: Any) -> Any:
    """The same with inf as a word, which JSON does not have, and arrays as lists."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(k): _for_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_for_json(v) for v in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _variable(dataset: xr.Dataset, name: str) -> dict[str, Any]:
    variable = dataset[name]
    entry: dict[str, Any] = {
        "dims": list(variable.dims),
        "units": variable.attrs.get("units"),
        "meaning": variable.attrs.get("long_name"),
    }
    if variable.dtype.kind not in "iuf":
        return entry
    finite = variable.values[np.isfinite(variable.values)]
    entry |= (
        {"smallest": finite.min().item(), "largest": finite.max().item()} if finite.size else {}
    )
    return entry | {"without_value": int(variable.size - finite.size)}


def text(found: Mapping[str, Any]) -> str:
    """The same for people."""
    made = f"replica-solver {found['versions'].get('replica-solver', 'unknown')}"
    others = ", ".join(f"{k} {v}" for k, v in found["versions"].items() if k != "replica-solver")
    rows = [
        (
            "model",
            " ".join(
                f"{part}"
                for part in (found["model"], f"({found['title']})" if found["title"] else None)
                if part
            ),
        ),
        ("command", found["command"] or NO_COMMAND),
        ("made", f"{found['created']}, {made} ({others})" if found["created"] else made),
        ("options", _pairs(found["options"])),
        ("controls", _pairs(found["controls"])),
        ("settings", _pairs(found["settings"])),
        ("digests", found["digests"]),
        *((f"axis {name}", _axis(values)) for name, values in found["axes"].items()),
        *(("status", f"{count} x {sentence}") for sentence, count in found["statuses"].items()),
    ]
    head = f"{found['file']}: {found['kind']}" + (
        "" if found["complete"] else ", unfinished: continue it with --resume"
    )
    lines = [head, *(f"  {label:<16}{value}" for label, value in rows if value), "  variables"]
    return "\n".join([*lines, *_ranges(found["variables"])])


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{k} = {v:g}" if isinstance(v, float) else f"{k} = {str(v)[:200]}"
        for k, v in values.items()
    )


def _axis(values: list[Any]) -> str:
    if values and all(isinstance(v, int | float) for v in values) and len(values) > 3:
        return f"{values[0]:g} .. {values[-1]:g} ({len(values)} values)"
    return ", ".join(map(str, values))


def _ranges(variables: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """One line for each variable, its largest error estimate at the end rather than on a line of
    its own.
    """
    lines = []
    for name, entry in variables.items():
        if name.replace("error_", "", 1) in variables and "error_" in name:
            continue
        prefix, bare = ("theory_", name[7:]) if name.startswith("theory_") else ("", name)
        error = variables.get(f"{prefix}error_{bare}", {}).get("largest")
        lines.append(
            f"    {name:<30} {_range(entry)}"
            + (f", error <= {error:.1e}" if error is not None else "")
        )
    return lines


def _range(entry: Mapping[str, Any]) -> str:
    size = f"({', '.join(entry['dims'])})"
    span = f" {entry['smallest']:.6g} .. {entry['largest']:.6g}" if "smallest" in entry else ""
    missing = f", {entry['without_value']} without a value" if entry.get("without_value") else ""
    return f"{size:<22}{span}{missing}"
