"""Curves and maps: every branch over a grid of controls, inside one compiled program.

On a CPU the points are mapped one after the other (``lax.map``), in chunks over two threads: a vmapped
loop would make every point wait for the slowest. A warm start follows one axis in the direction in which
the branch it starts from cannot be left (uninformed: towards more information), so it changes no result.
"""

from __future__ import annotations

import datetime
import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from equations import Model, Quantity
from solvers import Status

from .errors import InputError
from .lower import Rule
from .problem import Point, Settings, point_solver
from .settings import assignments, nearest, number, resolve
from .solve import COMPILER_OPTIONS, MAX_LEVEL, Solution, check, completed, default_rule, double_precision, judged, settled, start_vector

THREADS = 2
CHUNKS_PER_THREAD = 8
Lines = tuple[np.ndarray, np.ndarray]
"""Starts (lines, points, n) and controls (lines, points, m): a line is warm-started along its points."""


def grid(quantity: Quantity, text: str) -> np.ndarray:
    """Read ``start:stop:num[:log]`` as an array of values of ``quantity``."""
    parts = text.split(":")
    try:
        start, stop, num = float(parts[0]), float(parts[1]), int(parts[2])
        spacing = parts[3] if len(parts) == 4 else "linear"
        if len(parts) > 4 or spacing not in ("linear", "log") or num < 1:
            raise ValueError
    except (ValueError, IndexError):
        raise InputError(f"cannot read --over {quantity.name}={text!r}: write {quantity.name}=start:stop:num or start:stop:num:log") from None
    for end in (start, stop):
        number(quantity, end)
    if spacing == "log" and not (start > 0 and stop > 0):
        raise InputError(f"a logarithmic grid of {quantity.name} needs positive ends")
    return np.geomspace(start, stop, num) if spacing == "log" else np.linspace(start, stop, num)


def read_over(model: Model, pairs: Sequence[str]) -> dict[str, np.ndarray]:
    """The ``--over name=start:stop:num[:log]`` options as grids."""
    controls = {q.name: q for q in model.controls}
    result = {}
    for name, text in assignments(pairs, "--over").items():
        if name not in controls:
            raise InputError(f"{model.name} has no control {name!r}: {nearest(name, controls)}")
        result[name] = grid(controls[name], text)
    return result


def sweep(
    model: str | Model,
    *,
    over: Mapping[str, Any],
    settings: Settings | None = None,
    warm: str | None = None,
    nodes: Rule | None = None,
    progress: bool | None = None,
    **controls: Any,
) -> xr.Dataset:
    """Solve a model over a grid of one or more controls.

    Parameters
    ----------
    model : str or Model
    over : dict of control -> values
        The grid is their outer product.
    settings, nodes : optional
        As in ``solve``.
    warm : str, optional
        Control along which each branch starts from its neighbour's solution. The uninformed branch
        is followed towards more information and the informed one towards less, whatever the order given.
    progress : bool, optional
        Show a bar; by default when the error stream is a terminal.
    **controls
        The controls that are fixed, and the model's options.

    Returns
    -------
    xarray.Dataset
        Dims: the swept controls and ``branch`` (the starts). Variables: overlaps, conjugates, free_energy,
        observables, status (codes; attribute ``flag_meanings``), residual, steps, spectral_radius, level and
        error_<name>. A failed point keeps its status and its last iterate.
    """
    settings = settings or Settings()
    check(settings)
    if settings.route != "exact":
        raise InputError("a sweep uses the exact route; use solve for the sampled one")
    built, fixed = resolve(model, controls, partial=over)
    if built.path == "flow":
        raise InputError(f"{built.name} has fixed points that come and go: use solve at one point, or phase for its boundaries")
    settings = completed(settings, built)
    axes = {name: _axis(built, name, values) for name, values in over.items()}
    for name in axes:
        if name in controls:
            raise InputError(f"{name} is both swept and fixed: give it once")
    if not axes:
        raise InputError("a sweep needs at least one control in over")
    directions = {start: _direction(built, warm, start) for start in built.starts} if warm is not None else {}
    if warm is not None and warm not in axes:
        raise InputError(f"warm = {warm!r} is not swept: {nearest(warm, axes)}")
    rule = nodes or default_rule(built, *_corners(axes, fixed))
    columns, tasks = [], len(built.starts) * int(np.prod([len(a) for a in axes.values()]))
    with progress_bar(progress) as bar:
        job = bar.add_task(built.name, total=tasks)
        for name, start in built.starts.items():
            lines, restore = _lines(built, axes, fixed, start, warm, directions.get(name, 0))
            points, levels = _solve_lines(built, lines, settings, rule, warm is not None, lambda n: bar.advance(job, n))
            columns.append((jax.tree.map(restore, points), restore(levels)))
    return _dataset(built, axes, fixed, settings, columns, warm, directions)


