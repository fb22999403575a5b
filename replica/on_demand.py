"""The names that ``replica`` gives, each imported when it is first asked for.

Start-up time: JAX, SymPy, xarray, SciPy and diffrax take seconds to import, and ``replica --help``,
a TAB of completion or a script that only loads a file need none or one of them.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

PHYSICS = "equations"
"""The home of every name that ``HOMES`` does not list."""
ROOMS = {
    "equations": "equations",
    "solvers": "solvers",
    "dynamics": "replica.dynamics",
    "plots": "replica.plots",
    "landscape": "replica.check.landscape",
}
"""Names that are modules."""
HOMES = {
    "ProxSlope": "equations.calculus.scalar_envelope",
    "ProxValue": "equations.calculus.scalar_envelope",
    "ScalarEnvelope": "equations.calculus.scalar_envelope",
    "output_term": "equations.glm.channels",
    "Component": "equations.glm.densities",
    "gaussian_term": "equations.glm.priors",
    "mixture_error_term": "equations.glm.priors",
    "sign_term": "equations.glm.priors",
    "Status": "solvers.result",
    "Report": "replica.check",
    "check": "replica.check",
    "InputError": "replica.errors",
    "LoweringError": "replica.errors",
    "ReplicaError": "replica.errors",
    "SolveError": "replica.errors",
    "StoreError": "replica.errors",
    "to_tables": "replica.files.export",
    "load": "replica.files.store",
    "save": "replica.files.store",
    "versions": "replica.files.store",
    "cache_folder": "replica.runtime.kept",
    "clear_caches": "replica.runtime.programs",
    "Sensitivity": "replica.linear_response",
    "onset": "replica.linear_response",
    "sensitivity": "replica.linear_response",
    "NodeSizes": "replica.lowering.node_sizes",
    "curve": "replica.phase.curve",
    "phase_diagram": "replica.phase.maps.diagram",
    "Thresholds": "replica.phase.thresholds",
    "thresholds": "replica.phase.thresholds",
    "plot": "replica.plots.figures",
    "show": "replica.show",
    "Solution": "replica.solution",
    "evaluate": "replica.solve",
    "solve": "replica.solve",
    "to_dataset": "replica.sweeps.dataset",
    "optimise": "replica.sweeps.optimise",
    "Optimum": "replica.sweeps.search",
    "sweep": "replica.sweeps.sweep",
    "Branch": "replica.theories",
    "Settings": "replica.theories",
}

RENAMED = {
    "Rule": "NodeSizes",
    "bayes_check": 'replica.check("slr-bayes", ...)',
    "branch_map": "replica.phase_diagram",
    "descent": "replica.dynamics.descent",
    "erm_check": 'replica.check("slr-erm", ...)',
    "figures": "replica.plot(...)",
    "own_check": 'replica.check("my_model.py", ...)',
    "recovery": "replica.dynamics.recovery",
    "store": "replica.save and replica.load",
    "subspace_check": 'replica.check("subspace", ...)',
    "subspace_plot": "replica.plots",
}
"""Names of earlier versions, and what to write instead."""


def missing(name: str) -> AttributeError:
    """What is raised for a name that ``replica`` does not have."""
    if name in RENAMED:
        return AttributeError(f"replica.{name} has another name now: write {RENAMED[name]}")
    return AttributeError(f"module 'replica' has no attribute {name!r}")


class Face(ModuleType):
    """A module whose ``__all__`` is imported name by name; the class of ``replica`` itself."""

    __all__: list[str]

    def __getattr__(self, name: str) -> Any:
        if name not in self.__all__:
            raise missing(name)
        if name in ROOMS:
            value = import_module(ROOMS[name])
        else:
            value = getattr(import_module(HOMES.get(name, PHYSICS)), name)
        super().__setattr__(name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # Importing replica/solve.py makes Python set replica.solve to that module, which would hide
        # the function that users call by this name.
        if name in HOMES and isinstance(value, ModuleType):
            return
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.__all__})
