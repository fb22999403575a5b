r"""Stochastic ascent of one attention query on the sphere, fresh tokens at every step.

    f = sum_i w_i x_i,     g = 2 beta sum_i w_i ((x_i - f).f) x_i,
    q <- normalise(q + eta_k (g - q (q.g))),     eta_k = c/(k + k0)^gamma

averaged over ``batch`` sequences per step. Two ways to draw the tokens, equal in law:

explicit   every coordinate of every token, in blocks of ``block`` tokens. A block is drawn twice
           from the same key, for f and
           for g, so that memory does not grow with L.
projected  only what rho sees. The tokens Z across q and xi are Gaussian and independent of w:
f_perp = |w| n, and given f_perp
           Z.f_perp and Z^T (w s) are Gaussian too (conditioning on Z^T w). O(L + d) numbers instead
           of O(L d).

The signal is the first unit vector (the law of q.xi does not depend on it). float32 by default,
float64 by choice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import InputError
from ..runtime.precision import double_precision

MEMORY = 1e9
"""Bytes above which a run is refused before anything is drawn."""
COPIES = 7
"""Arrays of the size of a block of tokens that are alive at once: 5 to 7 by XLA's own account of
the compiled program.
"""


@dataclass(frozen=True)
class Ascent:
    """A simulation: sizes, steps and how tokens are drawn.

    Attributes
    ----------
    theta, beta : float
        Signal strength and inverse temperature.
    d, L, informative : int
        Dimension, tokens per sequence, how many of them carry the signal.
    steps, batch, trials : int
        Steps, sequences per step, independent runs.
    c, k0, gamma : float
        eta_k = c/(k + k0)^gamma, k = 0, 1, ...; Robbins-Monro needs 1/2 < gamma <= 1.
    rho0 : float or None
        Alignment at the start; None: uniform on the sphere, rho(0) = O(1/sqrt(d)).
    tokens : {"explicit", "projected"}
    block : int
        Tokens drawn at once (explicit).
    dtype : {"float32", "float64"}
    seed : int
    """

    theta: float
    d: int
    L: int
    informative: int
    c: float
    steps: int = 100
    beta: float = 1.0
    k0: float = 10.0
    gamma: float = 0.6
    batch: int = 1
    trials: int = 30
    rho0: float | None = None
    tokens: Literal["explicit", "projected"] = "explicit"
    block: int = 256
    dtype: Literal["float32", "float64"] = "float32"
    seed: int = 0

    @property
    def share(self) -> float:
        """r = R/L."""
        return self.informative / self.L

    @property
    def step_sizes(self) -> np.ndarray:
        """eta_k, shape (steps,)."""
        return self.c / (np.arange(self.steps) + self.k0) ** self.gamma

    @property
    def times(self) -> np.ndarray:
        """Rescaled time sum_{j < k} eta_j, shape (steps + 1,)."""
        return np.concatenate([[0.0], np.cumsum(self.step_sizes)])

    def memory(self) -> float:
        """Bytes that a run takes beyond the program itself."""
        width = self.block * self.d if self.tokens == "explicit" else self.L * 3
        return (
            float(np.dtype(self.dtype).itemsize)
            * self.trials
            * (COPIES * width * self.batch + 4 * self.d * (1 + self.batch) + 2 * self.steps)
        )

    def checked(self) -> Ascent:
        """Itself, or an InputError that says what to change."""
        for name in ("d", "L", "steps", "batch", "trials", "block"):
            if getattr(self, name) < 1 or getattr(self, name) != int(getattr(self, name)):
                raise InputError(f"{name} = {getattr(self, name)} must be a positive integer")
        if self.d < 4 or not 0 < self.informative < self.L:
            raise InputError(
                "a simulation needs d >= 4 and between 1 and L - 1 informative tokens: change d, L"
                " or r"
            )
        if not 0.5 < self.gamma <= 1 or not self.c > 0 or not self.k0 > 0:
            raise InputError(
                "Robbins-Monro steps c/(k + k0)^gamma need c > 0, k0 > 0 and 1/2 < gamma <= 1"
            )
        if self.rho0 is not None and not -1 <= self.rho0 <= 1:
            raise InputError(f"rho0 = {self.rho0} must be between -1 and 1")
        if self.tokens not in ("explicit", "projected") or self.dtype not in ("float32", "float64"):
            raise InputError("tokens must be explicit or projected, and dtype float32 or float64")
        if self.memory() > MEMORY:
            size = f"{self.memory() / 1e9:.1f} GB, more than {MEMORY / 1e9:.0f} GB"
            raise InputError(f"this run takes {size}: use fewer trials or a smaller block or batch")
        return self


class Paths(NamedTuple):
    """Alignment q_k.xi, shape (trials, steps + 1), and attention on noise tokens before each step,
    shape (trials, steps).
    """

    rho: np.ndarray
    noise_mass: np.ndarray


def run(ascent: Ascent) -> Paths:
    """Simulate every trial; trial i is the same whatever the number of trials."""
    ascent.checked()
    with double_precision():
        program, arguments = prepared(ascent)
        rho, mass = program(*arguments)
        return Paths(np.asarray(rho, dtype=float), np.asarray(mass, dtype=float))


def prepared(ascent: Ascent) -> tuple[Any, tuple[Any, ...]]:
    """The jitted program, compiled once per shape, and its arguments: everything that does not
    change the program.
    """
    dtype = jnp.dtype(ascent.dtype)
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(ascent.seed), i))(
        jnp.arange(ascent.trials)
    )
    controls = [
        jnp.asarray(v, dtype)
        for v in (ascent.theta, ascent.beta, np.nan if ascent.rho0 is None else ascent.rho0)
    ]
    shape = replace(
        ascent, theta=0.0, beta=0.0, c=0.0, k0=0.0, gamma=0.0, rho0=None, seed=0, steps=0, trials=0
    )
    if ascent.tokens == "explicit":
        shape = replace(shape, L=0, informative=0)
    return _compiled(shape), (
        keys,
        controls,
        jnp.asarray(ascent.step_sizes, dtype),
        ascent.L,
        ascent.informative,
    )


@cache
def _compiled(shape: Ascent) -> Any:
    trial = _explicit_trial if shape.tokens == "explicit" else _projected_trial
    return jax.jit(jax.vmap(partial(trial, shape), in_axes=(0, None, None, None, None)))


def _start(shape: Ascent, key: jax.Array, rho0: jax.Array) -> jax.Array:
    """A unit vector, uniform or (rho0 not NaN) with that first coordinate."""
    q = jax.random.normal(key, (shape.d,), shape.dtype)
    across = q.at[0].set(0.0)
    placed = (jnp.sqrt(1 - rho0**2) * across / jnp.linalg.norm(across)).at[0].set(rho0)
    return jnp.where(jnp.isnan(rho0), q / jnp.linalg.norm(q), placed)


def _explicit_trial(
    shape: Ascent, key: jax.Array, controls: Any, sizes: jax.Array, length: Any, informative: Any
) -> tuple[jax.Array, jax.Array]:
    theta, beta, rho0 = controls
    first, rest = jax.random.split(key)

    def step(
        q: jax.Array, at: tuple[jax.Array, jax.Array]
    ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        k, eta = at
        draws = jax.random.split(jax.random.fold_in(rest, k), shape.batch)
        gradients, mass = jax.vmap(
            lambda s: gradient(s, q, theta, beta, length, informative, shape.block)
        )(draws)
        g = gradients.mean(axis=0)
        moved = q + eta * (g - q * (q @ g))
        return moved / jnp.linalg.norm(moved), (q[0], mass.mean())

    q, (rho, mass) = jax.lax.scan(
        step, _start(shape, first, rho0), (jnp.arange(sizes.shape[0]), sizes)
    )
    return jnp.append(rho, q[0]), mass


def gradient(
    key: jax.Array, q: jax.Array, theta: Any, beta: Any, length: Any, informative: Any, block: int
) -> tuple[jax.Array, jax.Array]:
    """g = 2 beta sum_i w_i ((x_i - f).f) x_i of one sequence, and the attention on its noise
    tokens, block by block.
    """
    d, blocks = q.shape[0], -(-length // block)

    def tokens(b: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
        x = jax.random.normal(jax.random.fold_in(key, b), (block, d), q.dtype)
        i = b * block + jnp.arange(block)
        x = x.at[:, 0].add(jnp.where(i < informative, theta, 0.0))
        return x, jnp.where(i < length, beta * (x @ q), -jnp.inf), i < informative

    def first(b: Any, state: Any) -> Any:
        top, total, on_signal, mean = state
        x, score, signal = tokens(b)
        new = jnp.maximum(top, score.max())
        weight, old = jnp.exp(score - new), jnp.exp(top - new)
        return (
            new,
            old * total + weight.sum(),
            old * on_signal + (weight * signal).sum(),
            old * mean + weight @ x,
        )

    zero = jnp.zeros((), q.dtype)
    top, total, on_signal, mean = jax.lax.fori_loop(
        0, blocks, first, (zero - jnp.inf, zero, zero, jnp.zeros_like(q))
    )
    f = mean / total

    def second(b: Any, pull: jax.Array) -> jax.Array:
        x, score, _ = tokens(b)
        return pull + (jnp.exp(score - top) / total * (x @ f - f @ f)) @ x

    return 2 * beta * jax.lax.fori_loop(0, blocks, second, jnp.zeros_like(q)), 1 - on_signal / total


def _projected_trial(
    shape: Ascent, key: jax.Array, controls: Any, sizes: jax.Array, length: Any, informative: Any
) -> tuple[jax.Array, jax.Array]:
    theta, beta, rho0 = controls
    first, rest = jax.random.split(key)
    draw: Callable[..., Any] = partial(_projected_gradient, shape, theta, beta)

    def step(
        rho: jax.Array, at: tuple[jax.Array, jax.Array]
    ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        k, eta = at
        draws = jax.random.split(jax.random.fold_in(rest, k), shape.batch)
        along, across, mass = jax.vmap(lambda s: draw(s, rho))(draws)
        along, across = along.mean(axis=0), across.mean(axis=0)
        length_squared = 1 + eta**2 * (along**2 + across @ across)
        moved = (rho + eta * along * jnp.sqrt(1 - rho**2)) / jnp.sqrt(length_squared)
        return jnp.clip(moved, -1, 1), (
            rho,
            mass.mean(),
        )  # clip: rounding only, the exact value is a cosine

    rho, (path, mass) = jax.lax.scan(
        step, _start(shape, first, rho0)[0], (jnp.arange(sizes.shape[0]), sizes)
    )
    return jnp.append(path, rho), mass


def _projected_gradient(
    shape: Ascent, theta: Any, beta: Any, key: jax.Array, rho: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """g across q: its coordinate in the plane of q and xi, its d - 2 others, and the attention on
    noise tokens.
    """
    field, rest = jax.random.split(key)
    h, u, eta = jax.random.normal(field, (3, shape.L), shape.dtype)
    n, m = jax.random.normal(rest, (2, shape.d - 2), shape.dtype)
    signal = jnp.arange(shape.L) < shape.informative
    h, u = h + theta * rho * signal, u + theta * jnp.sqrt(1 - rho**2) * signal
    w = jax.nn.softmax(beta * h)
    square = w @ w
    f_h, f_u, f_rest = w @ h, w @ u, jnp.sqrt(square) * jnp.linalg.norm(n)
    # y = Z f_rest/|f_rest|: given Z^T w its part along w is fixed, the others stay standard normal.
    y = w * f_rest / square + eta - w * (w @ eta) / square
    s = w * (h * f_h + u * f_u + y * f_rest - (f_h**2 + f_u**2 + f_rest**2))
    spread = jnp.linalg.norm(s - w * (w @ s) / square)
    direction = n / jnp.linalg.norm(n)
    others = (s @ y) * direction + spread * (m - direction * (direction @ m))
    return 2 * beta * (s @ u), 2 * beta * others, 1 - w @ signal
