"""One point: every branch, ranked by its free energy, each with status, residual and error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp

from equations import Model
from solvers import Status, check_damping

from . import flow, gram_flow
from .errors import InputError, SolveError
from .judge import judged
from .lower import Rule
from .precision import double_precision
from .problem import Point, Settings, point_solver, problem
from .proximal_solve import note, settle, settle_starts
from .settings import nearest, printable, resolve

MAX_LEVEL = 2
"""How often the node sets are refined (1.6 times each) before an average is called unresolved."""


@dataclass(frozen=True)
class Branch:
    """A fixed point reached from one start (or several, joined by "+").

    Attributes
    ----------
    start : str
    overlaps, conjugates, observables : dict of name -> float
    free_energy : float
        Phi per dimension (the objective, for a model without conjugates).
    status : Status
    residual : float
        Undamped, max|F(x) - x|.
    error : dict of name -> float
        Error estimates of overlaps, conjugates, observables and ``free_energy``.
    steps : int
        Evaluations of the map.
    spectral_radius : float
        Of dF/dx: below 1 the branch is stable. For a flow, of its time-one map: e^rate.
    level : int
        Refinements of the node sets that were needed.
    note : str
        What the sentence of ``status`` leaves open, such as in how many samples a minimisation failed.
    rates : tuple of float
        Of the end of a flow of several overlaps: growth rates of small deviations, largest first.
    """

    start: str
    overlaps: dict[str, float]
    conjugates: dict[str, float]
    free_energy: float
    observables: dict[str, float]
    status: Status
    residual: float
    error: dict[str, float]
    steps: int
    spectral_radius: float
    level: int = 0
    note: str = ""
    rates: tuple[float, ...] = ()

    @property
    def message(self) -> str:
        """The sentence of the status, with its note."""
        return f"{self.status.value} ({self.note})" if self.note else self.status.value

    @property
    def ok(self) -> bool:
        return self.status.is_point


@dataclass(frozen=True)
class Solution:
    """Every branch of a model at one point; ``best`` indexes the equilibrium one (None if none succeeded)."""

    model: Model
    controls: dict[str, float]
    branches: tuple[Branch, ...]
    best: int | None
    settings: Settings = field(default_factory=Settings)

    def branch(self, start: str) -> Branch:
        """The branch reached from ``start``."""
        for branch in self.branches:
            if start in branch.start.split("+"):
                return branch
        raise InputError(f"{self.model.name} has no start {start!r}: {nearest(start, self.model.starts)}")

    @property
    def risks(self) -> dict[str, float]:
        """Algorithmic (uninformed branch) and information-theoretic (best branch) risk, where the model has them (a Bayes-optimal one)."""
        if self.best is None or self.model.path != "compiled" or "uninformed" not in self.model.starts or "risk" not in self.model.observables:
            return {}
        return {"algorithmic": self.branch("uninformed").observables["risk"], "information_theoretic": self.branches[self.best].observables["risk"]}

    def to_dict(self) -> dict[str, Any]:
        """The JSON object that ``replica solve --json`` prints (NaN as null)."""
        about = {"model": self.model.name, "options": dict(self.model.options), "controls": printable(self.controls)}
        if self.model.path == "flow":
            return _json_safe(about | {"fixed_points": [(gram_flow if self.model.gram else flow).describe(b) for b in self.branches]})
        phi = "free_entropy" if self.model.best == "largest" else "objective"
        branches = [
            {
                "start": b.start, "overlaps": b.overlaps, "conjugates": b.conjugates, phi: b.free_energy, "observables": b.observables,
                "status": b.status.value, "residual": b.residual, "error": b.error, "steps": b.steps,
                "spectral_radius": b.spectral_radius, "level": b.level, **({"note": b.note} if b.note else {}),
            }
            for b in self.branches
        ]  # fmt: skip
        result = about | {"branches": branches, "best": self.best}
        return _json_safe(result | ({"risk": self.risks} if self.risks else {}))


def _json_safe(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _json_safe(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_json_safe(v) for v in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def solve(
    model: str | Model,
    *,
    settings: Settings | None = None,
    starts: dict[str, dict[str, float]] | None = None,
    nodes: Rule | None = None,
    throw: bool = False,
    **controls: Any,
) -> Solution:
    """Solve a model at one point, from every start.

    Parameters
    ----------
    model : str or Model
    settings : Settings, optional
        Tolerance, damping, accuracy, route.
    starts : dict, optional
        Starting overlaps by name; the model's own by default.
    nodes : Rule, optional
        Sizes of the node sets.
    throw : bool
        Raise ``SolveError`` if a branch fails, instead of reporting its status.
    **controls
        Control values and options of the model, such as ``alpha=1.4`` or ``activation="erf"``.

    Returns
    -------
    Solution

    Raises
    ------
    InputError
        A setting is unknown, missing or out of range.
    """
    settings = settings or Settings()
    check(settings)
    built, values = resolve(model, controls)
    settings = completed(settings, built)
    if built.path == "flow":
        return _flow_solution(built, values, settings, starts or built.starts)
    rule = nodes or default_rule(built, values)
    if settings.route == "sampled":
        rule = replace(rule, tokens=int(values["L"]) if "L" in values else None)
    initial = {name: start_vector(built, start, values) for name, start in (starts or built.starts).items()}
    c = np.array([values[q.name] for q in built.controls])
    with double_precision():
        if built.path == "proximal":
            found = settle_starts(built, initial, c, settings)
        elif built.scrambled:
            found = _settled_on_samples(built, initial, c, settings, rule)
        else:
            found = [(name, *settled(built, x0, c, settings, rule)) for name, x0 in initial.items()]
    branches = _branches(built, found, c)
    solution = Solution(built, values, tuple(branches), best_branch(built, branches), settings)
    failed = [b for b in branches if not b.ok]
    if throw and failed:
        raise SolveError(f"{built.name} from the {failed[0].start} start: {failed[0].message}")
    return solution


def _branches(model: Model, found: list[tuple[str, Point, int]], c: np.ndarray) -> list[Branch]:
    """The distinct points among those found, (start, point, level); a trained predictor's by energy, failures last."""
    branches = _merge([_branch(model, name, point, level) for name, point, level in found])
    if model.path == "proximal":
        notes = {name: note(model, point, c, level) for name, point, level in found}
        branches = [replace(b, note=notes[b.start.split("+")[0]]) for b in branches]
        branches.sort(key=lambda b: (not b.ok, b.free_energy))
    return branches


