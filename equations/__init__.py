"""Physics as data: models, their free energies, and the equations derived from them
(SymPy only).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .calculus.averages import Average, LineIntegral, MellinIntegral, TokenAverage, by_parts
from .calculus.special_functions import (
    Logistic,
    LogNdtr,
    LogSumExp,
    Rounded,
    Softplus,
    Width,
    stabilise,
)
from .glm.bayes_optimal import bayes_glm
from .glm.convex_erm import convex_erm
from .glm.densities import X, Y, Z, normal
from .model import Model, ModelError, Source
from .models import (
    perceptron_bayes,
    slr_bayes,
    slr_erm,
    slr_flow,
    slr_population,
    spiked_wigner,
    subspace,
)
from .quantities import Quantity, conjugate, quantity
from .saddle_point import derive, jacobian

__all__ = [
    "MODELS",
    "Average",
    "LineIntegral",
    "LogNdtr",
    "LogSumExp",
    "Logistic",
    "MellinIntegral",
    "Model",
    "ModelError",
    "ModelFamily",
    "Quantity",
    "Rounded",
    "Softplus",
    "Source",
    "TokenAverage",
    "Width",
    "X",
    "Y",
    "Z",
    "bayes_glm",
    "by_parts",
    "conjugate",
    "convex_erm",
    "derive",
    "jacobian",
    "normal",
    "quantity",
    "stabilise",
]


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
    free : dict of name -> callable
        Readers of options of free form: value -> canonical text, None if the value is an ordinary
        one (a name listed in ``options``, a number for the control of that name), ValueError if it
        makes no sense.
    """

    build: Callable[..., Model]
    options: Mapping[str, tuple[str, ...]]
    docstring: str
    free: Mapping[str, Callable[[Any], str | None]] = field(default_factory=dict)


def _family(module: object) -> ModelSpec:
    return ModelSpec(
        module.build, module.OPTIONS, module.__doc__ or "", getattr(module, "FREE", {})
    )  # type: ignore[attr-defined]


MODELS: dict[str, ModelSpec] = {
    "perceptron-bayes": _family(perceptron_bayes),
    "slr-bayes": _family(slr_bayes),
    "slr-erm": _family(slr_erm),
    "slr-flow": _family(slr_flow),
    "slr-population": _family(slr_population),
    "spiked-wigner": _family(spiked_wigner),
    "subspace": _family(subspace),
}
