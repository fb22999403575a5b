"""How a model is solved, as data: a record of the model, turned into an object elsewhere.

Quadrature       averages on node sets; fixed points by iteration (of an objective: minima)
QuasiMonteCarlo  averages over scrambled sets of samples, whose spread is the error
EmpiricalRisk    a minimisation in every sample (Moreau envelopes), on sets of samples
SphereFlow       dx/dt along a sphere, x = w.w*: both poles and the zeros between them
GradientFlow     descent of vectors on an objective of their Gram matrix
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sympy as sp

from .calculus.gram_matrix import Gram
from .calculus.special_functions import stabilise

Rewriting = Callable[[sp.Expr], sp.Expr]
"""Of Phi and the observables into what can be evaluated."""


@dataclass(frozen=True, eq=False)
class Quadrature:
    """Averages on node sets, compiled into one program.

    Attributes
    ----------
    rewrite : callable
        The default route of evaluation.
    sampled : callable or None
        A second, independent route by samples; None if there is none.
    tokens : expression in the controls, or None
        Number of explicit tokens of the sampled route.
    nodes : dict of name -> expression in the controls
        Sizes of node sets that this model needs, such as {"line": 100 + nu}, where they exceed the
        default.
    infinite_scale : condition on the controls
        Where the optimum is a limit that no finite value of the unknowns attains.
    """

    rewrite: Rewriting = stabilise
    sampled: Rewriting | None = None
    tokens: Any = None
    nodes: Mapping[str, Any] = field(default_factory=dict)
    infinite_scale: Any = sp.false


@dataclass(frozen=True, eq=False)
class QuasiMonteCarlo:
    """Averages over scrambled sets of samples.

    Attributes
    ----------
    tokens : expression in the controls
        Number of explicit tokens, at most.
    lengths : int
        How many lengths share the samples of a set.
    rewrite, nodes : as in ``Quadrature``
        Route of evaluation and least sizes of node sets.
    """

    tokens: Any
    lengths: int = 1
    rewrite: Rewriting = stabilise
    nodes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Weights:
    """The overlaps of one trained vector: with the teacher, its squared norm, its susceptibility.

    Attributes
    ----------
    teacher, norm, susceptibility : str
        Names of overlaps, such as "m", "q", "V".
    """

    teacher: str
    norm: str
    susceptibility: str


@dataclass(frozen=True, eq=False)
class EmpiricalRisk:
    """A Moreau envelope in every sample of ``data``, averaged.

    Attributes
    ----------
    data : SingleLocation
        The law of the samples.
    weights : tuple of Weights
        The trained vectors: that of the attention (keys) first, then the linear one (values).
    rewrite : callable
        Of Phi and the observables.
    """

    data: Any
    weights: tuple[Weights, ...]
    rewrite: Rewriting = stabilise


@dataclass(frozen=True, eq=False)
class SphereFlow:
    """One overlap x in [-1, 1] with dx/dt = drift(x), which vanishes at both ends.

    Attributes
    ----------
    drifts : tuple of (drift, objective)
        Names of observables; the first pair whose controls are all given is followed. Without any,
        the drift is (1 - x^2) dPhi/dx, upwards or downwards as ``Model.best`` says.
    rewrite : callable
        Of Phi and the observables.
    """

    drifts: tuple[tuple[str, str], ...] = ()
    rewrite: Rewriting = stabilise


@dataclass(frozen=True, eq=False)
class GradientFlow:
    """Descent of vectors on an objective of their Gram matrix.

    Attributes
    ----------
    gram : Gram
        The Gram matrix whose entries the overlaps are.
    manifold : tuple of str
        Overlaps that stay zero where they vanish.
    rewrite, nodes : as in ``Quadrature``
        Route of evaluation and least sizes of node sets.
    """

    gram: Gram
    manifold: tuple[str, ...] = ()
    rewrite: Rewriting = stabilise
    nodes: Mapping[str, Any] = field(default_factory=dict)


TheoryRecord = Quadrature | QuasiMonteCarlo | EmpiricalRisk | SphereFlow | GradientFlow