def _flow_solution(model: Model, values: dict[str, float], settings: Settings, starts: Mapping[str, Any]) -> Solution:
    """Every fixed point of a flow of one overlap, unstable ones too; the ends from each start, for several."""
    with double_precision():
        if model.gram:
            at = {name: start_vector(model, start, values) for name, start in starts.items()}
            branches = _merge([Branch(**entry) for entry in gram_flow.fixed_points(model, values, at, settings)])
        else:
            branches = [Branch(**entry) for entry in flow.fixed_points(model, values, settings.tol)]
    return Solution(model, values, tuple(branches), best_branch(model, branches), settings)


def default_rule(model: Model, *points: dict[str, float]) -> Rule:
    """The default node sets, enlarged where the model asks for it at any of the given control values."""
    sizes: dict[str, float] = {}
    for values in points:
        at = {q.symbol: values[q.name] for q in model.controls}
        for name, need in model.nodes.items():
            sizes[name] = max(sizes.get(name, 1.0), float(sp.sympify(need).subs(at)))
    rule = Rule().at_least(sizes)
    if model.scrambled:
        tokens = int(max((values["L"] for values in points if "L" in values), default=0)) or None
        fewer = math.ceil(math.log2(max(tokens or 1, 4) / 4)) // 2
        rule = replace(rule, tokens=tokens, log2_samples=FIRST_SAMPLES - fewer)
    return rule


FIRST_SAMPLES = 12
"""log2 of the samples per set to begin with, for up to four explicit tokens; the square root of the cost per sample is saved beyond."""


def completed(settings: Settings, model: Model) -> Settings:
    """``settings`` with the accuracy that ``model`` is solved to unless asked otherwise."""
    return settings if settings.accuracy is not None else replace(settings, accuracy=model.accuracy)


