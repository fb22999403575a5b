r"""Empirical risk minimisation on a data set, with an honest account of how it ended.

    F(k, v) = sum_mu (1/2)(y_mu - sum_l sigma(chi)_l z_l)^2 + (lam_k/2)|k|^2 + (lam_v/2)|v|^2

Four matrix-vector products with the tokens per gradient (BLAS); what happens to the fields chi, z
is the model's own attention, differentiated by JAX. Success is judged here, from the gradient at
the returned point, not taken from the optimiser. BLAS runs on one thread: its threads wait in busy
loops, and on a machine with other work a pass over the tokens takes ten times as long with them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize
from scipy.sparse.linalg import LinearOperator, eigsh
from threadpoolctl import threadpool_limits

from .attention import Attention
from .data import GENERATOR, Data

TOLERANCE = 1e-6
MAX_STEPS = 5000
RANDOM_SIZE = 0.3
"""Standard deviation of the coordinates of a random start."""
METHODS = {"lbfgs": "L-BFGS-B", "bfgs": "BFGS", "newton-cg": "Newton-CG", "gd": None}


class Ended(enum.Enum):
    """How a minimisation ended; the value is the sentence a user reads."""

    CONVERGED = "converged"
    MAX_STEPS = "not converged: the maximum number of steps was reached"
    STALLED = (
        "not converged: no step lowers the objective any more, but the gradient is above the"
        " tolerance"
    )
    NON_FINITE = "not converged: the objective is not finite"
    SADDLE = (
        "not minimised: the start is a stationary point that is not a minimum, choose another start"
    )


@dataclass(frozen=True)
class Fit:
    """A minimiser: weights, F per dimension, mean squared training residual, root mean square
    gradient per coordinate, and how it ended.
    """

    k: np.ndarray
    v: np.ndarray
    objective: float
    training_loss: float
    gradient_norm: float
    status: Ended
    steps: int
    evaluations: int

    @property
    def ok(self) -> bool:
        return self.status is Ended.CONVERGED


class Objective:
    """F of one data set with its gradient and Hessian-vector products; w = (k, v)."""

    def __init__(self, data: Data, programs: Programs, ridge: tuple[float, float]) -> None:
        self.data, self.programs, self.evaluations = data, programs, 0
        self.ridge = np.repeat(ridge, data.D)

    def __call__(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        self.evaluations += 1
        loss, forces = self.programs.loss(
            *self.data.fields(*np.split(w, 2)), self.data.y, self.data.present
        )
        gradient = np.concatenate(self.data.back(*map(np.asarray, forces))) + self.ridge * w
        return float(loss) + 0.5 * float(self.ridge @ w**2), gradient

    def curvature(self, w: np.ndarray, p: np.ndarray) -> np.ndarray:
        """The Hessian at ``w`` applied to ``p``."""
        fields, moves = self.data.fields(*np.split(w, 2)), self.data.fields(*np.split(p, 2))
        forces = self.programs.response(fields, moves, self.data.y, self.data.present)
        return np.concatenate(self.data.back(*map(np.asarray, forces))) + self.ridge * p

    def training_loss(self, w: np.ndarray) -> float:
        """Mean squared residual."""
        return (
            2
            * float(
                self.programs.loss(
                    *self.data.fields(*np.split(w, 2)), self.data.y, self.data.present
                )[0]
            )
            / self.data.N
        )

    def rms(self, gradient: np.ndarray) -> float:
        return float(np.linalg.norm(gradient) / np.sqrt(gradient.size))


@dataclass(frozen=True)
class Programs:
    """Compiled once per attention and shape: (loss, gradient in the fields), and that gradient's
    derivative along a move.
    """

    loss: Callable[..., Any]
    response: Callable[..., Any]


def programs(sigma: Attention) -> Programs:
    """The loss sum_mu r^2/2 in the fields (chi, z) of shape (L, N)."""

    def loss(chi: jax.Array, z: jax.Array, y: jax.Array, present: jax.Array | None) -> jax.Array:
        return 0.5 * jnp.sum((y - (sigma(chi, present) * z).sum(axis=0)) ** 2)

    def response(at: Any, along: Any, y: jax.Array, present: jax.Array | None) -> Any:
        forces = lambda chi, z: jax.grad(loss, argnums=(0, 1))(chi, z, y, present)  # noqa: E731
        return jax.jvp(forces, tuple(at), tuple(along))[1]

    return Programs(jax.jit(jax.value_and_grad(loss, argnums=(0, 1))), jax.jit(response))


def start(kind: str, data: Data, rng: GENERATOR) -> np.ndarray:
    """w = (k, v): "random" N(0, RANDOM_SIZE^2) coordinates, or "informed", the teacher's own."""
    return (
        np.concatenate([data.k_star, data.v_star])
        if kind == "informed"
        else RANDOM_SIZE * rng.standard_normal(2 * data.D)
    )


