"""From what a user typed to a model and numbers: names, ranges, nearest names, one sentence per mistake."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from equations import MODELS, Model, ModelFamily, Quantity, Source
from equations.lengths import is_law

from . import own_model
from .errors import InputError


def nearest(name: str, known: Iterable[str]) -> str:
    """``(did you mean X?)`` or the list of what there is."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"


def family(name: str) -> ModelFamily:
    """The model of a name, or in a file of the user's own whose path ends in .py."""
    if own_model.is_file(name):
        return own_model.family(name)
    if name not in MODELS:
        raise InputError(f"unknown model {name!r}: {nearest(name, MODELS)} (a model of your own is a file: give its path, which ends in .py)")
    return MODELS[name]


def of_source(source: Source, options: tuple[tuple[str, str], ...]) -> Model:
    """A user's own model from the text of its file."""
    return _built(own_model.from_source(source), options)


@cache
def _built(family: ModelFamily, options: tuple[tuple[str, str], ...]) -> Model:
    try:
        return family.build(**dict(options))
    except ValueError as problem:  # options that contradict each other
        raise InputError(str(problem)) from None


def _options(name: str, family: ModelFamily, settings: dict[str, Any]) -> dict[str, str]:
    """The options among ``settings``, taken out of them."""
    options: dict[str, str] = {}
    for key in (*family.free, *family.options):
        if key not in settings or key in options:
            continue
        try:
            text = family.free[key](settings[key]) if key in family.free else None
        except ValueError as problem:
            raise InputError(str(problem)) from None
        if text is not None:
            options[key] = text
            del settings[key]
        elif key in family.options:
            options[key] = _choice(name, family, key, settings.pop(key))
    return options


def _choice(name: str, family: ModelFamily, key: str, value: Any) -> str:
    text, allowed = str(value).lower() if isinstance(value, bool) else str(value), family.options[key]
    if text not in allowed:
        raise InputError(f"{name} has no {key} {text!r}: {nearest(text, allowed)}")
    return text


def built(model: str | Model, settings: Mapping[str, Any]) -> tuple[Model, dict[str, Any]]:
    """The model with its options, and the settings that are left for its controls."""
    settings = dict(settings)
    if isinstance(model, Model):
        return model, settings
    known = family(model)
    return _built(known, tuple(sorted(_options(model, known, settings).items()))), settings


def resolve(model: str | Model, settings: Mapping[str, Any], *, partial: Iterable[str] = ()) -> tuple[Model, dict[str, float]]:
    """The model and its checked control values.

    Parameters
    ----------
    model : str or Model
        A registered name, the path of a file with a model of your own, or a model.
    settings : mapping
        Controls and options by name; values may be strings.
    partial : names
        Controls that are given elsewhere (swept) and need no value here.

    Raises
    ------
    InputError
        Unknown model, option or control (with the nearest name), a missing or an out-of-range value.
    """
    model, settings = built(model, settings)
    controls = {q.name: q for q in model.controls}
    known = [*controls, *model.options]
    for name in settings:
        if name not in controls:
            raise InputError(f"{model.name} has no control {name!r}: {nearest(name, known)}")
    missing = [n for n, q in controls.items() if n not in settings and q.default is None and not q.optional and n not in set(partial)]
    if missing:
        raise InputError(f"{model.name} needs {', '.join(missing)}: give it with --set {missing[0]}=VALUE")
    return model, {n: number(q, settings.get(n, q.default)) for n, q in controls.items() if n in settings or q.default is not None}


def number(quantity: Quantity, value: Any) -> float:
    """A value of ``quantity`` as a float inside its range."""
    if is_law(value):
        raise InputError(f"{quantity.name} = {value} is a law: this model takes one number for {quantity.name}")
    try:
        result = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{quantity.name} = {value!r} is not a number") from None
    if not math.isfinite(result) and not (quantity.infinite and result == math.inf):
        raise InputError(f"{quantity.name} = {value} is not finite: it must be {quantity.range_text()}")
    if not quantity.contains(result):
        hint = f" ({quantity.outside})" if quantity.outside else ""
        raise InputError(f"{quantity.name} = {result:g} is out of range: it must be {quantity.range_text()}{hint}")
    return result


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
