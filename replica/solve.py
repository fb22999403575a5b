"""One point: every branch, ranked by its free energy, each with status, residual and error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp

from equations import Model
from equations.slr.laws import read_law
from solvers import Status, check_damping

from .errors import InputError, SolveError
from .inputs import nearest, printable
from .lowering.lower import NodeSizes
from .lowering.planted import halvings
from .models import resolve
from .precision import double_precision
from .solution import Branch, Solution, best_branch, branch_of, json_safe, merged
from .theories import gradient_flow, sphere_flow
from .theories.erm import note, solve_starts
from .theories.erm import solve_start as solve_start_on_samples
from .theories.judge import classify, refuse_non_finite
from .theories.saddle_point import Point, Settings, point_solver, problem

MAX_LEVEL = 2
"""How often the node sets are refined (1.6 times each) before an average is called unresolved."""


def solve(
    model: str | Model,
    *,
    settings: Settings | None = None,
    starts: dict[str, dict[str, float]] | None = None,
    nodes: NodeSizes | None = None,
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
    sizes = nodes or default_sizes(built, values)
    if settings.route == "sampled":
        sizes = replace(sizes, tokens=int(values["L"]) if "L" in values else None)
    initial = {
        name: start_vector(built, start, values) for name, start in (starts or built.starts).items()
    }
    c = np.array([values[q.name] for q in built.controls])
    with double_precision():
        if built.path == "proximal":
            found = solve_starts(built, initial, c, settings)
        elif built.scrambled:
            found = _settled_on_samples(built, initial, c, settings, sizes)
        else:
            found = [
                (name, *solve_start(built, x0, c, settings, sizes)) for name, x0 in initial.items()
            ]
        if built.source is not None and built.path == "compiled":
            refuse_non_finite(
                built,
                initial,
                found,
                lambda x: evaluator(built, sizes)(jnp.asarray(c), jnp.asarray(x)),
            )
    branches = _branches(built, found, c)
    solution = Solution(built, values, tuple(branches), best_branch(built, branches), settings)
    failed = [b for b in branches if not b.ok]
    if throw and failed:
        raise SolveError(f"{built.name} from the {failed[0].start} start: {failed[0].message}")
    return solution


def _branches(model: Model, found: list[tuple[str, Point, int]], c: np.ndarray) -> list[Branch]:
    """The distinct points among those found, (start, point, level); a trained predictor's by
    energy, failures last.
    """
    branches = merged([branch_of(model, name, point, level) for name, point, level in found])
    if model.path == "proximal":
        notes = {name: note(model, point, c, level) for name, point, level in found}
        branches = [replace(b, note=notes[b.start.split("+")[0]]) for b in branches]
        branches.sort(key=lambda b: (not b.ok, b.free_energy))
    return branches


def _flow_solution(
    model: Model, values: dict[str, float], settings: Settings, starts: Mapping[str, Any]
) -> Solution:
    """Every fixed point of a flow of one overlap, unstable ones too; the ends from each start, for
    several.
    """
    with double_precision():
        if model.gram:
            at = {name: start_vector(model, start, values) for name, start in starts.items()}
            branches = merged(
                [
                    Branch(**entry)
                    for entry in gradient_flow.fixed_points(model, values, at, settings)
                ]
            )
        else:
            branches = [
                Branch(**entry) for entry in sphere_flow.fixed_points(model, values, settings.tol)
            ]
    return Solution(model, values, tuple(branches), best_branch(model, branches), settings)


def default_sizes(model: Model, *points: dict[str, float]) -> NodeSizes:
    """The default node sets, enlarged where the model asks for it at any of the given control
    values.
    """
    needed: dict[str, float] = {}
    for values in points:
        at = {q.symbol: values[q.name] for q in model.controls}
        for name, need in model.nodes.items():
            needed[name] = max(needed.get(name, 1.0), float(sp.sympify(need).subs(at)))
    sizes = NodeSizes().at_least(needed)
    if model.scrambled:
        law = read_law(model.options["L"]) if "L" in model.options else ()
        tokens = (
            int(
                max(
                    (n for n, _ in law),
                    default=max((values["L"] for values in points if "L" in values), default=0),
                )
            )
            or None
        )
        fewer = math.ceil(math.log2(max(tokens or 1, 4) / 4)) // 2
        sizes = replace(
            sizes,
            tokens=tokens,
            log2_samples=max(FIRST_SAMPLES - fewer, halvings(len(law)) + FEWEST_SAMPLES),
        )
    return sizes


FIRST_SAMPLES = 12
"""log2 of the samples per set to begin with, for up to four explicit tokens; the square root of the
cost per sample is saved beyond.
"""


FEWEST_SAMPLES = 6
"""log2 of the samples per set that each length of a law has at least."""


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
    if (
        not settings.tol > 0
        or not (settings.accuracy is None or settings.accuracy > 0)
        or settings.max_steps < 1
    ):
        raise InputError("tol and accuracy must be positive and max_steps at least 1")


def start_vector(model: Model, start: Any, values: dict[str, float]) -> np.ndarray:
    """A start's overlaps as numbers; its entries may be expressions in the controls."""
    at = {q.symbol: values[q.name] for q in model.controls if q.name in values}
    return np.array(
        [float(sp.sympify(start[q.name]).subs(at)) for q in model.overlaps], dtype=float
    )


