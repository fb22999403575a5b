"""How a model is solved: one file a theory. ``theory_of`` turns a model's record into an object,
and nobody else asks what kind of model it is.
"""

from __future__ import annotations

from functools import cache

from equations import (
    EmpiricalRisk,
    GradientFlow,
    Model,
    Quadrature,
    QuasiMonteCarlo,
    SphereFlow,
)

from .base import Branch, Point, Settings, Theory
from .gradient_flow import DescentOfVectors
from .objective import Objective
from .saddle_point import SaddlePoint
from .sampled_saddle_point import SampledSaddlePoint
from .sphere_flow import FlowOnSphere
from .trained.predictor import TrainedPredictor

__all__ = ["THEORIES", "Branch", "Point", "Settings", "Theory", "theory_of"]

THEORIES: dict[type, type[Theory]] = {
    Quadrature: SaddlePoint,
    QuasiMonteCarlo: SampledSaddlePoint,
    EmpiricalRisk: TrainedPredictor,
    SphereFlow: FlowOnSphere,
    GradientFlow: DescentOfVectors,
}
"""Which theory a record asks for."""


@cache
def theory_of(model: Model) -> Theory:
    """The one object that knows how ``model`` is solved."""
    chosen = THEORIES[type(model.theory)]
    # Without conjugates there is no map to iterate, but an objective to minimise.
    if chosen is SaddlePoint and not model.conjugates:
        return Objective(model)
    return chosen(model)
