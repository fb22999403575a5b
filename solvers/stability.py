"""Linear response of a fixed point on the host, where its slope may not be finite: stability,
propagation of errors, and the onset of an instability.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

NEGLIGIBLE = 1e-5
"""An error below this share of the least singular value of 1 - dF/dx has no second order."""


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
    defect : array, shape (n,) or (n, m)
        F(x) with better averages minus F(x), or F(x) - x; each column is one.

    Returns
    -------
    array, shape of ``defect``
        NaN where an entry of the slope is not finite; infinite where there is no such point.
    """
    if not np.all(np.isfinite(slope)):
        return np.full_like(defect, np.nan)
    try:
        return np.linalg.solve(np.eye(len(slope)) - slope, defect)
    except np.linalg.LinAlgError:
        return np.full_like(defect, np.inf)


def largest_step(slope: np.ndarray, defect: np.ndarray) -> np.ndarray:
    """How far a fixed point moves at most when the map moves by up to ``defect``, entry by entry.

    Parameters
    ----------
    slope : array, shape (n, n)
        dF/dx at the fixed point.
    defect : array, shape (n,)
        Non-negative.

    Returns
    -------
    array, shape (n,)
        NaN where an entry of the slope is not finite; infinite where the point is critical.
    """
    if not np.all(np.isfinite(slope)):
        return np.full_like(defect, np.nan)
    try:
        return np.abs(np.linalg.inv(np.eye(len(slope)) - slope)) @ defect
    except np.linalg.LinAlgError:
        return np.full_like(defect, np.inf)


def second_order(
    slope_at: Callable[[np.ndarray], np.ndarray],
    x: np.ndarray,
    slope: np.ndarray,
    error: np.ndarray,
) -> float:
    """By what factor an error of first order, (1 - dF/dx)^{-1} (F(x) - x), has to be enlarged to
    bound the distance to the fixed point: near a critical point that is not small against the
    distance to others.

    With h the product of the norms of (1 - dF/dx)^{-1}, of F'' and of the error, the factor is
    2/(1 + sqrt(1 - 2 h)), and infinite for h >= 1/2.

    Parameters
    ----------
    slope_at : callable
        x -> dF/dx, shape (n, n); called on both sides of ``x`` where h may matter.
    x : array, shape (n,)
        Close to a fixed point.
    slope : array, shape (n, n)
        dF/dx at ``x``.
    error : array, shape (n,)
        Of first order.

    Returns
    -------
    float
        At least 1; 1 where dF/dx is not finite, and no error is.

    Notes
    -----
    The theorem of Newton and Kantorovich (L. V. Kantorovich, G. P. Akilov, Functional Analysis,
    1982, XVIII.1), with F'' from a difference of dF/dx along the direction in which the point is
    least determined.
    """
    e = float(np.max(error, initial=0.0))
    if e == 0.0 or not np.all(np.isfinite(slope)):
        return 1.0
    values, right = np.linalg.svd(np.eye(len(x)) - slope)[1:]
    if values[-1] == 0.0:
        return float("inf")
    if e < NEGLIGIBLE * values[-1]:
        return 1.0
    step = e * right[-1] / np.max(np.abs(right[-1]))
    bends = [slope_at(x + side * step) - slope for side in (1.0, -1.0)]
    known = [np.linalg.norm(b, 2) for b in bends if np.all(np.isfinite(b))]
    if not known:
        return float("inf")
    h = max(known) / values[-1]
    return 2.0 / (1.0 + np.sqrt(1.0 - 2.0 * h)) if h < 0.5 else float("inf")


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
