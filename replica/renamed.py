"""Names of earlier versions, and what to write instead."""

from __future__ import annotations

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


def missing(name: str) -> AttributeError:
    """What is raised for a name that ``replica`` does not have."""
    if name in RENAMED:
        return AttributeError(f"replica.{name} has another name now: write {RENAMED[name]}")
    return AttributeError(f"module 'replica' has no attribute {name!r}")