def _corners(axes: dict[str, np.ndarray], fixed: dict[str, float]) -> list[dict[str, float]]:
    """The extreme points of the grid: node sets are sized for the most demanding of them."""
    ends = itertools.product(*((float(a.min()), float(a.max())) for a in axes.values()))
    return [{**fixed, **dict(zip(axes, corner, strict=True))} for corner in ends]


def _axis(model: Model, name: str, values: Any) -> np.ndarray:
    quantities = {q.name: q for q in model.controls}
    if name not in quantities:
        raise InputError(f"{model.name} has no control {name!r}: {nearest(name, quantities)}")
    result = np.atleast_1d(np.asarray(values, dtype=float))
    if result.size == 0:
        raise InputError(f"the grid of {name} is empty: give at least one value")
    for value in result:
        number(quantities[name], value)
    return result


def _direction(model: Model, warm: str, start: str) -> int:
    """+1: along growing values of the control, -1: along falling ones."""
    quantities = {q.name: q for q in model.controls}
    if warm not in quantities:
        raise InputError(f"{model.name} has no control {warm!r}: {nearest(warm, quantities)}")
    information = quantities[warm].information
    if information == 0 or start not in ("uninformed", "informed"):
        raise InputError(f"a warm start along {warm} could change the {start} branch: leave warm out")
    return information if start == "uninformed" else -information


