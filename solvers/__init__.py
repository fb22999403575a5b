"""Numerics on arrays: node sets, fixed points, acceleration, stability, minimisation, flows (JAX,
diffrax and SciPy only).
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .accelerate import anderson, newton
    from .branch import follow
    from .continuation import Curve, Knot, Steps, fold, steepest, trace
    from .fixed_point import Box, check_damping, everywhere, fixed_point
    from .minimise import minimise
    from .result import Iteration, Status
    from .stability import (
        largest_step,
        leading_eigenvalue,
        newton_step,
        onset,
        radius_of,
        second_order,
    )

__all__ = [
    "Box",
    "Curve",
    "Iteration",
    "Knot",
    "Status",
    "Steps",
    "anderson",
    "check_damping",
    "everywhere",
    "fixed_point",
    "fold",
    "follow",
    "largest_step",
    "leading_eigenvalue",
    "minimise",
    "newton",
    "newton_step",
    "onset",
    "radius_of",
    "second_order",
    "steepest",
    "trace",
]

_HOMES = {
    "anderson": "accelerate",
    "newton": "accelerate",
    "follow": "branch",
    "Curve": "continuation",
    "Knot": "continuation",
    "Steps": "continuation",
    "fold": "continuation",
    "steepest": "continuation",
    "trace": "continuation",
    "Box": "fixed_point",
    "check_damping": "fixed_point",
    "everywhere": "fixed_point",
    "fixed_point": "fixed_point",
    "minimise": "minimise",
    "Iteration": "result",
    "Status": "result",
    "largest_step": "stability",
    "leading_eigenvalue": "stability",
    "newton_step": "stability",
    "onset": "stability",
    "radius_of": "stability",
    "second_order": "stability",
}


class _OnDemand(ModuleType):
    """Each name is imported when it is first asked for (start-up time): figures need ``Status`` and
    no JAX.
    """

    def __getattr__(self, name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'solvers' has no attribute {name!r}")
        value = getattr(import_module(f"solvers.{_HOMES[name]}"), name)
        super().__setattr__(name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # Python sets solvers.minimise to the module of that name, which would hide its function.
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _OnDemand
