r"""Fixed points of a map that carries a state from one evaluation to the next (a warm-started inner
minimisation).

Damped iteration chooses the branch, Newton's method finishes it:

    x <- (1 - damping) F(x) + damping x   until max|F(x) - x| <= SWITCH,
    x <- x + t (1 - J)^{-1} (F(x) - x),   t halved until the residual falls inside the domain

Both on the host: an evaluation is long enough for Python not to matter. Convergence is judged on
the undamped residual.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .result import Status

Image = Callable[[np.ndarray, Any], tuple[np.ndarray, Any]]
"""(x, state) -> (F(x), new state)."""
Slope = Callable[[np.ndarray, Any], np.ndarray]
Domain = Callable[[np.ndarray], bool]
SWITCH = 3e-2
NEWTON_STEPS = 12
HALVINGS = 8


class Ended(NamedTuple):
    """Last point and its image, residual, evaluations, status, and the state carried along."""

    x: np.ndarray
    fx: np.ndarray
    residual: float
    steps: int
    status: Status
    state: Any


def warm_fixed_point(
    image: Image,
    slope: Slope,
    x0: np.ndarray,
    state: Any,
    *,
    tol: float,
    max_steps: int,
    damping: float,
    inside: Domain,
) -> Ended:
    """The fixed point that damped iteration from ``x0`` heads for.

    Parameters
    ----------
    image, slope : callables
        (x, state) -> (F(x), state) and (x, state) -> dF/dx.
    x0, state : start
    tol, max_steps, damping : as in ``fixed_point``
    inside : callable
        Whether x lies in the domain; leaving it ends damped iteration and shortens Newton steps.
    """
    x, goal, steps = x0, SWITCH, 0
    while steps < max_steps:
        fx, state = image(x, state)
        steps += 1
        now = _judged(x, fx, steps, state, tol, inside)
        if now.status is not Status.MAX_STEPS:
            return now
        if now.residual <= goal:
            end = _newton(image, slope, now, tol, min(max_steps, steps + NEWTON_STEPS), inside)
            if end.status is Status.SUCCESSFUL:
                return end
            steps, goal = end.steps, goal / 10
        x = (1 - damping) * fx + damping * x
    return now


def _judged(
    x: np.ndarray, fx: np.ndarray, steps: int, state: Any, tol: float, inside: Domain
) -> Ended:
    residual = float(np.max(np.abs(fx - x)))
    if not np.isfinite(residual):
        status = Status.NON_FINITE
    elif not inside(x):
        status = Status.LEFT_DOMAIN
    else:
        status = Status.SUCCESSFUL if residual <= tol else Status.MAX_STEPS
    return Ended(x, fx, residual, steps, status, state)


def _newton(
    image: Image, slope: Slope, now: Ended, tol: float, max_steps: int, inside: Domain
) -> Ended:
    """Newton from ``now``; it ends where it was if no step length lowers the residual."""
    while now.steps < max_steps and now.status is Status.MAX_STEPS:
        move = np.linalg.solve(np.eye(len(now.x)) - slope(now.x, now.state), now.fx - now.x)
        if not np.all(np.isfinite(move)):
            return now
        length, better = 1.0, None
        for _ in range(HALVINGS):
            x = now.x + length * move
            length /= 2
            if not inside(x):
                continue
            fx, state = image(x, now.state)
            trial = _judged(x, fx, now.steps + 1, state, tol, inside)
            now = now._replace(steps=now.steps + 1)
            if trial.residual < now.residual:
                better = trial._replace(steps=now.steps)
                break
        if better is None:
            return now
        now = better
    return now
