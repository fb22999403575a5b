"""Linear response: where a symmetric fixed point loses its stability (a continuous transition)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from equations import Model
from solvers import onset as crossing
from solvers import spectral_radius

from .errors import InputError
from .precision import double_precision
from .settings import nearest, number, resolve
from .solve import default_rule, evaluator


def onset(model: str | Model, control: str, between: tuple[float, float], at: dict[str, float] | None = None, **controls: Any) -> float:
    """The value of ``control`` at which the fixed point ``at`` becomes unstable: spectral radius of dF/dx = 1.

    Unlike a threshold read off a capped iteration, which critical slowing down makes late, this is exact.

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
    evaluate = evaluator(built, default_rule(built, *({**fixed, control: v} for v in (low, high))))

    def radius(value: float) -> float:
        c = np.array([{**fixed, control: value}[q.name] for q in built.controls])
        state = evaluate(jnp.asarray(c), jnp.asarray(x))
        if not np.max(np.abs(state.update - x)) < 1e-9:
            raise InputError(f"{built.name}: the given overlaps are not a fixed point at {control} = {value:g}")
        return float(spectral_radius(state.slope))

    with double_precision():
        try:
            return crossing(radius, low, high)
        except ValueError as problem:
            raise InputError(f"{built.name}: {problem}") from None
