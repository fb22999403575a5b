"""Replica-symmetric saddle-point equations: derived with SymPy, compiled with JAX, every branch
found.

>>> import replica
>>> replica.solve("slr-bayes", alpha=1.4, L=4, nu=1, Delta=1e-4).risks   # doctest: +SKIP
{'algorithmic': 0.8264..., 'information_theoretic': 0.6453...}
"""

# The guard comes first: a user's own equations.py or solvers/ would be imported instead of ours.
from ._guard import check_siblings

check_siblings()

import equations  # noqa: E402
import solvers  # noqa: E402
from equations import Model, Quantity  # noqa: E402
from solvers import Status  # noqa: E402

from .errors import InputError, LoweringError, ReplicaError, SolveError, StoreError  # noqa: E402
from .files.export import to_tables  # noqa: E402
from .files.store import load, save  # noqa: E402
from .linear_response import (  # noqa: E402
    Sensitivity,
    onset,
    sensitivity,
)
from .lowering.lower import NodeSizes  # noqa: E402
from .phase.curve import curve  # noqa: E402
from .phase.diagram import phase_diagram  # noqa: E402
from .phase.thresholds import Thresholds, thresholds  # noqa: E402
from .solution import Branch, Solution  # noqa: E402
from .solve import evaluate, solve  # noqa: E402
from .sweeps.dataset import to_dataset  # noqa: E402
from .sweeps.optimise import optimise  # noqa: E402
from .sweeps.search import Optimum  # noqa: E402
from .sweeps.sweep import sweep  # noqa: E402
from .theories.saddle_point import Settings  # noqa: E402

__all__ = [
    "Branch",
    "InputError",
    "LoweringError",
    "Model",
    "NodeSizes",
    "Optimum",
    "Quantity",
    "ReplicaError",
    "Sensitivity",
    "Settings",
    "Solution",
    "SolveError",
    "Status",
    "StoreError",
    "Thresholds",
    "curve",
    "equations",
    "evaluate",
    "load",
    "onset",
    "optimise",
    "phase_diagram",
    "save",
    "sensitivity",
    "solve",
    "solvers",
    "sweep",
    "thresholds",
    "to_dataset",
    "to_tables",
]
