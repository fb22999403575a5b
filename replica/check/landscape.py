"""Which branch of the theory a local algorithm reaches: optimisers on trained attention, message
passing on the posterior.

Runs and branches are compared by their cosines with the teacher, c_a = m_a/sqrt(q_a); a run counts
for the nearest branch within ``within``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from ..errors import InputError
from ..inputs import nearest
from ..simulate import erm
from ..solution import Branch, Solution
from ..solve import solve
from . import fits, state_evolution
from .base import EXPERIMENTS, Log, silent
from .trials import read_trials

MESSAGES = "message-passing"
ALGORITHMS = (*erm.METHODS, MESSAGES)
COSINES = ("cosine_k", "cosine_v")
WITHIN = 0.1
"""Distance of cosines up to which a run is said to have reached a branch."""
NONE = "none"


def branches(model: str, given: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Cosines of every solution of ``slr-erm`` or ``slr-bayes``, by the names of the starts that
    lead to it.
    """
    return cosines_of(solve(model, **given))


def cosines_of(solution: Solution) -> dict[str, tuple[float, float]]:
    """(c_k, c_v) of the branches that are solutions; for the posterior mean m = q, so
    c = sqrt(q).
    """
    found = {}
    for branch in solution.branches:
        if branch.ok:
            found[branch.start] = (_branch_cosine(branch, "k"), _branch_cosine(branch, "v"))
    return found


def _branch_cosine(branch: Branch, a: str) -> float:
    q = branch.overlaps[f"q_{a}"]
    return float(cosine(branch.overlaps.get(f"m_{a}", q), q))


def cosine(m: Any, q: Any) -> Any:
    """m/sqrt(q), 0 at q = 0."""
    positive = np.asarray(q) > 0
    return np.where(positive, m / np.sqrt(np.where(positive, q, 1.0)), 0.0)


def reached(
    algorithm: str,
    given: Mapping[str, Any],
    theory: Mapping[str, tuple[float, float]],
    within: float = WITHIN,
    tell: Log = silent,
    **options: Any,
) -> xr.Dataset:
    """Run an algorithm from a blind and from an informed start, and say which of the branches each
    run ends at.

    Parameters
    ----------
    algorithm : {"lbfgs", "bfgs", "newton-cg", "gd", "message-passing"}
    given : dict
        Settings of slr-erm, or of slr-bayes for message passing.
    theory : dict of name -> (c_k, c_v)
        What ``branches`` gives.
    within : float
        Distance in the plane of the cosines up to which a branch counts as reached.
    **options
        ``sizes``, ``trials`` and ``seed``, as of ``replica check``; trial i has the same data
        whatever the algorithm.

    Returns
    -------
    xarray.Dataset
        Over (start, size, trial): ``cosine_k``, ``cosine_v``, ``risk``, ``steps``, ``converged``,
        ``branch`` (a name or "none") and ``distance``.
    """
    if algorithm not in ALGORITHMS:
        raise InputError(f"there is no algorithm {algorithm!r}: {nearest(algorithm, ALGORITHMS)}")
    if algorithm == MESSAGES:
        starts, results = _messages(given, tell, options)
    else:
        starts, results = _fits(algorithm, given, tell, options)
    found = {f"cosine_{a}": cosine(results[f"m_{a}"], results[f"q_{a}"]) for a in "kv"}
    names, distance = _nearest(np.stack([found[c] for c in COSINES], axis=-1), theory, within)
    found |= {
        "risk": results["risk"],
        "steps": results["steps"],
        "converged": results["ended"] == 0,
        "branch": names,
        "distance": distance,
    }
    variables = {name: (("start", "size", "trial"), values) for name, values in found.items()}
    coords = {"start": starts, "size": list(read_trials(**options).sizes)}
    return xr.Dataset(variables, coords, {"algorithm": algorithm})


Runs = tuple[list[str], dict[str, np.ndarray]]
"""Names of the starts, and results over (start, size, trial)."""


def _fits(method: str, given: Mapping[str, Any], tell: Log, options: dict[str, Any]) -> Runs:
    plan = EXPERIMENTS[fits.MODEL].planned(given, method=method, **options)
    results = fits.simulate_fits(plan, tell)
    return list(fits.STARTS), {name: np.moveaxis(values, -1, 0) for name, values in results.items()}


def _messages(given: Mapping[str, Any], tell: Log, options: dict[str, Any]) -> Runs:
    runs = []
    for start in state_evolution.STARTS:
        plan = EXPERIMENTS[state_evolution.MODEL].planned(given, start=start, **options)
        runs.append(state_evolution.simulate_messages(plan, tell))
    results = {name: np.stack([run[name] for run in runs]) for name in runs[0]}
    return list(state_evolution.STARTS), results


def _nearest(
    points: np.ndarray, theory: Mapping[str, tuple[float, float]], within: float
) -> tuple[np.ndarray, np.ndarray]:
    """Name of the branch nearest to each of ``points`` (..., 2) ("none" beyond ``within``), and its
    distance (inf without a branch).
    """
    if not theory:
        return np.full(points.shape[:-1], NONE), np.full(points.shape[:-1], np.inf)
    distances = np.linalg.norm(points[..., None, :] - np.array(list(theory.values())), axis=-1)
    best = distances.argmin(axis=-1)
    distance = np.take_along_axis(distances, best[..., None], axis=-1)[..., 0]
    names = np.array(list(theory))[best]
    return np.where(distance <= within, names, NONE), distance


def counts(found: xr.Dataset, theory: Sequence[str]) -> list[dict[str, Any]]:
    """One row per start and size: how many runs ended at each branch or at none, how many did not
    converge, and medians.
    """
    rows = []
    for start in found["start"].values:
        for size in found["size"].values:
            at = {
                "algorithm": found.attrs["algorithm"],
                "start": str(start),
                "D": int(size),
            }
            rows.append(at | _counted(found.sel(start=start, size=size), theory))
    return rows


def _counted(runs: xr.Dataset, theory: Sequence[str]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name in (*theory, NONE):
        row[name] = int((runs["branch"] == name).sum())
    row["unconverged"] = int((~runs["converged"]).sum())
    for name in (*COSINES, "risk", "distance"):
        row[name] = float(runs[name].median())
    return row
