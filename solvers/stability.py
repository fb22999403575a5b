"""Linear response of a fixed point: error propagation, spectral radius, and the onset of an
instability.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np


def spectral_radius(jacobian: jax.Array) -> jax.Array:
    """Largest modulus of an eigenvalue of dF/dx, shape (n, n); 0 for n = 0. Plain iteration is
    stable iff it is below 1.

    Parameters
    ----------
    jacobian : array, shape (n, n)
        dF/dx.

    Returns
    -------
    array, shape ()
        0 for n = 0.
    """
    if jacobian.shape[0] == 0:
        return jnp.asarray(0.0)
    return jnp.max(jnp.abs(jnp.linalg.eigvals(jacobian)))


def radius_of(slope: np.ndarray) -> float:
    """The same on the host, of a slope that may not be finite.

    Parameters
    ----------
    slope : array, shape (n, n)
        dF/dx.

    Returns
    -------
    float
        0 for n = 0; NaN where an entry is not finite.
    """
    if not np.all(np.isfinite(slope)):
        return float("nan")
    return float(np.max(np.abs(np.linalg.eigvals(slope)), initial=0.0))


def leading_eigenvalue(slope: np.ndarray) -> float:
    """Largest real part of an eigenvalue of dF/dx, of a slope that may not be finite: below 1 the
    point is stable under damped iteration with some damping.

    Parameters
    ----------
    slope : array, shape (n, n)
        dF/dx.

    Returns
    -------
    float
        -inf for n = 0; NaN where an entry is not finite.
    """
    if not np.all(np.isfinite(slope)):
        return float("nan")
    return float(np.max(np.real(np.linalg.eigvals(slope)), initial=-np.inf))


def propagate(jacobian: jax.Array, defect: jax.Array) -> jax.Array:
    """Error of the fixed point caused by an error ``defect`` of the map, the modulus of (1 -
    J)^{-1} defect, shape (n,).

    Parameters
    ----------
    jacobian : array, shape (n, n)
        dF/dx at the fixed point.
    defect : array, shape (n,)
        F(x) with better averages, minus F(x).

    Returns
    -------
    array, shape (n,)
        Non-negative.
    """
    if jacobian.shape[0] == 0:
        return jnp.zeros(0)
    return jnp.abs(jnp.linalg.solve(jnp.eye(jacobian.shape[0]) - jacobian, defect))


def onset(radius: Callable[[float], float], low: float, high: float, xtol: float = 1e-12) -> float:
    """The control value in (low, high) where ``radius(control)``, a spectral radius, crosses 1.

    Parameters
    ----------
    radius : callable
        control -> spectral radius.
    low, high : float
        Ends with the radius on different sides of 1.
    xtol : float
        Of the control.

    Returns
    -------
    float
        The crossing (one of them, if there are several).

    Raises
    ------
    ValueError
        If it does not change sides between the ends.
    """
    from scipy.optimize import brentq  # start-up time

    ends = radius(low) - 1, radius(high) - 1
    if not ends[0] * ends[1] < 0:
        raise ValueError(
            f"the spectral radius does not cross 1 between {low:g} ({ends[0] + 1:.4g}) and {high:g}"
            f" ({ends[1] + 1:.4g})"
        )
    return float(brentq(lambda c: radius(c) - 1, low, high, xtol=xtol))  # type: ignore[arg-type]