COMPILER_OPTIONS = {"xla_backend_optimization_level": 1}
"""Full optimisation compiles 1.5 times as long for code that runs no faster here."""


@cache
def compiled(model: Model, sizes: NodeSizes, settings: Settings) -> Any:
    """The jitted point solver."""
    return jax.jit(point_solver(model, sizes, settings), compiler_options=COMPILER_OPTIONS)


def solve_start(
    model: Model,
    x0: np.ndarray,
    c: np.ndarray,
    settings: Settings,
    sizes: NodeSizes,
    max_level: int = MAX_LEVEL,
) -> tuple[Point, int]:
    """Solve from one start, refining the node sets until the error meets ``settings.accuracy``;
    judged.
    """
    if model.path == "proximal":
        return solve_start_on_samples(model, x0, c, settings)
    if settings.route == "sampled":
        return _sampled(model, x0, c, settings, sizes), 0
    level = 0
    while True:
        point = jax.tree.map(
            np.asarray, compiled(model, sizes, settings)(jnp.asarray(x0), jnp.asarray(c))
        )
        point = classify(model, point, settings)
        if level == max_level or Status.of(int(point.status)) is not Status.UNRESOLVED:
            return point, level
        sizes, level = sizes.refined(), level + 1


def _settled_on_samples(
    model: Model, starts: dict[str, np.ndarray], c: np.ndarray, settings: Settings, sizes: NodeSizes
) -> list[tuple[str, Point, int]]:
    """Every start as (name, judged point, level); starts that meet on the same samples are refined
    once.
    """
    known: list[tuple[Point, Point, int]] = []
    results = []
    for name, x0 in starts.items():
        first, level = solve_start(model, x0, c, settings, sizes, max_level=0)
        twin = next((k for k in known if np.max(np.abs(k[0].x - first.x)) <= TOGETHER), None)
        if twin is None:
            end = first
            if Status.of(int(first.status)) is Status.UNRESOLVED:
                end, more = solve_start(
                    model, np.asarray(first.x), c, settings, sizes.refined(), MAX_LEVEL - 1
                )
                level = more + 1
            twin = (first, end, level)
            known.append(twin)
        results.append((name, twin[1], twin[2]))
    return results


TOGETHER = 1e-7
"""Points of one map closer than this are one."""


