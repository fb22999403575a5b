r"""How a solved point moves with the controls, and where a symmetric one loses its stability.

    x = F(x, c)   =>   dx/dc = (1 - dF/dx)^{-1} dF/dc

with every derivative taken of the symbolic equations, so that an average differentiates by its own
rule and not through its nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp

from equations import Model, jacobian
from solvers import Status, spectral_radius
from solvers import onset as crossing

from .errors import InputError
from .inputs import nearest, number
from .lowering.lower import FLOOR, SAFETY, Lowered, NodeSizes
from .models import resolve
from .precision import double_precision
from .solution import Solution
from .solve import COMPILER_OPTIONS, default_sizes, evaluator
from .theories.saddle_point import derived, problem

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
    if model.path != "compiled" or model.scrambled or solution.settings.route != "exact":
        raise InputError(
            f"derivatives with respect to the controls need averages by quadrature: {model.name} as"
            " solved here has none"
        )
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
    c = jnp.asarray([solution.controls[q.name] for q in model.controls])
    x = jnp.asarray(list(branch.overlaps.values()))
    sizes = default_sizes(model, solution.controls)
    for _ in range(branch.level):
        sizes = sizes.refined()
    with double_precision():
        table, distance = (np.asarray(v) for v in _compiled(model, sizes, moved)(x, c))
        finer = np.asarray(_compiled(model, sizes.finer(), moved)(x, c)[0])
    status = Status.CRITICAL if distance < CRITICAL else branch.status
    if status is Status.CRITICAL:
        table = np.full_like(table, np.nan)
    elif branch.ok and not np.isfinite(table).all():
        status = Status.NON_FINITE

    def named(values: np.ndarray) -> Derivatives:
        return {
            control: dict(zip(names, map(float, column), strict=True))
            for control, column in zip(moved, values.T, strict=True)
        }

    return Sensitivity(named(table), named(SAFETY * np.abs(finer - table) + FLOOR), status)


@cache
def _compiled(model: Model, sizes: NodeSizes, controls: tuple[str, ...]) -> Any:
    """Jitted: (overlaps, controls) -> (derivatives, shape (names, ``controls``); distance of dF/dx
    from an eigenvalue 1).
    """
    equations, here = derived(model, "exact"), problem(model, sizes, "exact")
    x, h = [q.symbol for q in model.overlaps], [q.symbol for q in model.conjugates]
    every = [q.symbol for q in model.controls]
    moved = [q.symbol for q in model.controls if q.name in controls]
    observed = {sp.Symbol(f"observable {k}"): model.exact(v) for k, v in model.observables.items()}

    def matrix(
        of: dict[sp.Symbol, sp.Expr],
        by: list[sp.Symbol],
        rows: list[sp.Symbol],
        unknowns: list[sp.Symbol],
    ) -> Any:
        slopes = jacobian(of, by, rows)
        names = {f"{i} {j}": slopes[i, j] for i in range(slopes.rows) for j in range(slopes.cols)}
        lowered = Lowered(names, unknowns, every, model.name, sizes)

        def at(u: jax.Array, c: jax.Array) -> jax.Array:
            entries = lowered.bind(u, dict(zip(every, c, strict=True)))(None)
            return (
                jnp.stack(list(entries.values())).reshape(len(rows), len(by))
                if entries
                else jnp.zeros((len(rows), len(by)))
            )

        return at

    first = h or x
    by_x, by_c = matrix(equations, x, first, x), matrix(equations, moved, first, x)
    seen_x, seen_c = (
        matrix(observed, x, list(observed), x),
        matrix(observed, moved, list(observed), x),
    )
    back_h, back_c = (
        (matrix(equations, h, x, h), matrix(equations, moved, x, h)) if h else (None, None)
    )

    def derivatives(at: jax.Array, c: jax.Array) -> tuple[jax.Array, jax.Array]:
        force_x, force_c = by_x(at, c), by_c(at, c)
        if back_h is None or back_c is None:  # an objective: its gradient stays zero
            system, right = force_x, -force_c
        else:
            hats = here.conjugates(c, at)(at)
            response = back_h(hats, c)
            system, right = (
                jnp.eye(len(x)) - response @ force_x,
                response @ force_c + back_c(hats, c),
            )
        slope = jnp.linalg.solve(system, right)
        hats_slope = force_x @ slope + force_c if h else jnp.zeros((0, len(moved)))
        distance = jnp.min(jnp.abs(jnp.linalg.eigvals(system)))
        return jnp.concatenate([slope, hats_slope, seen_x(at, c) @ slope + seen_c(at, c)]), distance

    return jax.jit(derivatives, compiler_options=COMPILER_OPTIONS)


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
    quantities = {q.name: q for q in built.controls}
    if control not in quantities:
        raise InputError(f"{built.name} has no control {control!r}: {nearest(control, quantities)}")
    low, high = (number(quantities[control], v) for v in between)
    x = np.array([(at or {}).get(q.name, 0.0) for q in built.overlaps])
    evaluate = evaluator(built, default_sizes(built, *({**fixed, control: v} for v in (low, high))))

    def radius(value: float) -> float:
        c = np.array([{**fixed, control: value}[q.name] for q in built.controls])
        state = evaluate(jnp.asarray(c), jnp.asarray(x))
        if not np.max(np.abs(state.update - x)) < 1e-9:
            raise InputError(
                f"{built.name}: the given overlaps are not a fixed point at {control} = {value:g}"
            )
        return float(spectral_radius(state.slope))

    with double_precision():
        try:
            return crossing(radius, low, high)
        except ValueError as problem:
            raise InputError(f"{built.name}: {problem}") from None
