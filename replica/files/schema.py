"""What the attributes of a file must be, for the parts of this package that read them.

Other attributes may be anything that can be stored. A dataset is checked when it is saved and when
it is loaded, so that no reader asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

MOST_TEXT = 100_000
"""Characters of an attribute that is printed."""
MOST_ENTRIES = 100_000
"""Of a list or a dict."""


class Rule(NamedTuple):
    """What an attribute must be, in words, and the test."""

    words: str
    holds: Callable[[Any], bool]


def is_text(value: Any) -> bool:
    """Whether it is a text of bounded length."""
    return isinstance(value, str) and len(value) <= MOST_TEXT


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _plain(value: Any) -> bool:
    """A number or a text, or an array of them: a check may be of several settings."""
    return value is None or is_text(value) or isinstance(value, int | float | np.ndarray)


def _list_of(entry: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def holds(value: Any) -> bool:
        return (
            isinstance(value, list | tuple)
            and len(value) <= MOST_ENTRIES
            and all(map(entry, value))
        )

    return holds


def _dict_of(entry: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def holds(value: Any) -> bool:
        return (
            isinstance(value, Mapping)
            and len(value) <= MOST_ENTRIES
            and all(map(is_text, value))
            and all(map(entry, value.values()))
        )

    return holds


def _any(value: Any) -> bool:
    return True


def _valued(value: Any) -> bool:
    """A place on a curve, or that there is none."""
    return _dict_of(_any)(value) and (_number(value.get("value")) or value.get("value", 0) is None)


TEXT = Rule(f"text of at most {MOST_TEXT} characters", is_text)
FLAG = Rule("true or false", lambda value: isinstance(value, bool))
NAMED_TEXTS = Rule("a dict of texts by name", _dict_of(is_text))
NAMED_VALUES = Rule("a dict of numbers and texts by name", _dict_of(_plain))
NAMED = Rule("a dict with names as keys", _dict_of(_any))
ATTRIBUTES = {
    **dict.fromkeys(
        ("model", "title", "command", "created", "kind", "control", "over", "transition"), TEXT
    ),
    **dict.fromkeys(("source_file", "source_sha256", "equations", "algorithm", "verdict"), TEXT),
    **dict.fromkeys(("versions", "failures"), NAMED_TEXTS),
    **dict.fromkeys(("options", "settings", "nodes", "compared", "directions", "optimised"), NAMED),
    "controls": NAMED_VALUES,
    "complete": FLAG,
    "starts": Rule("a dict of dicts", _dict_of(_dict_of(_any))),
    "thresholds": Rule("a dict of places with a value", _dict_of(_valued)),
    "folds": Rule("a list of places with a value", _list_of(_valued)),
    "tricritical": Rule("a list of places", _list_of(_dict_of(_number))),
}
"""Of a dataset. None stands for "not there"."""
OF_VARIABLES = {
    **dict.fromkeys(("latex", "long_name", "units", "description", "scaling"), TEXT),
    "flag_meanings": Rule("a list of texts", lambda v: is_text(v) or _list_of(is_text)(v)),
}
NEEDED = {
    "phase diagram": ("control", "over", "tricritical", "failures"),
    "branch map": ("control", "over", "options"),
    "curve": ("control", "transition", "thresholds", "folds"),
}
"""Attributes without which a kind of file is not one."""


def check(dataset: xr.Dataset) -> None:
    """Raise ValueError, with one sentence, if an attribute is not what it must be."""
    _check("", dataset.attrs, ATTRIBUTES)
    for name, variable in dataset.variables.items():
        _check(f" of {name}", variable.attrs, OF_VARIABLES)
    kind = dataset.attrs.get("kind")
    missing = [name for name in NEEDED.get(str(kind), ()) if dataset.attrs.get(name) is None]
    if missing:
        raise ValueError(f"a {kind} needs the attribute {missing[0]!r}, which is not there")


def _check(whose: str, attrs: Mapping[Any, Any], rules: Mapping[str, Rule]) -> None:
    for name, rule in rules.items():
        value = attrs.get(name)
        if value is not None and not rule.holds(value):
            raise ValueError(f"the attribute {name!r}{whose} is not {rule.words}")


def meanings(variable: xr.DataArray) -> list[str]:
    """The sentences for the codes of a variable, in order; words of one text as other programs
    write them.
    """
    found = variable.attrs.get("flag_meanings") or []
    return found.split() if isinstance(found, str) else list(found)
