"""Models in time: trajectories, descent, and boundaries that are formulas."""

from . import boundaries, descent, recovery

__all__ = ["boundaries", "descent", "recovery"]