def _lines(
    model: Model, axes: dict[str, np.ndarray], fixed: dict[str, float], start: Any, warm: str | None, direction: int
) -> tuple[Lines, Callable[[np.ndarray], np.ndarray]]:
    """Arrange the grid as lines; also the function that puts results back in grid order."""
    names = list(axes)
    order = [n for n in names if n != warm] + ([warm] if warm else [])
    mesh = np.meshgrid(*(np.sort(axes[n])[::direction] if n == warm else axes[n] for n in order), indexing="ij")
    shape = mesh[0].shape
    values = {n: m.ravel() for n, m in zip(order, mesh, strict=True)}
    count = mesh[0].size
    rows = [{**fixed, **{n: values[n][i] for n in order}} for i in range(count)]
    controls = np.array([[row[q.name] for q in model.controls] for row in rows])
    starts = np.array([start_vector(model, start, row) for row in rows])
    length = shape[-1] if warm else 1

    def restore(flat: np.ndarray) -> np.ndarray:
        array = np.asarray(flat).reshape(*shape, *np.asarray(flat).shape[2:])
        if warm:
            position = np.argsort(np.argsort(axes[warm], kind="stable"), kind="stable")
            position = position if direction > 0 else shape[-1] - 1 - position
            array = np.take(array, position, axis=len(shape) - 1)
        return np.moveaxis(array, [order.index(n) for n in names], range(len(names)))

    lines = tuple(a.reshape(count // length, length, a.shape[1]) for a in (starts, controls))
    return lines, restore  # type: ignore[return-value]


@cache
def _line_solver(model: Model, rule: Rule, settings: Settings, warm: bool) -> Any:
    """Jitted: a chunk of lines (starts, controls) -> Points, lines one after the other."""
    solve = point_solver(model, rule, settings)

    def line(start_and_controls: tuple[jax.Array, jax.Array]) -> Point:
        starts, controls = start_and_controls

        def step(carry: tuple[jax.Array, jax.Array], item: tuple[jax.Array, jax.Array]) -> tuple[tuple[jax.Array, jax.Array], Point]:
            previous, good = carry
            x0, c = item
            point = solve(jnp.where(good, previous, x0), c)
            return (point.x, jnp.asarray(warm) & (point.status == Status.SUCCESSFUL.code)), point

        return jax.lax.scan(step, (starts[0], jnp.asarray(False)), (starts, controls))[1]

    return jax.jit(lambda starts, controls: jax.lax.map(line, (starts, controls)), compiler_options=COMPILER_OPTIONS)


def _solve_lines(model: Model, lines: Lines, settings: Settings, rule: Rule, warm: bool, done: Callable[[int], None]) -> tuple[Point, np.ndarray]:
    """All lines, in chunks of one shape (so one compilation), over two threads; then refine and judge each point."""
    if model.path != "compiled":
        return _settled_lines(model, lines, settings, rule, warm, done)
    starts, controls = lines
    size = max(1, -(-len(starts) // (THREADS * CHUNKS_PER_THREAD)))
    padded = -(-len(starts) // size) * size
    index = np.minimum(np.arange(padded), len(starts) - 1).reshape(-1, size)
    solver = _line_solver(model, rule, settings, warm)

    def chunk(rows: np.ndarray) -> Point:
        with double_precision():  # the setting is per thread
            result = jax.tree.map(np.asarray, solver(jnp.asarray(starts[rows]), jnp.asarray(controls[rows])))
        done(min(size, len(starts) - int(rows[0])) * starts.shape[1])
        return result

    first = chunk(index[0])  # compiles; the threads then share the program
    with ThreadPoolExecutor(THREADS) as pool:
        rest = list(pool.map(chunk, index[1:]))
    points = jax.tree.map(lambda *parts: np.concatenate(parts)[: len(starts)], first, *rest)
    return _refined(model, points, lines, settings, rule)


def _settled_lines(model: Model, lines: Lines, settings: Settings, rule: Rule, warm: bool, done: Callable[[int], None]) -> tuple[Point, np.ndarray]:
    """The same for a model that is solved point by point on the host."""
    starts, controls = lines
    rows, levels = [], np.zeros(starts.shape[:2], dtype=np.int16)
    with double_precision():
        for i in range(len(starts)):
            points: list[Point] = []
            for j in range(starts.shape[1]):
                follow = warm and points and Status.of(int(points[-1].status)).is_point
                point, levels[i, j] = settled(model, points[-1].x if follow else starts[i, j], controls[i, j], settings, rule)
                points.append(point)
                done(1)
            rows.append(jax.tree.map(lambda *p: np.stack(p), *points))
    return jax.tree.map(lambda *p: np.stack(p), *rows), levels


def _refined(model: Model, points: Point, lines: Lines, settings: Settings, rule: Rule) -> tuple[Point, np.ndarray]:
    """Judge every point; solve the unresolved ones again with finer rules."""
    starts, controls = lines
    levels = np.zeros(starts.shape[:2], dtype=np.int16)
    fields = [np.array(a) for a in points]
    with double_precision():
        for at in np.ndindex(*levels.shape):
            point = judged(model, Point(*(f[at] for f in fields)), settings)
            if Status.of(int(point.status)) is Status.UNRESOLVED and MAX_LEVEL > 0:
                point, extra = settled(model, starts[at], controls[at], settings, rule.refined(), MAX_LEVEL - 1)
                levels[at] = extra + 1
            for f, value in zip(fields, point, strict=True):
                f[at] = value
    return Point(*fields), levels


def progress_bar(progress: bool | None) -> Progress:
    """A bar on the error stream; None: only if that is a terminal."""
    show = sys.stderr.isatty() if progress is None else progress
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), disable=not show)


def _dataset(
    model: Model,
    axes: dict[str, np.ndarray],
    fixed: dict[str, float],
    settings: Settings,
    columns: list[tuple[Point, np.ndarray]],
    warm: str | None,
    directions: dict[str, int],
) -> xr.Dataset:
    dims = [*axes, "branch"]
    rank = len(axes)
    stacked = Point(*(np.stack(parts, axis=rank) for parts in zip(*(p for p, _ in columns), strict=True)))
    variables: dict[str, Any] = {}

    def add(name: str, values: np.ndarray, **attrs: Any) -> None:
        variables[name] = (dims, values, {k: v for k, v in attrs.items() if v is not None and not (isinstance(v, str) and v == "")})

    for quantities, values, errors in ((model.overlaps, stacked.x, stacked.error_x), (model.conjugates, stacked.hats, stacked.error_hats)):
        for i, q in enumerate(quantities):
            add(q.name, values[..., i], latex=q.label, long_name=q.meaning, units="1", scaling=q.scaling)
            add(f"error_{q.name}", errors[..., i], long_name=f"error estimate of {q.name}", units="1")
    add("free_energy", stacked.free_energy, latex=r"\Phi", long_name="free energy per dimension", units="1")
    add("error_free_energy", stacked.error_free_energy, long_name="error estimate of free_energy", units="1")
    for i, name in enumerate(model.observables):
        unit = model.units.get(name, "1")
        add(name, stacked.observables[..., i], latex=model.latex.get(name, ""), units=unit)
        add(f"error_{name}", stacked.error_observables[..., i], long_name=f"error estimate of {name}", units=unit)
    meanings = [s.value for s in Status]
    add("status", stacked.status.astype(np.int16), long_name="how the solve ended", flag_meanings=meanings)
    add("residual", stacked.residual, long_name="undamped residual max|F(x) - x|")
    add("steps", stacked.steps.astype(np.int64), long_name="evaluations of the map")
    add("spectral_radius", stacked.radius, long_name="spectral radius of dF/dx")
    add("level", np.stack([level for _, level in columns], axis=rank), long_name="refinements of the node sets")
    quantities = {q.name: q for q in model.controls}
    coords: dict[str, Any] = {n: (n, v, {"latex": quantities[n].label, "long_name": quantities[n].meaning, "units": "1"}) for n, v in axes.items()}
    coords["branch"] = ("branch", list(model.starts))
    return xr.Dataset(variables, coords, _metadata(model, fixed, settings) | {"warm": warm, "directions": directions})


def _metadata(model: Model, fixed: dict[str, float], settings: Settings) -> dict[str, Any]:
    return {
        "model": model.name,
        "title": model.title,
        "options": dict(model.options),
        "controls": fixed,
        "best": model.best,
        "settings": dict(vars(settings)),
        "sources": list(model.sources),
        "starts": {k: {n: str(v) for n, v in start.items()} for k, start in model.starts.items()},
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def to_dataset(solution: Solution) -> xr.Dataset:
    """A single solution as a dataset with the one dimension ``branch``, to be stored."""
    branches = solution.branches
    names = {k for b in branches for k in (*b.overlaps, *b.conjugates, *b.observables)}

    def value(b: Any, name: str) -> float:
        return {**b.overlaps, **b.conjugates, **b.observables}[name]

    variables: dict[str, Any] = {n: ("branch", [value(b, n) for b in branches]) for n in sorted(names)}
    variables |= {f"error_{n}": ("branch", [b.error[n] for b in branches]) for n in sorted(names | {"free_energy"})}
    variables["free_energy"] = ("branch", [b.free_energy for b in branches])
    codes = np.array([b.status.code for b in branches], dtype=np.int16)
    variables["status"] = ("branch", codes, {"flag_meanings": [s.value for s in Status]})
    for n in ("residual", "steps", "spectral_radius", "level"):
        variables[n] = ("branch", [getattr(b, n) for b in branches])
    return xr.Dataset(variables, {"branch": [b.start for b in branches]}, _metadata(solution.model, solution.controls, solution.settings))