def _sampled(
    model: Model, x0: np.ndarray, c: np.ndarray, settings: Settings, sizes: NodeSizes
) -> Point:
    """One solve per scrambled Sobol set; the mean, with twice the standard error over the sets."""
    if model.sampled is None:
        raise InputError(f"{model.name} has no sampled route: use route='exact'")
    runs = [
        compiled(model, sizes, settings)(jnp.asarray(np.maximum(x0, 1e-3)), jnp.asarray([*c, k]))
        for k in range(sizes.scrambles)
    ]
    stacked = jax.tree.map(lambda *a: np.stack(a), *runs)
    mean = jax.tree.map(lambda a: a.mean(axis=0), stacked)
    error = jax.tree.map(lambda a: 2 * a.std(axis=0, ddof=1) / np.sqrt(len(runs)), stacked)
    failed = [s for s in stacked.status if Status.of(s) is not Status.SUCCESSFUL]
    point = mean._replace(
        steps=stacked.steps.sum(),
        residual=stacked.residual.max(),
        status=np.asarray(failed[0] if failed else Status.SUCCESSFUL.code),
        error_x=error.x,
        error_hats=error.hats,
        error_free_energy=error.free_energy,
        error_observables=error.observables,
        unresolved=error.x.max(),
    )
    return classify(model, point, settings)


def evaluate(
    model: str | Model, at: dict[str, float], *, nodes: NodeSizes | None = None, **controls: Any
) -> dict[str, Any]:
    """Everything a model defines at given overlaps, without iterating.

    Parameters
    ----------
    model : str or Model
        A registered name, or a model of your own.
    at : dict of overlap -> value
        All overlaps of the model, inside their ranges.
    nodes : Rule, optional
        Node sets; those of ``solve`` by default.
    **controls
        Controls and options of the model.

    Returns
    -------
    dict
        ``model``, ``controls``, ``overlaps``, ``conjugates``, ``update`` (F(x)), ``free_entropy``
        or ``objective``, ``observables``, ``residual`` and ``spectral_radius``.
    """
    built, values = resolve(model, controls)
    if built.path == "proximal":
        raise InputError(
            f"{built.name} averages over samples and has no evaluation at given overlaps yet: use"
            " solve"
        )
    names = [q.name for q in built.overlaps]
    for name in at:
        if name not in names:
            raise InputError(f"{built.name} has no overlap {name!r}: {nearest(name, names)}")
    missing = [n for n in names if n not in at]
    if missing:
        raise InputError(
            f"{built.name} needs {', '.join(missing)}: give it with --at {missing[0]}=VALUE"
        )
    for q in built.overlaps:
        if not q.contains(at[q.name]):
            raise InputError(
                f"{q.name} = {at[q.name]:g} is out of range: it must be {q.range_text()}"
            )
    if built.path == "flow":
        with double_precision():
            return json_safe(
                (gradient_flow if built.gram else sphere_flow).evaluation(built, values, at)
            )
    c, x = (
        np.array([values[q.name] for q in built.controls]),
        np.array([at[n] for n in names], dtype=float),
    )
    with double_precision():
        state = jax.tree.map(
            np.asarray,
            evaluator(built, nodes or default_sizes(built, values))(jnp.asarray(c), jnp.asarray(x)),
        )
        radius = (
            float(np.max(np.abs(np.linalg.eigvals(state.slope)), initial=0))
            if np.all(np.isfinite(state.slope))
            else float("nan")
        )
    phi = "free_entropy" if built.best == "largest" else "objective"
    result = {
        "model": built.name,
        "options": dict(built.options),
        "controls": printable(values),
        "overlaps": dict(zip(names, map(float, x), strict=True)),
        "conjugates": {q.name: float(v) for q, v in zip(built.conjugates, state.hats, strict=True)},
        "update": dict(zip(names, map(float, state.update), strict=True)),
        phi: float(state.free_energy),
        "observables": {
            k: float(v) for k, v in zip(built.observables, state.observables, strict=True)
        },
        "residual": float(np.max(np.abs(state.update - x), initial=0.0)),
        "spectral_radius": radius,
    }
    return json_safe(result)


@cache
def evaluator(model: Model, sizes: NodeSizes) -> Any:
    """Jitted: (controls, overlaps) -> State."""
    return jax.jit(problem(model, sizes, "exact").state)
