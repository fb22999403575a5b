"""Physics as data: models, their free energies, and the equations derived from them."""

from .calculus.averages import Average, LineIntegral, MellinIntegral, TokenAverage, by_parts
from .calculus.envelope import (
    AtProx,
    BasinChange,
    ForceDivergence,
    ForceResponse,
    MoreauEnvelope,
    ProxFailure,
    TeacherAverage,
)
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
from .slr.data import SingleLocation
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
    "AtProx",
    "Average",
    "BasinChange",
    "Criterion",
    "EmpiricalRisk",
    "ForceDivergence",
    "ForceResponse",
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
    "MoreauEnvelope",
    "Observable",
    "ProxFailure",
    "Quadrature",
    "Quantity",
    "QuasiMonteCarlo",
    "Rounded",
    "SingleLocation",
    "Softplus",
    "Source",
    "SphereFlow",
    "TeacherAverage",
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
