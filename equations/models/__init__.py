"""One file a model, found by scanning this folder.

A file of a model has ``build``, which returns it, ``OPTIONS`` (what each option may be, the default
first), if it has options of free form ``PARSERS``, if it takes seconds to build ``LISTED`` (its
title and controls), and says in its docstring what it is. Its name is that of the file with
hyphens.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..model import Model
from ..quantities import Quantity


@dataclass(frozen=True, eq=False)
class ModelSpec:
    """A model and the options it is built with.

    Attributes
    ----------
    build : callable
        Options -> Model.
    options : dict of name -> tuple of str
        What each option may be; the first one is the default.
    docstring : str
        What the model's file says of it.
    parsers : dict of name -> callable
        Readers of options of free form: value -> canonical text, None if the value is an ordinary
        one (a name listed in ``options``, a number for the control of that name), ValueError if it
        makes no sense.
    listed : tuple of str and quantities, optional
        The title and the controls with the default options, where building the model for them takes
        seconds.
    """

    build: Callable[..., Model]
    options: Mapping[str, tuple[str, ...]]
    docstring: str
    parsers: Mapping[str, Callable[[Any], str | None]] = field(default_factory=dict)
    listed: tuple[str, tuple[Quantity, ...]] | None = None

    def listing(self) -> tuple[str, tuple[Quantity, ...]]:
        """The title and the controls with the default options."""
        if self.listed is not None:
            return self.listed
        model = self.build()
        return model.title, model.controls


def spec_of(module: Any) -> ModelSpec:
    """What a model's module declares."""
    return ModelSpec(
        module.build,
        module.OPTIONS,
        module.__doc__ or "",
        getattr(module, "PARSERS", {}),
        getattr(module, "LISTED", None),
    )


def _scanned() -> dict[str, ModelSpec]:
    names = sorted(found.name for found in pkgutil.iter_modules(__path__))
    modules = {name: importlib.import_module(f"{__name__}.{name}") for name in names}
    return {name.replace("_", "-"): spec_of(module) for name, module in modules.items()}


MODELS: dict[str, ModelSpec] = _scanned()
