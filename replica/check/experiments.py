"""Every module that registers an experiment, and what runs them."""

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
