r"""Data of single-location regression at finite D, float64.

    spiked   eps uniform on 1..L, X_eps = sqrt(nu/D) k* + noise
    max      eps ~ softmax(nu X_l.k*/sqrt(D)), nu = inf: the largest
    y = X_eps.v*/sqrt(D) + sqrt(Delta) xi,     k*, v*, tokens ~ N(0, I_D),
    N = round(alpha D) samples

The tokens are drawn into one array, in place: a run takes little more than 8 N L D bytes. With a
law of the length every sequence has room for the longest, and the tokens that it does not have are
zero. Source: theory.md section 1.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import InputError

BLOCK = 256
"""Samples whose spike is added at once."""
PER_TOKEN = 40
"""Numbers per token beside its coordinates: fields, weights, their derivatives and the temporaries
of both.
"""
PER_COORDINATE = 60
"""Numbers per coordinate of (k, v): teacher, gradient, the pairs that L-BFGS keeps."""
GENERATOR = np.random.Generator
Lengths = Sequence[tuple[int, float]]
"""(length, probability), lengths rising."""


@dataclass(frozen=True)
class Data:
    """Tokens ``x`` of shape (N L, D), the tokens of a sample in successive rows; ``y`` and
    ``location`` of shape (N,); the teacher.

    ``present`` (L, N) is 1.0 on the tokens that a sequence has and 0.0 beyond; None if all have L.
    """

    x: np.ndarray
    y: np.ndarray
    location: np.ndarray
    k_star: np.ndarray
    v_star: np.ndarray
    present: np.ndarray | None = None

    @property
    def D(self) -> int:
        return self.x.shape[1]

    @property
    def N(self) -> int:
        return self.y.shape[0]

    @property
    def L(self) -> int:
        return self.x.shape[0] // self.N

    def fields(self, *weights: np.ndarray) -> list[np.ndarray]:
        """X_l.w/sqrt(D) for each w, shape (L, N); one vector at a time, which BLAS does faster than
        two at once.
        """
        return [
            np.ascontiguousarray((self.x @ w).reshape(self.N, self.L).T) / np.sqrt(self.D)
            for w in weights
        ]

    def back(self, *forces: np.ndarray) -> list[np.ndarray]:
        """sum_{mu,l} X_l g_l/sqrt(D) for each g of shape (L, N)."""
        return [np.ravel(g.T) @ self.x / np.sqrt(self.D) for g in forces]


def samples(alpha: float, D: int) -> int:
    """N = round(alpha D), at least 1."""
    return max(1, round(alpha * D))


def memory(alpha: float, L: int, D: int) -> float:
    """Bytes that one trial takes at most: its data and the work arrays of fitting them."""
    tokens = samples(alpha, D) * L
    return 8.0 * (tokens * (D + PER_TOKEN) + PER_COORDINATE * D + BLOCK * D)


def free_memory() -> float:
    """Bytes that are free; infinite where the system does not say."""
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError):
        return float("inf")


def check_memory(alpha: float, L: int, D: int) -> float:
    """``memory``, or an InputError if the machine does not have it."""
    needed, free = memory(alpha, L, D), free_memory()
    if needed > free:
        raise InputError(
            f"one trial at D = {D} takes {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free:"
            " use a smaller --D or alpha"
        )
    return needed


def draw(
    rng: GENERATOR,
    rule: str,
    D: int,
    L: int,
    alpha: float,
    nu: float,
    Delta: float,
    lengths: Lengths | None = None,
) -> Data:
    """One data set; ``rule`` is "spiked" (nu finite) or "max" (nu may be inf); L is the longest of
    ``lengths``, if these are given.
    """
    n = samples(alpha, D)
    k_star, v_star = rng.standard_normal((2, D))
    x = np.empty((n * L, D))
    rng.standard_normal(out=x)
    length, present = draw_lengths(rng, lengths, L, n)
    if present is not None:
        x[np.ravel(present.T) == 0] = 0.0
    if rule == "spiked":
        location = rng.integers(length, size=n)
        rows = np.arange(n) * L + location
        for first in range(0, n, BLOCK):
            x[rows[first : first + BLOCK]] += np.sqrt(nu / D) * k_star
    else:
        location = locate(
            rng, (x @ k_star / np.sqrt(D)).reshape(n, L), nu, None if present is None else present.T
        )
        rows = np.arange(n) * L + location
    y = (x @ v_star / np.sqrt(D))[rows] + np.sqrt(Delta) * rng.standard_normal(n)
    return Data(x, y, location, k_star, v_star, present)


def draw_lengths(
    rng: GENERATOR, lengths: Lengths | None, L: int, n: int
) -> tuple[int | np.ndarray, np.ndarray | None]:
    """The length of each of n sequences and which of its L places it fills, (L, n); L and None
    without a law (nothing is drawn then).
    """
    if lengths is None:
        return L, None
    values, probabilities = zip(*lengths, strict=True)
    length = rng.choice(np.array(values), size=n, p=np.array(probabilities))
    return length, (np.arange(L)[:, None] < length).astype(float)


def locate(
    rng: GENERATOR, field: np.ndarray, nu: float, present: np.ndarray | None = None
) -> np.ndarray:
    """eps ~ softmax(nu field) over those of the last axis that are ``present``, as the argmax of nu
    field + Gumbel noise.
    """
    score = field if np.isinf(nu) else nu * field + rng.gumbel(size=field.shape)
    return (score if present is None else np.where(present > 0, score, -np.inf)).argmax(axis=-1)