def check(settings: Settings) -> None:
    """Refuse settings that cannot work."""
    try:
        check_damping(settings.damping)
    except ValueError as problem:
        raise InputError(str(problem)) from None
    if settings.route not in ("exact", "sampled"):
        raise InputError(f"unknown route {settings.route!r}: choose exact or sampled")
    if not settings.tol > 0 or not (settings.accuracy is None or settings.accuracy > 0) or settings.max_steps < 1:
        raise InputError("tol and accuracy must be positive and max_steps at least 1")


def start_vector(model: Model, start: Any, values: dict[str, float]) -> np.ndarray:
    """A start's overlaps as numbers; its entries may be expressions in the controls."""
    at = {q.symbol: values[q.name] for q in model.controls if q.name in values}
    return np.array([float(sp.sympify(start[q.name]).subs(at)) for q in model.overlaps], dtype=float)


COMPILER_OPTIONS = {"xla_backend_optimization_level": 1}
"""Full optimisation compiles 1.5 times as long for code that runs no faster here."""


@cache
def compiled(model: Model, rule: Rule, settings: Settings) -> Any:
    """The jitted point solver."""
    return jax.jit(point_solver(model, rule, settings), compiler_options=COMPILER_OPTIONS)


def settled(model: Model, x0: np.ndarray, c: np.ndarray, settings: Settings, rule: Rule, max_level: int = MAX_LEVEL) -> tuple[Point, int]:
    """Solve from one start, refining the node sets until the error meets ``settings.accuracy``; judged."""
    if model.path == "proximal":
        return settle(model, x0, c, settings)
    if settings.route == "sampled":
        return _sampled(model, x0, c, settings, rule), 0
    level = 0
    while True:
        point = jax.tree.map(np.asarray, compiled(model, rule, settings)(jnp.asarray(x0), jnp.asarray(c)))
        point = judged(model, point, settings)
        if level == max_level or Status.of(int(point.status)) is not Status.UNRESOLVED:
            return point, level
        rule, level = rule.refined(), level + 1


def _settled_on_samples(model: Model, starts: dict[str, np.ndarray], c: np.ndarray, settings: Settings, rule: Rule) -> list[tuple[str, Point, int]]:
    """Every start as (name, judged point, level); starts that meet on the same samples are refined once."""
    known: list[tuple[Point, Point, int]] = []
    results = []
    for name, x0 in starts.items():
        first, level = settled(model, x0, c, settings, rule, max_level=0)
        twin = next((k for k in known if np.max(np.abs(k[0].x - first.x)) <= TOGETHER), None)
        if twin is None:
            end = first
            if Status.of(int(first.status)) is Status.UNRESOLVED:
                end, more = settled(model, np.asarray(first.x), c, settings, rule.refined(), MAX_LEVEL - 1)
                level = more + 1
            twin = (first, end, level)
            known.append(twin)
        results.append((name, twin[1], twin[2]))
    return results


TOGETHER = 1e-7
"""Points of one map closer than this are one."""


def _sampled(model: Model, x0: np.ndarray, c: np.ndarray, settings: Settings, rule: Rule) -> Point:
    """One solve per scrambled Sobol set; the mean, with twice the standard error over the sets."""
    if model.sampled is None:
        raise InputError(f"{model.name} has no sampled route: use route='exact'")
    runs = [compiled(model, rule, settings)(jnp.asarray(np.maximum(x0, 1e-3)), jnp.asarray([*c, k])) for k in range(rule.scrambles)]
    stacked = jax.tree.map(lambda *a: np.stack(a), *runs)
    mean = jax.tree.map(lambda a: a.mean(axis=0), stacked)
    error = jax.tree.map(lambda a: 2 * a.std(axis=0, ddof=1) / np.sqrt(len(runs)), stacked)
    failed = [s for s in stacked.status if Status.of(s) is not Status.SUCCESSFUL]
    point = mean._replace(
        steps=stacked.steps.sum(), residual=stacked.residual.max(), status=np.asarray(failed[0] if failed else Status.SUCCESSFUL.code),
        error_x=error.x, error_hats=error.hats, error_free_energy=error.free_energy, error_observables=error.observables,
        unresolved=error.x.max(),
    )  # fmt: skip
    return judged(model, point, settings)


