r"""Solve a model with a Moreau envelope: branch by branch, on samples, with a standard error on
everything.

One start is followed on few samples, then refined on more of them until the errors meet
``settings.accuracy``. On each level: search the minima from several starts, solve the fixed point
with warm-started minima, search again; repeat while samples change their valley and that still
moves the overlaps. Over the independent sets s of samples, with h_s the conjugates of one set at
the solution,

    delta x_s = (1 - J)^{-1} R'(h) (h_s - h),     delta O_s = O_s(x) - O(x) + O'(x) delta x_s,
    error = 2 std_s / sqrt(sets)

which is what re-solving on each set would give to first order. Source: theory.md sections 5 and 9.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from equations import Model
from equations.slr.laws import read_law
from solvers import Status, propagate
from solvers.attention.data import Samples, random_length
from solvers.warm_start import Ended, warm_fixed_point

from .erm_samples import Minima, SampleMap
from .saddle_point import FLOOR, Point, Settings

SETS = 8
FIRST_LEVEL, LAST_LEVEL = 10, 14
"""log2 of the samples per set on which a branch is chosen, and at most."""
ROUNDS = 4
"""Searches on one level before samples that still change their valley are left alone."""
DAMPING = 0.3
"""Least damping: undamped, the conjugates of a non-convex loss overshoot."""
SETTLED = 0.1
"""Part of the accuracy by which the last change of valleys may move the overlaps without being
followed by another search.
"""
SIGNIFICANT = 5.0
"""Standard errors by which the two forms of V_hat must differ to be called different."""


@lru_cache(maxsize=8)
def samples(law: tuple[tuple[int, float], ...], rule: str, nu: float, level: int) -> Samples:
    """``SETS`` sets of about ``2**level`` samples; a fixed length is a law of one entry."""
    return random_length(law, rule, nu, level - int(np.log2(len(law))), SETS, seed=0)


def length_law(model: Model, c: np.ndarray) -> tuple[tuple[int, float], ...]:
    """p_L of a model at control values ``c``."""
    if "L" in model.options:
        return tuple((length, float(p)) for length, p in read_law(model.options["L"]))
    return ((int(c[[q.name for q in model.controls].index("L")]), 1.0),)


def samples_of(model: Model, c: np.ndarray, level: int) -> Samples:
    """The samples of a model at control values ``c``."""
    nu = c[[q.name for q in model.controls].index("nu")]
    return samples(length_law(model, c), model.options["rule"], float(nu), level)


def solve_starts(
    model: Model, starts: dict[str, np.ndarray], c: np.ndarray, settings: Settings
) -> list[tuple[str, Point, int]]:
    """Every start as (name, judged point, level). Starts that meet on the first level are refined
    once.
    """
    known: list[tuple[Point, Point, int]] = []
    results = []
    for name, x0 in starts.items():
        first = _at_level(model, x0, c, settings, FIRST_LEVEL)
        same = next((k for k in known if _meet(first, k[0])), None)
        if same is None:
            same = (first, *_refined(model, first, c, settings))
            known.append(same)
        results.append((name, same[1], same[2]))
    return results


def solve_start(
    model: Model, x0: np.ndarray, c: np.ndarray, settings: Settings
) -> tuple[Point, int]:
    """One branch, judged, and how often its samples were doubled."""
    return _refined(model, _at_level(model, x0, c, settings, FIRST_LEVEL), c, settings)


def _meet(a: Point, b: Point) -> bool:
    """Whether two points on the same samples are one."""
    both = all(Status.of(int(p.status)) is Status.SUCCESSFUL for p in (a, b))
    return both and bool(np.all(np.abs(a.x - b.x) <= 1e-6 * (1 + np.abs(a.x))))


def _at_level(model: Model, x0: np.ndarray, c: np.ndarray, settings: Settings, level: int) -> Point:
    ensemble = ensemble_at(model, c, level)
    end, minima = fixed_point(ensemble, x0, settings)
    return _point(ensemble, end, minima)


def ensemble_at(model: Model, c: np.ndarray, level: int = FIRST_LEVEL) -> SampleMap:
    """The map on 2**level samples per set, in pieces of one shape on every level
    (compiled once).
    """
    return SampleMap(model, samples_of(model, c, level), 2 ** (level - FIRST_LEVEL), c)


def _refined(model: Model, point: Point, c: np.ndarray, settings: Settings) -> tuple[Point, int]:
    """Go to more samples until the errors meet ``settings.accuracy``."""
    level, steps = FIRST_LEVEL, int(point.steps)
    while Status.of(int(point.status)) is Status.SUCCESSFUL and level < LAST_LEVEL:
        excess = _excess(model, point, settings.accuracy)
        if not excess > 1:
            break
        # Randomised quasi-Monte Carlo: the error falls somewhat faster than the square root of the
        # number of samples.
        level = min(LAST_LEVEL, level + max(1, int(np.ceil(1.5 * np.log2(excess)))))
        point = _at_level(model, point.x, c, settings, level)
        steps += int(point.steps)
    return _judged(model, point._replace(steps=np.asarray(steps)), settings), level - FIRST_LEVEL


def fixed_point(ensemble: SampleMap, x0: np.ndarray, settings: Settings) -> tuple[Ended, Minima]:
    """The fixed point that ``x0`` leads to, with minima searched from several starts before and
    after.
    """
    model, damping, steps = ensemble.model, max(settings.damping, DAMPING), 0
    inside = _domain(model)
    minima = ensemble.search(x0, ensemble.unknown())
    for again in range(ROUNDS):
        end = warm_fixed_point(
            ensemble.image,
            ensemble.slope,
            x0,
            minima,
            tol=settings.tol,
            max_steps=settings.max_steps,
            damping=damping,
            inside=inside,
        )
        moved = _relative(model, np.abs(end.x - x0), end.x)
        steps, x0 = steps + end.steps, end.x
        if end.status is not Status.SUCCESSFUL or (again and moved <= SETTLED * settings.accuracy):
            break
        minima = ensemble.search(x0, end.state)
        if not minima.any_changed:
            break
    return end._replace(steps=steps), minima


def _domain(model: Model) -> Callable[[np.ndarray], bool]:
    names = [q.name for q in model.overlaps]
    at = {n: names.index(n) for n in names}

    def inside(x: np.ndarray) -> bool:
        # q = m^2 is attained where a field does not matter; rounding may then fall below it.
        return all(
            x[at[f"V_{a}"]] > 0
            and x[at[f"q_{a}"]] - x[at[f"m_{a}"]] ** 2 >= -1e-12 * (1 + x[at[f"q_{a}"]])
            for a in "kv"
        )

    return inside


def _point(ensemble: SampleMap, end: Ended, minima: Minima) -> Point:
    """The solution with its errors: how it would move if each set of samples were used alone."""
    x, slope = end.x, ensemble.slope(end.x, end.state)
    report = ensemble.report(x, end.state._replace(changed=minima.changed, failed=minima.failed))
    finite = bool(np.all(np.isfinite(slope)))
    shift = report.update - ensemble.update(x, report.averages.mean(axis=0))
    moved = (
        np.linalg.solve(np.eye(len(x)) - slope, shift.T).T
        if finite
        else np.full_like(shift, np.nan)
    )
    # What the iteration left over adds to what the samples leave open.
    left = np.asarray(propagate(slope, np.full(len(x), end.residual))) + FLOOR if finite else np.nan
    radius = float(np.max(np.abs(np.linalg.eigvals(slope)))) if finite else np.nan
    return Point(
        x,
        report.mean_hats,
        report.mean_free_energy,
        report.mean_observables,
        np.asarray(end.residual),
        np.asarray(end.steps),
        np.asarray(end.status.code),
        np.asarray(radius),
        _error(moved) + left,
        _error(report.hats),
        _error(report.free_energy),
        _error(report.observables + moved @ report.sensitivity.T),
        np.max(_error(moved)),
    )


def _error(per_set: np.ndarray) -> np.ndarray:
    """Twice the standard error of the mean over the sets."""
    return 2 * per_set.std(axis=0, ddof=1) / np.sqrt(len(per_set))


def _excess(model: Model, point: Point, accuracy: float) -> float:
    """Largest error of m, q (relative above 1) and of the risks, in units of ``accuracy``.

    The susceptibilities are not asked for it: theirs is several times larger and matters only
    through m and q.
    """
    names = list(model.observables)
    risks = [names.index(n) for n in ("risk", "training_loss")]
    return (
        max(_relative(model, point.error_x, point.x), float(np.max(point.error_observables[risks])))
        / accuracy
    )


def _relative(model: Model, change: np.ndarray, x: np.ndarray) -> float:
    """The largest entry of ``change`` in m and q, relative above 1."""
    overlaps = [i for i, q in enumerate(model.overlaps) if not q.name.startswith("V_")]
    return float(np.max((change / np.maximum(1, np.abs(x)))[overlaps]))


def _judged(model: Model, point: Point, settings: Settings) -> Point:
    status = Status.of(int(point.status))
    if status is Status.SUCCESSFUL:
        status = _verdict(model, point, settings)
    elif (
        status is Status.NON_FINITE and _failures(model, point) > 0
    ):  # the map is not finite because a minimiser is not
        status = Status.PROX_FAILED
    return point._replace(status=np.asarray(status.code))


def _failures(model: Model, point: Point) -> float:
    return float(point.observables[list(model.observables).index("prox_failures")])


def note(model: Model, point: Point, c: np.ndarray, level: int) -> str:
    """What the status sentence leaves open: in how many samples the minimisation failed."""
    if Status.of(int(point.status)) is not Status.PROX_FAILED:
        return ""
    total = samples_of(model, c, FIRST_LEVEL + level).common.size
    return f"about {_failures(model, point) * total:.0f} of {total} samples"


def _verdict(model: Model, point: Point, settings: Settings) -> Status:
    seen = dict(zip(model.observables, point.observables, strict=True))
    error = dict(zip(model.observables, point.error_observables, strict=True))
    hats = dict(
        zip(
            (q.name for q in model.conjugates),
            zip(point.hats, point.error_hats, strict=True),
            strict=True,
        )
    )
    if seen["prox_failures"] > 0:
        return Status.PROX_FAILED
    if not np.all(
        np.isfinite(
            [
                *point.x,
                *point.hats,
                point.free_energy,
                seen["risk"],
                seen["training_loss"],
                seen["replicon"],
            ]
        )
    ):
        return Status.NON_FINITE
    if seen["replicon"] > 1:
        return Status.RS_UNSTABLE
    if not _excess(model, point, settings.accuracy) <= 1:
        return Status.UNRESOLVED
    for a in "kv":
        stein, stein_error = hats[f"V_{a}_hat"]
        gap = abs(stein - seen[f"V_{a}_hat_response"])
        if gap > SIGNIFICANT / 2 * np.hypot(stein_error, error[f"V_{a}_hat_response"]) + 1e-9:
            return Status.FORMS_DIFFER
    return Status.SUCCESSFUL
