"""Physics as data: models, their free energies, and the equations derived from them."""

from .calculus.averages import Average, LineIntegral, MellinIntegral, TokenAverage, by_parts
from .calculus.gram_matrix import Gram
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
from .model import Criterion, Model, ModelError, Observable, Source
from .models import MODELS, ModelSpec
from .quantities import Quantity, conjugate, quantity
from .saddle_point import derive, jacobian
from .theory import (
    EmpiricalRisk,
    GradientFlow,
    Quadrature,
    QuasiMonteCarlo,
    SphereFlow,
    Weights,
)

__all__ = [
    "MODELS",
    "Average",
    "Criterion",
    "EmpiricalRisk",
    "GradientFlow",
    "Gram",
    "LineIntegral",
    "LogNdtr",
    "LogSumExp",
    "Logistic",
    "MellinIntegral",
    "Model",
    "ModelError",
    "ModelSpec",
    "Observable",
    "Quadrature",
    "Quantity",
    "QuasiMonteCarlo",
    "Rounded",
    "Softplus",
    "Source",
    "SphereFlow",
    "TokenAverage",
    "Weights",
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
