"""Signal subspace recovery in time: trajectories of the flow, the mean path of stochastic ascent,
and when the sign is ambiguous.

The flow is the limit of small steps. At steps eta and d/L fixed, d -> infinity, rho follows the
recursion

    rho' = (rho + eta D)/sqrt(1 + eta^2 (D^2/(1 - rho^2) + N/batch)),
    D = drift_finite(rho), N = gradient_noise(rho):

the gradient's noise across q lengthens q + eta g, and so shortens its projection on the signal. N
is taken with its first correction in 1/L; what that correction changes is the error of the theory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp
import xarray as xr
from scipy.optimize import brentq

from equations import Model
from equations.models import subspace as physics
from solvers import Status
from solvers import ode as solver

from ..errors import InputError, SolveError
from ..lowering.lower import Lowered, NodeSizes
from ..lowering.lower import function as lowered_function
from ..models import resolve
from ..runtime.precision import double_precision
from ..runtime.programs import Program
from ..solve import solve
from ..theories import sphere_flow, theory_of

MODEL = "subspace"


class Path(NamedTuple):
    """Mean path of stochastic ascent, shape (starts, steps + 1), and how far it is from the one at
    L = infinity.
    """

    rho: np.ndarray
    error: np.ndarray


class Timed(NamedTuple):
    """Numbers along a trajectory, with an estimate of their largest error."""

    values: np.ndarray
    error: float


def _resolved(controls: Mapping[str, Any]) -> tuple[Model, dict[str, float], jax.Array]:
    model, values = resolve(MODEL, controls)
    return model, values, jnp.asarray(theory_of(model).control_vector(values))


@cache
def _drift(model: Model, name: str) -> Callable[[Any, jax.Array], jax.Array]:
    at = sphere_flow.drift_of(model, name)
    return lambda c, x: at(c, x)[0]


@cache
def _trajectory(model: Model, name: str) -> Any:
    return Program(lambda c, x0, times: solver.trajectory(_drift(model, name), c, x0, times))


@cache
def _arrival(model: Model, name: str) -> Any:
    return Program(
        lambda c, x0, level, latest: solver.arrival(
            _drift(model, name), c, x0, lambda x: jnp.abs(x) - level, latest
        )
    )


def trajectory(rho0: Any, times: Any, **controls: Any) -> Timed:
    """rho(t) of the flow from one start or an array of starts, shape (times, ``*starts``);
    finite-size drift if d and L are given.

    Parameters
    ----------
    rho0 : float or array
        In [-1, 1].
    times : array
        Increasing, from 0 or later.
    **controls
        theta, r, and if wanted beta, d, L.
    """
    starts, times = np.asarray(rho0, dtype=float), np.atleast_1d(np.asarray(times, dtype=float))
    if not np.all(np.abs(starts) <= 1):
        raise InputError("rho0 must be between -1 and 1")
    if not (np.all(np.diff(times) > 0) and times[0] >= 0 and times[-1] > 0):
        raise InputError("times must increase, from 0 or later")
    with double_precision():
        model, values, c = _resolved(controls)
        run = _trajectory(model, sphere_flow.followed_drift(model, values)[0])(
            c, jnp.asarray(starts), jnp.asarray(times)
        )
    _raise_unless_done(int(run.status))
    return Timed(np.asarray(run.x), float(run.error))


def recovery_time(rho0: float, level: float = 0.99, latest: float = 1e6, **controls: Any) -> Timed:
    """The first time at which ``|rho|`` = ``level`` in the flow from ``rho0``; infinity if not
    before ``latest``.
    """
    if not abs(rho0) <= level < 1:
        raise InputError("recovery needs |rho0| <= level < 1")
    with double_precision():
        model, values, c = _resolved(controls)
        run = _arrival(model, sphere_flow.followed_drift(model, values)[0])(
            c, jnp.asarray(float(rho0)), level, latest
        )
    _raise_unless_done(int(run.status))
    return Timed(np.asarray(run.time), float(run.error))


def _raise_unless_done(code: int) -> None:
    if Status.of(code) is not Status.SUCCESSFUL:
        raise SolveError(f"the flow of {MODEL}: {Status.of(code).value}")


@cache
def _noise(model: Model, finite: bool = False) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """(controls, rho) -> gradient_noise, corrected for finite L or not; derived when it is first
    asked for.
    """
    controls = [q.symbol for q in model.controls]
    lowered = Lowered(
        {"noise": physics.with_mass(physics.gradient_noise(finite))},
        [physics.rho],
        controls,
        model.name,
        NodeSizes(),
    )
    return lambda c, x: lowered.bind(x[None], {s: c[i] for i, s in enumerate(controls)})(None)[
        "noise"
    ]


@cache
def _recursion(model: Model, finite: bool) -> Any:
    at, noise = sphere_flow.drift_of(model, "drift_finite"), _noise(model, finite)

    def path(c: jax.Array, start: jax.Array, sizes: jax.Array, batch: jax.Array) -> jax.Array:
        def step(x: jax.Array, eta: jax.Array) -> tuple[jax.Array, jax.Array]:
            drift, _, force = at(c, x)
            across = (1 - x**2) * force**2 + noise(c, x) / batch
            new = (x + eta * drift) / jnp.sqrt(1 + eta**2 * across)
            return new, new

        return jnp.append(start, jax.lax.scan(step, start, sizes)[1])

    return Program(jax.vmap(path, in_axes=(None, 0, None, None)))


def mean_path(rho0: Any, step_sizes: Any, batch: int = 1, **controls: Any) -> Path:
    """The recursion of stochastic ascent from each start; needs d and L."""
    with double_precision():
        model, values, c = _resolved(controls)
        if sphere_flow.undefined(model, values):
            raise InputError("the noise of the gradient needs d and L: give both")
        starts = jnp.atleast_1d(jnp.asarray(rho0, dtype=float))
        arguments = c, starts, jnp.asarray(step_sizes, dtype=float), jnp.asarray(float(batch))
        path, limit = (
            np.asarray(_recursion(model, finite)(*arguments)) for finite in (True, False)
        )
        return Path(path, np.abs(path - limit))


def noise_floor(batch: int = 1, **controls: Any) -> float:
    """(1 - rho^2)/eta at which drift and noise of the gradient balance near rho = 1: N/(2 J'
    batch), J' with its finite-size term.
    """
    with double_precision():
        model, _, c = _resolved(controls)
        force = sphere_flow.compiled_drift(model, "drift_finite")(c, jnp.asarray(1.0))[2]
        return float(_noise(model, True)(c, jnp.asarray(1.0)) / (2 * force * batch))


def sign_probability(d: int, L: int, **controls: Any) -> float:
    """Probability that the flow from a uniform point of the sphere ends at +xi: that rho(0) lies
    above the unstable point, if there is one.
    """
    from scipy.stats import beta as beta_law  # 0.9 s to import, needed here alone

    inside = [
        b.overlaps["rho"]
        for b in solve(MODEL, d=d, L=L, **controls).branches
        if abs(b.overlaps["rho"]) < 1
    ]
    return float(beta_law.sf((inside[0] + 1) / 2, (d - 1) / 2, (d - 1) / 2)) if inside else 1.0


def attention_mass(rho: Any, **controls: Any) -> np.ndarray:
    """a(rho), the attention on informative tokens, at R, L - R -> infinity."""
    with double_precision():
        model, _, c = _resolved(controls)
        at = lowered_function(
            [physics.rho, *(q.symbol for q in model.controls[:3])],
            model.theory.rewrite(model.expressions["attention_mass"]),
        )
        return np.asarray(at(jnp.asarray(rho), *c[:3]))


def boundary_share(theta: Any, beta: Any = 1.0) -> np.ndarray:
    """r below which -xi attracts too at L = infinity, in closed form; 0 where it attracts at no r
    (beta theta <= 1).
    """
    at = sp.lambdify([physics.theta, physics.beta], physics.boundary_share(), "numpy")
    theta, beta = np.broadcast_arrays(np.asarray(theta, dtype=float), np.asarray(beta, dtype=float))
    return np.where(beta * theta > 1, at(theta, beta), 0.0)


def boundary_theta(r: float, beta: float = 1.0, highest: float = 1e3) -> float:
    """The smallest theta at which -xi attracts too, at L = infinity."""
    resolve(MODEL, {"theta": 1.0, "r": r, "beta": beta})
    gap = lambda theta: float(boundary_share(theta, beta)) - r  # noqa: E731
    grid = np.geomspace(1 / beta, highest / beta, 400)
    above = np.flatnonzero(boundary_share(grid, beta) > r)
    if above.size == 0:
        raise SolveError(f"-xi attracts at no theta below {highest / beta:g}")
    return float(brentq(gap, grid[above[0] - 1], grid[above[0]], xtol=1e-13))  # type: ignore[arg-type]


def boundary_crowding(theta: Any, r: Any, beta: Any = 1.0) -> np.ndarray:
    """(d - 1)/L above which -xi attracts too, in closed form; 0 where it does so at L = infinity
    already.
    """
    expression = physics.boundary_crowding().subs(physics.ODDS, physics.OPPOSITE_ODDS)
    at = sp.lambdify([physics.theta, physics.r, physics.beta], expression, "numpy")
    return np.maximum(
        at(*np.broadcast_arrays(*(np.asarray(v, dtype=float) for v in (theta, r, beta)))), 0.0
    )


def sign_diagram(theta: Any, r: Any, beta: float = 1.0) -> xr.Dataset:
    """Phase diagram of the sign ambiguity: ``boundary_share`` over theta, and over (theta, r) the
    (d - 1)/L above which -xi attracts.
    """
    theta, r = np.asarray(theta, dtype=float), np.asarray(r, dtype=float)
    for name, values in (("theta", theta), ("r", r)):
        for value in values:
            resolve(MODEL, {"theta": 1.0, "r": 0.5, "beta": beta} | {name: float(value)})
    return xr.Dataset(
        {
            "boundary_share": (
                "theta",
                boundary_share(theta, beta),
                {"latex": "r_c", "long_name": "share below which -xi attracts too"},
            ),
            "boundary_crowding": (
                ("theta", "r"),
                boundary_crowding(theta[:, None], r, beta),
                {"latex": "(d-1)/L"},
            ),
        },
        {"theta": ("theta", theta, {"latex": r"\theta"}), "r": ("r", r, {"latex": "r"})},
        {"kind": "sign diagram", "model": MODEL, "beta": beta},
    )