def minimise(
    objective: Objective,
    w: np.ndarray,
    method: str = "lbfgs",
    tol: float = TOLERANCE,
    max_steps: int = MAX_STEPS,
) -> Fit:
    """Minimise from ``w``; ``tol`` is on the root mean square of the gradient's coordinates.

    Parameters
    ----------
    method : {"lbfgs", "bfgs", "newton-cg", "gd"}
        Quasi-Newton with little memory or with a 2D x 2D matrix, truncated Newton, and gradient
        descent.
    """
    before, scipy_name = objective.evaluations, METHODS[method]
    with threadpool_limits(1, "blas"):
        end, steps = (
            _scipy(objective, w, scipy_name, tol, max_steps)
            if scipy_name
            else _descend(objective, w, tol, max_steps)
        )
        value, gradient = objective(end)
        used, norm = objective.evaluations - before, objective.rms(gradient)
        status = _judge(objective, end, value, norm, steps, tol, max_steps)
        k, v = np.split(end, 2)
        return Fit(
            k, v, value / objective.data.D, objective.training_loss(end), norm, status, steps, used
        )


def _judge(
    objective: Objective,
    w: np.ndarray,
    value: float,
    norm: float,
    steps: int,
    tol: float,
    max_steps: int,
) -> Ended:
    if not np.isfinite(value) or not np.isfinite(norm):
        return Ended.NON_FINITE
    if norm > tol:
        return Ended.MAX_STEPS if steps >= max_steps else Ended.STALLED
    return Ended.SADDLE if steps == 0 and _lowest_curvature(objective, w) < 0 else Ended.CONVERGED


def _lowest_curvature(objective: Objective, w: np.ndarray) -> float:
    hessian = LinearOperator((w.size, w.size), matvec=partial(objective.curvature, w), dtype=float)
    return float(eigsh(hessian, k=1, which="SA", tol=1e-2, return_eigenvectors=False)[0])


def _scipy(
    objective: Objective, w: np.ndarray, method: str, tol: float, max_steps: int
) -> tuple[np.ndarray, int]:
    """SciPy's optimisers, with their own criteria set beyond ours."""
    options: dict[str, dict[str, Any]] = {
        "L-BFGS-B": {"maxcor": 20, "ftol": 0.0, "gtol": tol, "maxfun": 20 * max_steps},
        "BFGS": {"gtol": tol},
        "Newton-CG": {"xtol": 1e-12},
    }
    more: Mapping[str, Any] = (
        {"hessp": objective.curvature, "callback": _until(objective, tol)}
        if method == "Newton-CG"
        else {}
    )
    result = minimize(
        objective,
        w,
        jac=True,
        method=method,
        options=options[method] | {"maxiter": max_steps},
        **more,
    )
    return result.x, int(result.nit)


def _until(objective: Objective, tol: float) -> Callable[..., None]:
    """Newton-CG has no criterion on the gradient."""

    def stop(intermediate_result: Any) -> None:
        if objective.rms(objective(intermediate_result.x)[1]) <= tol:
            raise StopIteration

    return stop


def _descend(
    objective: Objective, w: np.ndarray, tol: float, max_steps: int
) -> tuple[np.ndarray, int]:
    """Gradient descent; the step doubles after a success and halves until it lowers the objective
    by half of what the slope promises.
    """
    value, gradient = objective(w)
    step = 1.0 / objective.data.N
    for steps in range(max_steps):
        if objective.rms(gradient) <= tol or not np.isfinite(value):
            return w, steps
        promised = gradient @ gradient
        while True:
            moved = w - step * gradient
            new, slope = objective(moved)
            if new <= value - 0.5 * step * promised:
                break
            step /= 2
            if step * np.sqrt(promised) <= np.finfo(float).eps * np.linalg.norm(w):
                return w, steps
        w, value, gradient, step = moved, new, slope, 2 * step
    return w, max_steps
