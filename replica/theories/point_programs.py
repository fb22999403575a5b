"""The programs that a saddle point is solved with, each the same object for the same equations.

    search        (start, controls, nodes, numbers) -> where the iteration ends
    linearised    (controls, x, nodes)              -> conjugates, F, dF/dx, dF/dc, Phi, dPhi/dc
    observed      (controls, x, nodes)              -> observables

Nodes and numbers are arguments: both node sets of a bucket, all tolerances, single points, sweeps,
thresholds and curves run the same three.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp

from solvers import Iteration
from solvers.branch import Polish

from ..lowering.node_sets import NodeSets
from ..runtime.programs import QUICK, Program
from .base import Settings
from .equations import CompiledEquations


class Numbers(NamedTuple):
    """The numbers of ``Settings``, which are arguments of a program."""

    tol: jax.Array
    max_steps: jax.Array
    damping: jax.Array

    @classmethod
    def of(cls, settings: Settings) -> Numbers:
        """Those of ``settings``."""
        tol, damping = jnp.asarray(float(settings.tol)), jnp.asarray(float(settings.damping))
        return cls(tol, jnp.asarray(int(settings.max_steps)), damping)


Iterate = Callable[[CompiledEquations, jax.Array, jax.Array, NodeSets, Numbers, Polish], Iteration]
"""(equations, start, controls, nodes, numbers, polish) -> where the iteration ends (traced)."""


@cache
def search_of(iterate: Iterate, equations: CompiledEquations, polish: Polish) -> Program:
    """(start, controls, nodes, numbers) -> Iteration."""

    def find(x0: jax.Array, c: jax.Array, sets: NodeSets, how: Numbers) -> Iteration:
        return iterate(equations, x0, c, sets, how, polish)

    return Program(find, QUICK)


@cache
def linearised(equations: CompiledEquations, control: str | None) -> Program:
    """(controls, x, nodes) -> Linearisation along ``control``; without one, along that which costs
    nothing, if there is any: the same program as for that.
    """
    along = equations.factor if control is None else control
    if control != along:
        return linearised(equations, along)
    return Program(equations.linearisation(along), QUICK)


@cache
def observed(equations: CompiledEquations) -> Program:
    """(controls, x, nodes) -> observables."""
    return Program(equations.observables, QUICK)


@cache
def derivatives_of(equations: CompiledEquations, moved: tuple[str, ...]) -> Program:
    """(overlaps, controls, nodes) -> derivatives by the controls ``moved``."""
    return Program(equations.derivatives(moved), QUICK)
