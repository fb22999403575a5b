"""From what a user typed to a model and numbers: names, ranges, nearest names, one sentence per
mistake.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from equations import MODELS, Model, ModelSpec, Quantity, Source

from ..errors import InputError
from ..inputs import nearest
from . import own_model
from .values import number


def family(name: str) -> ModelSpec:
    """The model of a name, or in a file of the user's own whose path ends in .py."""
    if own_model.is_file(name):
        return own_model.family(name)
    if name not in MODELS:
        raise InputError(
            f"unknown model {name!r}: {nearest(name, MODELS)} (a model of your own is a file: give"
            " its path, which ends in .py)"
        )
    return MODELS[name]


def of_source(source: Source, options: tuple[tuple[str, str], ...]) -> Model:
    """A user's own model from the text of its file."""
    return _built(own_model.from_source(source), options)


@cache
def _built(family: ModelSpec, options: tuple[tuple[str, str], ...]) -> Model:
    try:
        return family.build(**dict(options))
    except ValueError as problem:  # options that contradict each other
        raise InputError(str(problem)) from None


def _options(name: str, family: ModelSpec, settings: dict[str, Any]) -> dict[str, str]:
    """The options among ``settings``, taken out of them."""
    options: dict[str, str] = {}
    for key in (*family.parsers, *family.options):
        if key not in settings or key in options:
            continue
        try:
            text = family.parsers[key](settings[key]) if key in family.parsers else None
        except ValueError as problem:
            raise InputError(str(problem)) from None
        if text is not None:
            options[key] = text
            del settings[key]
        elif key in family.options:
            options[key] = _choice(name, family, key, settings.pop(key))
    return options


def _choice(name: str, family: ModelSpec, key: str, value: Any) -> str:
    text, allowed = (
        str(value).lower() if isinstance(value, bool) else str(value),
        family.options[key],
    )
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


def resolve(
    model: str | Model, settings: Mapping[str, Any], *, partial: Iterable[str] = ()
) -> tuple[Model, dict[str, float]]:
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
        Unknown model, option or control (with the nearest name), a missing or an out-of-range
        value.
    """
    model, settings = built(model, settings)
    controls = {q.name: q for q in model.controls}
    known = [*controls, *model.options]
    for name in settings:
        if name not in controls:
            raise InputError(f"{model.name} has no control {name!r}: {nearest(name, known)}")
    missing = [
        n
        for n, q in controls.items()
        if n not in settings and q.default is None and not q.optional and n not in set(partial)
    ]
    if missing:
        raise InputError(
            f"{model.name} needs {', '.join(missing)}: give it with --set {missing[0]}=VALUE"
        )
    return model, {
        n: number(q, settings.get(n, q.default))
        for n, q in controls.items()
        if n in settings or q.default is not None
    }


def name_of(model: str | Model) -> str:
    """What a model is called by who asks for it: its name, or its file."""
    return model.name if isinstance(model, Model) else str(model)


def control_of(model: Model, name: str) -> Quantity:
    """The control of this name, or an InputError that says which there are."""
    known = {q.name: q for q in model.controls}
    if name not in known:
        raise InputError(f"{model.name} has no control {name!r}: {nearest(name, known)}")
    return known[name]
