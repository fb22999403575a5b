"""The programs that a saddle point is solved with, each the same object for the same equations, and
the errors of a point by them.

    search        (start, controls, nodes, numbers) -> where the iteration ends
    linearised    (controls, x, nodes)              -> conjugates, F, dF/dx, dF/dc, Phi, dPhi/dc
    observed      (controls, x, nodes)              -> observables

Nodes and numbers are arguments: both node sets of a bucket, all tolerances, single points, sweeps,
thresholds and curves run the same three.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from solvers import Iteration, Status, largest_step, newton_step, radius_of, second_order
from solvers.branch import Polish

from ..lowering.content import NoContentError, text_of
from ..lowering.functions import SMALLEST_WIDTH
from ..lowering.lower import FLOOR, SAFETY, error_from
from ..lowering.node_sets import NodeSets, arguments
from ..lowering.node_sizes import NodeSizes
from ..runtime.programs import QUICK, Program
from .base import Point, Settings
from .equations import CompiledEquations, Linearisation, box

ROUNDING = 1e-15
"""Of F, relative to it."""
MILD = 1.01
"""A point is sharpened where the second order enlarges its errors by more than this."""
RELATIVE = 1e-6
"""And where an error is larger than this against the overlap itself."""
NEARER, FURTHER = 1e3 * SMALLEST_WIDTH, 1e7 * SMALLEST_WIDTH
DIVERGES = 1e-7
"""Per factor e of an overlap, a free energy that is infinite at a border changes by more than this
between such overlaps.
"""
SHARPENINGS = 40
"""Steps by which it is sharpened at most: at a critical point each goes half the way."""


class Numbers(NamedTuple):
    """The numbers of ``Settings``, which are arguments of a program."""

    tol: jax.Array | np.ndarray
    max_steps: jax.Array | np.ndarray
    damping: jax.Array | np.ndarray

    @classmethod
    def of(cls, settings: Settings) -> Numbers:
        """Those of ``settings``."""
        tol, damping = np.asarray(float(settings.tol)), np.asarray(float(settings.damping))
        return cls(tol, np.asarray(int(settings.max_steps)), damping)


Iterate = Callable[[CompiledEquations, jax.Array, jax.Array, NodeSets, Numbers, Polish], Iteration]
"""(equations, start, controls, nodes, numbers, polish) -> where the iteration ends (traced)."""


@cache
def search_of(iterate: Iterate, equations: CompiledEquations, polish: Polish) -> Program:
    """(start, controls, nodes, numbers) -> Iteration."""

    def find(x0: jax.Array, c: jax.Array, sets: NodeSets, how: Numbers) -> Iteration:
        return iterate(equations, x0, c, sets, how, polish)

    # A theory's method depends on its class and the model alone.
    name = name_of(equations, "search", getattr(iterate, "__func__", iterate), polish)
    return Program(find, QUICK, name, Iteration)


@cache
def linearised(equations: CompiledEquations, control: str | None) -> Program:
    """(controls, x, nodes) -> Linearisation along ``control``; without one, along that which costs
    nothing, if there is any: the same program as for that.
    """
    along = equations.factor if control is None else control
    if control != along:
        return linearised(equations, along)

    def at(c: jax.Array, x: jax.Array, sets: NodeSets) -> Linearisation:
        return equations.linearisation(along)(c, x, sets)  # derived now, if it was not kept

    return Program(at, QUICK, name_of(equations, "linearised", along), Linearisation)


@cache
def observed(equations: CompiledEquations) -> Program:
    """(controls, x, nodes) -> observables."""
    return Program(equations.observables, QUICK, name_of(equations, "observed"))


@cache
def derivatives_of(equations: CompiledEquations, moved: tuple[str, ...]) -> Program:
    """(overlaps, controls, nodes) -> derivatives by the controls ``moved``."""
    name = name_of(equations, "derivatives", moved)
    return Program(equations.derivatives(moved), QUICK, name, lambda *both: both)


def name_of(equations: CompiledEquations, *role: Any) -> str | None:
    """All that a program of these equations depends on; None where that cannot be told."""
    content = _content(equations)
    return None if content is None else f"{content}\n{text_of(role)}"


@cache
def _content(equations: CompiledEquations) -> str | None:
    """All that the equations depend on; None if they are to be derived in every process."""
    model = equations.model
    parts = model.prior, model.coupling, model.channel, model.expressions
    how = type(equations), model.theory, equations.sizes, equations.route, equations.controls
    try:
        return text_of((model.overlaps, model.conjugates, model.controls, parts, how))
    except NoContentError:
        return None


def judged_point(
    equations: CompiledEquations,
    end: Iteration,
    c: np.ndarray,
    sizes: NodeSizes,
    second: NodeSizes,
) -> Point:
    """The point where an iteration ended, not yet classified, with its errors from the ``second``
    node sets.
    """
    point, is_sharp = _judged(equations, end, c, sizes, second)
    if not is_sharp and end.status == Status.SUCCESSFUL.code:
        # The tolerance on the residual says little beside a critical point, and about small
        # overlaps.
        end = _sharpened(equations, end, c, sizes, float(np.max(point.error_x)))
        point = _judged(equations, end, c, sizes, second)[0]
    vanishing = (np.asarray(box(equations.model).low) == 0) & (end.x <= SMALLEST_WIDTH)
    if not np.any(vanishing):
        return point
    end = end._replace(x=np.where(vanishing, 0.0, end.x))
    return _with_limit(equations, _judged(equations, end, c, sizes, second)[0], c, sizes)


def growth(
    energy: Callable[[np.ndarray], float],
    x: np.ndarray,
    ends: np.ndarray,
    overlaps: tuple[float, float],
) -> float:
    """How much a free energy grows towards ``x``, per factor e, between two values of the overlaps
    that are at their border 0 there (``ends``), the nearer one first.
    """
    nearer, further = (energy(np.where(ends, small, x)) for small in overlaps)
    return (nearer - further) / np.log(overlaps[1] / overlaps[0])


def _with_limit(
    equations: CompiledEquations, point: Point, c: np.ndarray, sizes: NodeSizes
) -> Point:
    """A point at a border, with the infinite free energy that it may have there; what is evaluated
    at the border itself then depends on the smallest width.
    """

    def energy_at(x: np.ndarray) -> float:
        return float(linearised(equations, None)(c, x, arguments(sizes)).free_energy)

    rate = growth(energy_at, point.x, point.x == 0, (NEARER, FURTHER))
    if abs(rate) <= DIVERGES:
        return point
    infinite, zero = np.copysign(np.inf, rate), np.asarray(0.0)
    return point._replace(free_energy=infinite, error_free_energy=zero)


def _judged(
    equations: CompiledEquations,
    end: Iteration,
    c: np.ndarray,
    sizes: NodeSizes,
    second: NodeSizes,
) -> tuple[Point, bool]:
    """The point, and whether what the iteration left over is small: against the overlaps, and
    against the distance to other fixed points.
    """
    domain = box(equations.model)

    def linearised_at(x: np.ndarray, sizes: NodeSizes) -> Linearisation:
        return jax.tree.map(np.asarray, linearised(equations, None)(c, x, arguments(sizes)))

    def seen_at(x: np.ndarray, sizes: NodeSizes) -> np.ndarray:
        return np.asarray(observed(equations)(c, x, arguments(sizes)))

    def inside(x: np.ndarray) -> np.ndarray:
        return np.clip(x, domain.low, domain.high)

    here, seen = linearised_at(end.x, sizes), seen_at(end.x, sizes)
    update = linearised_at(end.x, second).update
    unresolved = SAFETY * np.abs(newton_step(here.slope, update - here.update))
    left = SAFETY * largest_step(here.slope, end.residual + ROUNDING * np.abs(end.x))
    # The same point on the second set: x' = x + (1 - J)^{-1} (F'(x) - x), and everything at x'.
    moved = inside(end.x + newton_step(here.slope, update - end.x))
    better, better_seen = linearised_at(moved, second), seen_at(moved, second)
    # What conjugates and observables make of each overlap's error: the residual has no known sign.
    by_hats, by_seen = np.zeros_like(here.hats), np.zeros_like(seen)
    for i in np.flatnonzero(left):
        beside = end.x.copy()
        beside[i] += -left[i] if end.x[i] + left[i] > domain.high[i] else left[i]
        beside = inside(beside)
        by_hats = by_hats + np.abs(linearised_at(beside, sizes).hats - here.hats)
        by_seen = by_seen + np.abs(seen_at(beside, sizes) - seen)
    factor = second_order(
        lambda x: linearised_at(inside(x), sizes).slope, end.x, here.slope, unresolved + left
    )
    point = Point(
        end.x,
        here.hats,
        here.free_energy,
        seen,
        end.residual,
        end.steps,
        end.status,
        np.asarray(radius_of(here.slope)),
        (unresolved + left) * factor + FLOOR,
        (error_from(better.hats, here.hats) + by_hats) * factor,
        # It is stationary: what enlarges the errors of the overlaps is of third order here.
        error_from(better.free_energy, here.free_energy),
        (error_from(better_seen, seen) + by_seen) * factor,
        np.max(unresolved, initial=0.0),
    )
    is_small = end.residual <= ROUNDING or np.all(left <= RELATIVE * np.abs(end.x))
    return point, bool(factor <= MILD and is_small)


def _sharpened(
    equations: CompiledEquations, end: Iteration, c: np.ndarray, sizes: NodeSizes, reach: float
) -> Iteration:
    """The point where an iteration ended, after as many steps of Newton's method as lower its
    residual, inside the domain and no further away than ``reach``.
    """
    program, sets = linearised(equations, None), arguments(sizes)

    def linearised_at(x: np.ndarray) -> Linearisation:
        return jax.tree.map(np.asarray, program(c, x, sets))

    domain, best, here = box(equations.model), end, linearised_at(end.x)
    for _ in range(SHARPENINGS):
        step = newton_step(here.slope, here.update - best.x)
        if not np.all(np.isfinite(step)):
            break
        x = np.asarray(domain.short_of(jnp.asarray(best.x), jnp.asarray(step)))
        here = linearised_at(x)
        residual = np.max(np.abs(here.update - x))
        if not residual < best.residual / 2 or np.max(np.abs(x - end.x)) > reach:
            break
        steps = np.asarray(best.steps + 1)
        best = Iteration(x, here.update, residual, steps, end.status)  # type: ignore[arg-type]
    return best
