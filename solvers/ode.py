r"""Flows dx/dt = F(x): trajectories, the time to reach a level, zeros of a scalar field (diffrax
and SciPy).

Every trajectory is an embedded Runge-Kutta solution (Tsitouras 5/4) with its local error held to
``tol``; the error that is reported is the difference to a solution at ``tol``/100.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .result import Status

if TYPE_CHECKING:
    import diffrax

Field = Callable[[Any, jax.Array], jax.Array]
"""(parameters, x) -> dx/dt, of the shape of x."""
MOST_STEPS = 16**4


class Trajectory(NamedTuple):
    """x at the given times, shape (times, ...), an estimate of its largest error, and the status
    code.
    """

    x: jax.Array
    error: jax.Array
    status: jax.Array


class Arrival(NamedTuple):
    """The time at which the level is reached (infinity if it is not), its error estimate and status
    code.
    """

    time: jax.Array
    error: jax.Array
    status: jax.Array


def _run(
    field: Field,
    parameters: Any,
    x0: jax.Array,
    end: Any,
    tol: float,
    saveat: diffrax.SaveAt,
    event: diffrax.Event | None,
) -> Any:
    import diffrax  # start-up time

    return diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, x, p: field(p, x)),
        diffrax.Tsit5(),
        t0=0.0,
        t1=end,
        dt0=None,
        y0=x0,
        args=parameters,
        saveat=saveat,
        stepsize_controller=diffrax.PIDController(rtol=tol, atol=tol),
        max_steps=MOST_STEPS,
        throw=False,
        event=event,
    )


def trajectory(
    field: Field, parameters: Any, x0: jax.Array, times: jax.Array, tol: float = 1e-9
) -> Trajectory:
    """x(t) from x(0) = ``x0`` at increasing ``times`` >= 0; the last one must be positive."""
    import diffrax  # start-up time

    runs = [
        _run(field, parameters, x0, times[-1], t, diffrax.SaveAt(ts=times), None)
        for t in (tol, tol / 100)
    ]
    error = 2 * jnp.max(jnp.abs(runs[1].ys - runs[0].ys))
    done = (runs[0].result == diffrax.RESULTS.successful) & (
        runs[1].result == diffrax.RESULTS.successful
    )
    finite = jnp.all(jnp.isfinite(runs[1].ys))
    status = jnp.where(
        done,
        jnp.where(finite, Status.SUCCESSFUL.code, Status.NON_FINITE.code),
        Status.MAX_STEPS.code,
    )
    return Trajectory(runs[1].ys, error, status)


def arrival(
    field: Field,
    parameters: Any,
    x0: jax.Array,
    gap: Callable[[jax.Array], jax.Array],
    latest: float = 1e6,
    tol: float = 1e-9,
) -> Arrival:
    """The first time at which ``gap(x)`` vanishes, searched up to ``latest``."""
    import diffrax  # start-up time
    import optimistix

    def reached(t: Any, y: Any, args: Any, **_: Any) -> jax.Array:
        return gap(y)

    runs = []
    for accuracy in (tol, tol / 100):
        event = diffrax.Event(reached, optimistix.Newton(rtol=accuracy, atol=accuracy))
        runs.append(_run(field, parameters, x0, latest, accuracy, diffrax.SaveAt(t1=True), event))
    hit = jnp.stack([run.result == diffrax.RESULTS.event_occurred for run in runs])
    times = jnp.stack([run.ts[-1] for run in runs])
    never = jnp.stack([run.result == diffrax.RESULTS.successful for run in runs])
    status = jnp.where(jnp.all(hit | never), Status.SUCCESSFUL.code, Status.MAX_STEPS.code)
    time = jnp.where(hit[1], times[1], jnp.where(never[1], jnp.inf, jnp.nan))
    return Arrival(
        time,
        jnp.where(
            jnp.all(hit), 2 * jnp.abs(times[1] - times[0]), jnp.where(jnp.all(never), 0.0, jnp.nan)
        ),
        status,
    )


def zeros(
    f: Callable[[np.ndarray], np.ndarray], low: float, high: float, samples: int = 401
) -> list[float]:
    """Zeros of a continuous ``f`` in the open interval, to rounding: its sign changes between
    ``samples`` points, denser at the ends.

    Two zeros between neighbouring points are not seen.
    """
    from scipy.optimize import brentq  # start-up time

    x = low + (high - low) * (1 - np.cos(np.pi * np.linspace(0, 1, samples))) / 2
    values = np.asarray(f(x))
    if not np.all(np.isfinite(values)):
        raise ValueError("the field is not finite")
    sides = np.sign(values)
    if np.any((sides[1:] == 0) & (sides[:-1] == 0)):
        raise ValueError("the field vanishes between two samples, to rounding")
    inside = [float(x[i]) for i in range(1, samples - 1) if sides[i] == 0]
    changes = [i for i in range(samples - 1) if sides[i] * sides[i + 1] < 0]

    def field(t: float) -> float:
        return float(f(np.asarray([t]))[0])

    between = [
        float(brentq(field, x[i], x[i + 1], xtol=1e-15, rtol=8.9e-16))  # pyright: ignore
        for i in changes
    ]
    return sorted(inside + between)
