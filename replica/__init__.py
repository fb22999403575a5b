"""Replica-symmetric saddle-point equations: derived with SymPy, compiled with JAX, every branch
found.

>>> import replica
>>> replica.solve("slr-bayes", alpha=1.4, L=4, nu=1, Delta=1e-4).risks   # doctest: +SKIP
{'algorithmic': 0.8264..., 'information_theoretic': 0.6453...}
"""

import sys
from typing import TYPE_CHECKING

from ._guard import check_siblings
from .on_demand import Face

# First of all: a user's own equations.py or solvers/ would be imported instead of ours.
check_siblings()

# What readers of the source and type checkers see; at run time each name is imported when it is
# first asked for (on_demand.py has the same names).
if TYPE_CHECKING:
    import equations
    import solvers

    # What a file with a model of the user's own needs.
    from equations import (
        MODELS,
        AtProx,
        Average,
        BasinChange,
        Criterion,
        EmpiricalRisk,
        ForceDivergence,
        ForceResponse,
        GradientFlow,
        Gram,
        LineIntegral,
        Logistic,
        LogNdtr,
        LogSumExp,
        MellinIntegral,
        Model,
        ModelError,
        MoreauEnvelope,
        Observable,
        ProxFailure,
        Quadrature,
        Quantity,
        QuasiMonteCarlo,
        Rounded,
        SingleLocation,
        Softplus,
        SphereFlow,
        TeacherAverage,
        TokenAverage,
        Weights,
        Width,
        X,
        Y,
        Z,
        bayes_glm,
        by_parts,
        conjugate,
        convex_erm,
        derive,
        jacobian,
        normal,
        quantity,
        stabilise,
    )
    from equations.calculus.scalar_envelope import ProxSlope, ProxValue, ScalarEnvelope
    from equations.glm.channels import output_term
    from equations.glm.densities import Component
    from equations.glm.priors import gaussian_term, mixture_error_term, sign_term
    from solvers import Status

    from . import dynamics, plots
    from .check import Report, check, landscape
    from .errors import InputError, LoweringError, ReplicaError, SolveError, StoreError
    from .files.export import to_tables
    from .files.store import load, save, versions
    from .linear_response import Sensitivity, onset, sensitivity
    from .lowering.node_sizes import NodeSizes
    from .phase.curve import curve
    from .phase.maps.diagram import phase_diagram
    from .phase.thresholds import Thresholds, thresholds
    from .plots.figures import plot
    from .runtime.kept import cache_folder
    from .runtime.programs import clear_caches
    from .show import show
    from .solution import Solution
    from .solve import evaluate, solve
    from .sweeps.dataset import to_dataset
    from .sweeps.optimise import optimise
    from .sweeps.search import Optimum
    from .sweeps.sweep import sweep
    from .theories import Branch, Settings

__all__ = [
    "MODELS",
    "AtProx",
    "Average",
    "BasinChange",
    "Branch",
    "Component",
    "Criterion",
    "EmpiricalRisk",
    "ForceDivergence",
    "ForceResponse",
    "GradientFlow",
    "Gram",
    "InputError",
    "LineIntegral",
    "LogNdtr",
    "LogSumExp",
    "Logistic",
    "LoweringError",
    "MellinIntegral",
    "Model",
    "ModelError",
    "MoreauEnvelope",
    "NodeSizes",
    "Observable",
    "Optimum",
    "ProxFailure",
    "ProxSlope",
    "ProxValue",
    "Quadrature",
    "Quantity",
    "QuasiMonteCarlo",
    "ReplicaError",
    "Report",
    "Rounded",
    "ScalarEnvelope",
    "Sensitivity",
    "Settings",
    "SingleLocation",
    "Softplus",
    "Solution",
    "SolveError",
    "SphereFlow",
    "Status",
    "StoreError",
    "TeacherAverage",
    "Thresholds",
    "TokenAverage",
    "Weights",
    "Width",
    "X",
    "Y",
    "Z",
    "bayes_glm",
    "by_parts",
    "cache_folder",
    "check",
    "clear_caches",
    "conjugate",
    "convex_erm",
    "curve",
    "derive",
    "dynamics",
    "equations",
    "evaluate",
    "gaussian_term",
    "jacobian",
    "landscape",
    "load",
    "mixture_error_term",
    "normal",
    "onset",
    "optimise",
    "output_term",
    "phase_diagram",
    "plot",
    "plots",
    "quantity",
    "save",
    "sensitivity",
    "show",
    "sign_term",
    "solve",
    "solvers",
    "stabilise",
    "sweep",
    "thresholds",
    "to_dataset",
    "to_tables",
    "versions",
]

sys.modules[__name__].__class__ = Face