def _branch(model: Model, start: str, point: Point, level: int) -> Branch:
    def named(names: Any, values: np.ndarray) -> dict[str, float]:
        return {n: float(v) for n, v in zip(names, values, strict=True)}

    overlaps, hats = [q.name for q in model.overlaps], [q.name for q in model.conjugates]
    error = named(overlaps, point.error_x) | named(hats, point.error_hats) | named(model.observables, point.error_observables)
    return Branch(
        start, named(overlaps, point.x), named(hats, point.hats), float(point.free_energy), named(model.observables, point.observables),
        Status.of(int(point.status)), float(point.residual), error | {"free_energy": float(point.error_free_energy)}, int(point.steps),
        float(point.radius), level,
    )  # fmt: skip


def same(a: Branch, b: Branch) -> bool:
    """Whether two branches are one point within their errors (and 1e-7)."""
    close = all(abs(a.overlaps[k] - b.overlaps[k]) <= 1e-7 + a.error[k] + b.error[k] for k in a.overlaps)
    return a.ok and b.ok and close


def _merge(branches: list[Branch]) -> list[Branch]:
    """One entry per distinct point; its start names join those that reached it."""
    kept: list[Branch] = []
    for branch in branches:
        twin = next((i for i, k in enumerate(kept) if same(k, branch)), None)
        if twin is None:
            kept.append(branch)
        else:
            kept[twin] = replace(kept[twin], start=f"{kept[twin].start}+{branch.start}")
    return kept


def best_branch(model: Model, branches: list[Branch]) -> int | None:
    """Index of the successful branch with the best free energy."""
    good = [i for i, b in enumerate(branches) if b.ok]
    pick = max if model.best == "largest" else min
    return pick(good, key=lambda i: branches[i].free_energy) if good else None


def evaluate(model: str | Model, at: dict[str, float], *, nodes: Rule | None = None, **controls: Any) -> dict[str, Any]:
    """Everything a model defines at given overlaps, without iterating.

    Returns
    -------
    dict with ``model``, ``controls``, ``overlaps``, ``conjugates``, ``update`` (F(x)), ``free_entropy`` or
    ``objective``, ``observables``, ``residual`` and ``spectral_radius``.
    """
    built, values = resolve(model, controls)
    if built.path == "proximal":
        raise InputError(f"{built.name} averages over samples and has no evaluation at given overlaps yet: use solve")
    names = [q.name for q in built.overlaps]
    for name in at:
        if name not in names:
            raise InputError(f"{built.name} has no overlap {name!r}: {nearest(name, names)}")
    missing = [n for n in names if n not in at]
    if missing:
        raise InputError(f"{built.name} needs {', '.join(missing)}: give it with --at {missing[0]}=VALUE")
    for q in built.overlaps:
        if not q.contains(at[q.name]):
            raise InputError(f"{q.name} = {at[q.name]:g} is out of range: it must be {q.range_text()}")
    if built.path == "flow":
        with double_precision():
            return _json_safe((gram_flow if built.gram else flow).evaluation(built, values, at))
    c, x = np.array([values[q.name] for q in built.controls]), np.array([at[n] for n in names], dtype=float)
    with double_precision():
        state = jax.tree.map(np.asarray, evaluator(built, nodes or default_rule(built, values))(jnp.asarray(c), jnp.asarray(x)))
        radius = float(np.max(np.abs(np.linalg.eigvals(state.slope)), initial=0)) if np.all(np.isfinite(state.slope)) else float("nan")
    phi = "free_entropy" if built.best == "largest" else "objective"
    result = {
        "model": built.name, "options": dict(built.options), "controls": printable(values), "overlaps": dict(zip(names, map(float, x), strict=True)),
        "conjugates": {q.name: float(v) for q, v in zip(built.conjugates, state.hats, strict=True)},
        "update": dict(zip(names, map(float, state.update), strict=True)), phi: float(state.free_energy),
        "observables": {k: float(v) for k, v in zip(built.observables, state.observables, strict=True)},
        "residual": float(np.max(np.abs(state.update - x), initial=0.0)), "spectral_radius": radius,
    }  # fmt: skip
    return _json_safe(result)


@cache
def evaluator(model: Model, rule: Rule) -> Any:
    """Jitted: (controls, overlaps) -> State."""
    return jax.jit(problem(model, rule, "exact").state)
