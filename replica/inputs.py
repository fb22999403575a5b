"""What a user typed as names and pairs: nearest names, one sentence per mistake. (Numbers are in
models/values.py, which needs SymPy.)
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from typing import Any

from .errors import InputError


def nearest(name: str, known: Iterable[str]) -> str:
    """``(did you mean X?)`` or the list of what there is."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"


def assignments(pairs: Iterable[str], what: str = "--set") -> dict[str, str]:
    """``name=value`` strings as a dict."""
    result: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise InputError(f"cannot read {what} {pair!r}: write name=value")
        if name.strip() in result:
            raise InputError(f"{what} {name.strip()} is given twice: give it once")
        result[name.strip()] = value.strip()
    return result


def printable(controls: Mapping[str, float]) -> dict[str, float | str]:
    """Control values for JSON, which has no inf."""
    return {k: v if math.isfinite(v) else str(v) for k, v in controls.items()}


def json_safe(value: Any) -> Any:
    """The same with null for NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {k: json_safe(v) for k, v in value.items()}
    if isinstance(value, list):
        return [json_safe(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
