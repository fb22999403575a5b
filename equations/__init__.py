"""Physics as data: models, their free energies, and the equations derived from them (SymPy only)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import perceptron_bayes, slr_bayes, slr_erm, slr_population, spiked_wigner, subspace
from .ansatz import Model, ModelError, Source, derive, jacobian
from .bayes_glm import bayes_glm
from .convex_erm import convex_erm
from .densities import X, Y, Z, normal
from .nodes import Average, LineIntegral, MellinIntegral, TokenAverage, by_parts
from .stable import Logistic, LogNdtr, LogSumExp, Rounded, Softplus, Width, stabilise
from .symbols import Quantity, conjugate, quantity

__all__ = [
    "MODELS", "Average", "LineIntegral", "LogNdtr", "LogSumExp", "Logistic", "MellinIntegral", "Model", "ModelError", "ModelFamily", "Quantity",
    "Rounded", "Softplus", "Source", "TokenAverage", "Width", "X", "Y", "Z", "bayes_glm", "by_parts", "conjugate", "convex_erm", "derive",
    "jacobian", "normal", "quantity", "stabilise",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class ModelFamily:
    """A model and the string options it is built with (the first value of each is the default).

    ``free`` reads options of free form: value -> canonical text, None if the value is an ordinary one (a name listed in
    ``options``, a number for the control of that name), ValueError if it makes no sense.
    """

    build: Callable[..., Model]
    options: Mapping[str, tuple[str, ...]]
    docstring: str
    free: Mapping[str, Callable[[Any], str | None]] = field(default_factory=dict)


def _family(module: object) -> ModelFamily:
    return ModelFamily(module.build, module.OPTIONS, module.__doc__ or "", getattr(module, "FREE", {}))  # type: ignore[attr-defined]


MODELS: dict[str, ModelFamily] = {
    "perceptron-bayes": _family(perceptron_bayes),
    "slr-bayes": _family(slr_bayes),
    "slr-erm": _family(slr_erm),
    "slr-population": _family(slr_population),
    "spiked-wigner": _family(spiked_wigner),
    "subspace": _family(subspace),
}
