"""Linear response of a fixed point on the host, where its slope may not be finite: stability,
propagation of errors, and the onset of an instability.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def radius_of(slope: np.ndarray) -> float:
    """Spectral radius of dF/dx, the largest modulus of an eigenvalue: plain iteration is stable iff
    it is below 1.

    Parameters
    ----------
    slope : array, shape (n, n)
        dF/dx.

    Returns
    -------
    float
        0 for n = 0; NaN where an entry is not finite.
    """
    return float(np.max(np.abs(_eigenvalues(slope)), initial=0.0))


def leading_eigenvalue(slope: np.ndarray) -> float:
    """Largest real part of an eigenvalue of dF/dx: below 1 the point is stable under damped
    iteration with some damping.

    Parameters
    ----------
    slope : array, shape (n, n)
        dF/dx.

    Returns
    -------
    float
        -inf for n = 0; NaN where an entry is not finite.
    """
    return float(np.max(np.real(_eigenvalues(slope)), initial=-np.inf))


def _eigenvalues(slope: np.ndarray) -> np.ndarray:
    """NaN if an entry is not finite."""
    if not np.all(np.isfinite(slope)):
        return np.full(len(slope), np.nan)
    return np.linalg.eigvals(slope)


def newton_step(slope: np.ndarray, defect: np.ndarray) -> np.ndarray:
    """How a fixed point moves when the map moves by ``defect``: (1 - dF/dx)^{-1} defect.

    Parameters
    ----------
    slope : array, shape (n, n)
        dF/dx at the fixed point.
    defect : array, shape (n,)
        F(x) with better averages minus F(x), or F(x) - x.

    Returns
    -------
    array, shape (n,)
        NaN where an entry of the slope is not finite; infinite where there is no such point.
    """
    try:
        return np.linalg.solve(np.eye(len(defect)) - slope, defect)
    except np.linalg.LinAlgError:
        return np.full_like(defect, np.inf)


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
