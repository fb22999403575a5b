"""Numerics on arrays: node sets, fixed points, acceleration, stability, minimisation, flows (JAX,
diffrax and SciPy only).
"""

from .accelerate import anderson, newton
from .branch import follow
from .continuation import Curve, Knot, Steps, fold, steepest, trace
from .fixed_point import Box, check_damping, everywhere, fixed_point
from .minimise import minimise
from .result import Iteration, Status
from .stability import leading_eigenvalue, onset, propagate, radius_of, spectral_radius

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
    "leading_eigenvalue",
    "minimise",
    "newton",
    "onset",
    "propagate",
    "radius_of",
    "spectral_radius",
    "steepest",
    "trace",
]
