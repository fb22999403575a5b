"""Theory against simulation: one experiment a file, and what runs them.

All are imported together when the first is asked for, and not before: the flags of ``replica check
--help`` are in options.py (start-up time).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import ascent, fits, landscape, measurements, own_simulation, state_evolution
    from .base import Asked, Experiment, check, experiment
    from .options import EXPERIMENTS, option
    from .report import Comparison, Report, compare, compare_share, compare_sizes
    from .trials import TrialExperiment

__all__ = [
    "EXPERIMENTS",
    "Asked",
    "Comparison",
    "Experiment",
    "Report",
    "TrialExperiment",
    "ascent",
    "check",
    "compare",
    "compare_share",
    "compare_sizes",
    "experiment",
    "fits",
    "landscape",
    "measurements",
    "option",
    "own_simulation",
    "state_evolution",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(".experiments", __name__), name)
