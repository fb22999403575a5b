r"""How a solved point moves with the controls, and where a symmetric one loses its stability.

    x = F(x, c)   =>   dx/dc = (1 - dF/dx)^{-1} dF/dc

with every derivative taken of the symbolic equations, so that an average differentiates by its own
rule and not through its nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from equations import Model
from solvers import Status, radius_of
from solvers import onset as crossing

from .errors import InputError
from .inputs import nearest
from .models import control_of, resolve
from .models.values import number
from .runtime.notice import computing
from .runtime.precision import double_precision
from .solution import Solution
from .theories import theory_of

CRITICAL = 1e-6
"""Closer than this to an eigenvalue 1 of dF/dx there is no derivative to speak of."""
Derivatives = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Sensitivity:
    """Derivatives of one branch with respect to the controls.

    Attributes
    ----------
    values : dict of control -> dict of name -> float
        d name / d control for every overlap, conjugate and observable; NaN at a critical point.
    error : dict of control -> dict of name -> float
        What finer averages change, doubled.
    status : Status
        SUCCESSFUL; CRITICAL where dF/dx has an eigenvalue 1; or the branch's own, if that is no
        point.
    """

    values: Derivatives
    error: Derivatives
    status: Status


def sensitivity(
    solution: Solution, start: str | None = None, controls: Sequence[str] | None = None
) -> Sensitivity:
    """Derivatives of a solved branch with respect to its controls.

    Parameters
    ----------
    solution : Solution
        What ``solve`` returns, by its exact route.
    start : str, optional
        Which branch; the equilibrium one by default.
    controls : sequence of str, optional
        With respect to which; all that are continuous by default. Each takes time to compile.

    Returns
    -------
    Sensitivity
        With an error estimate for each derivative.

    Raises
    ------
    InputError
        The model averages over samples or is a flow, or the solution has no such branch or control.
    """
    model = solution.model
    if solution.settings.route != "exact":
        solution.theory.refuse_derivatives()
    if start is None and solution.best is None:
        raise InputError(
            f"{model.name} has no solved branch here: look at the statuses of solution.branches"
        )
    branch = solution.branches[solution.best or 0] if start is None else solution.branch(start)
    continuous = [q.name for q in model.controls if not q.integer]
    for name in controls or ():
        if name not in continuous:
            raise InputError(
                f"{model.name} has no continuous control {name!r}: {nearest(name, continuous)}"
            )
    moved = tuple(name for name in continuous if controls is None or name in controls)
    names = [*branch.overlaps, *branch.conjugates, *branch.observables]
    with computing(model.name), double_precision():
        table, error, distance = solution.theory.sensitivity(branch, solution.controls, moved)
    status = Status.CRITICAL if distance < CRITICAL else branch.status
    if status is Status.CRITICAL:
        table, error = np.full_like(table, np.nan), np.full_like(error, np.nan)
    elif branch.ok and not np.isfinite(table).all():
        status = Status.NON_FINITE

    def named(values: np.ndarray) -> Derivatives:
        return {
            control: dict(zip(names, map(float, column), strict=True))
            for control, column in zip(moved, values.T, strict=True)
        }

    return Sensitivity(named(table), named(error), status)


# loss of stability -------------------------------------------------------------------------------


def onset(
    model: str | Model,
    control: str,
    between: tuple[float, float],
    at: dict[str, float] | None = None,
    **controls: Any,
) -> float:
    """The value of ``control`` at which the fixed point ``at`` becomes unstable: spectral radius of
    dF/dx = 1.

    Unlike a threshold read off a capped iteration, which critical slowing down makes late, this is
    exact.

    Parameters
    ----------
    model : str or Model
        One that is solved by iteration.
    control : str
        The one that is varied.
    between : (low, high)
        The radius must cross 1 between these values.
    at : dict, optional
        Overlaps of the fixed point; all zero by default.
    **controls
        The other controls.

    Returns
    -------
    float
        To 1e-12, with the averages of the default rule.

    Raises
    ------
    InputError
        ``at`` is not a fixed point over the whole interval, or nothing crosses.
    """
    built, fixed = resolve(model, controls, partial=[control])
    quantity = control_of(built, control)
    low, high = (number(quantity, v) for v in between)
    x = np.array([(at or {}).get(q.name, 0.0) for q in built.overlaps])
    theory = theory_of(built)
    sizes = theory.node_sizes(*({**fixed, control: v} for v in (low, high)))

    def radius(value: float) -> float:
        c = np.array([{**fixed, control: value}[q.name] for q in built.controls])
        state = theory.state(jnp.asarray(c), jnp.asarray(x), sizes)
        if not np.max(np.abs(state.update - x)) < 1e-9:
            raise InputError(
                f"{built.name}: the given overlaps are not a fixed point at {control} = {value:g}"
            )
        return radius_of(np.asarray(state.slope))

    with double_precision():
        try:
            return crossing(radius, low, high)
        except ValueError as problem:
            raise InputError(f"{built.name}: {problem}") from None
