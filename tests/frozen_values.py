"""Results as JSON that strict readers read, without what differs from run to run."""

from __future__ import annotations

import csv
import hashlib
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import replica

Json = Any
VOLATILE = ("created", "versions")
"""What differs from run to run, or from machine to machine."""
LONG = 32
"""Of an axis with more entries about 16 to 32 are stored, beside the sum over all."""
LONG_LINE = 300
"""Of a line of text with more characters the beginning and the SHA-256 are stored."""


def plain(value: Any) -> Json:
    """The same for JSON: numbers that are not finite become text."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str):
        return _shortened(value)
    return value if value is None or isinstance(value, bool | int | float) else repr(value)


def dated(value: Json) -> Json:
    """The same without dates and versions."""
    if isinstance(value, dict):
        return {k: dated(v) for k, v in value.items() if k not in VOLATILE}
    return value


def text_lines(text: str, undated: bool) -> list[str]:
    """Printed text; ``undated``: without the line of ``replica info`` with date and versions."""
    rows = [row.rstrip() for row in text.rstrip("\n").split("\n")] if text else []
    if undated:
        rows = [re.sub(r"^  made  .*", "  made ?", row) for row in rows]
    return [_shortened(row) for row in rows]


def _shortened(row: str) -> str:
    if len(row) <= LONG_LINE:
        return row
    digest = hashlib.sha256(row.encode()).hexdigest()
    return f"{row[:200]}... ({len(row)} characters, sha256 {digest})"


# files --------------------------------------------------------------------------------------------


def written(path: Path) -> Json:
    """A file that a case wrote."""
    if path.suffix == ".h5":
        return {"file": path.name, "dataset": dataset(replica.load(path))}
    with path.open(newline="", encoding="utf-8") as stream:
        header, *rows = csv.reader(stream)
    columns = zip(*rows, strict=True) if rows else [()] * len(header)
    table = {name: _column(entries) for name, entries in zip(header, columns, strict=True)}
    return {"file": path.name, "rows": len(rows), "columns": table}


def _column(entries: tuple[str, ...]) -> list[Json]:
    return [_number(text) for text in thinned(np.array(entries, dtype=object))]


def _number(text: str) -> Json:
    """A CSV entry: a whole number, a finite one, or the text that it is."""
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    try:
        value = float(text)
    except ValueError:
        return text
    return value if math.isfinite(value) else text


def dataset(found: Any) -> Json:
    """A dataset: attributes, coordinates and variables with theirs."""
    coords = {str(name): _variable(found[name]) for name in found.coords}
    variables = {str(name): _variable(found[name]) for name in found.data_vars}
    return plain({"attrs": dated(dict(found.attrs)), "coords": coords, "variables": variables})


def _variable(variable: Any) -> dict[str, Any]:
    values = np.asarray(variable.values)
    entry: dict[str, Any] = {"dims": list(variable.dims), "dtype": str(values.dtype)}
    if variable.attrs:
        entry["attrs"] = {k: _joined(v) for k, v in variable.attrs.items()}
    if any(size > LONG for size in values.shape):
        entry["shape"] = list(values.shape)
        if values.dtype.kind in "iuf":
            entry["sum"] = np.where(np.isfinite(values), values, 0).sum()
    return entry | {"values": thinned(values)}


def _joined(value: Any) -> Any:
    """A list of sentences as one text, which is shortened."""
    words = isinstance(value, list | tuple) and all(isinstance(v, str) for v in value)
    return " | ".join(value) if words else value


def thinned(values: np.ndarray) -> np.ndarray:
    """Every so many entries of each long axis, the first one always."""
    steps = [1 if size <= LONG else math.ceil(2 * size / LONG) for size in values.shape]
    return values[tuple(slice(None, None, step) for step in steps)]
