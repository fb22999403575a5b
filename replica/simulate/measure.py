r"""What a simulation measures: overlaps with the teacher, and the test risk on fresh data.

A prediction depends on fresh tokens only through X_l.w/sqrt(D), w = k, v, k*, v*. These are
Gaussian with covariance w.w'/D (shifted by sqrt(nu) k*.w/D on the relevant token of spiked data),
so a test set is drawn in four dimensions per token instead of D: the same law, every cross overlap
included. Source: theory.md sections 1 and 3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np

from .attention import Attention
from .data import GENERATOR, Data, Lengths, draw_lengths, locate

TEST_SAMPLES = 2**16
FIELDS = 2**19
"""Fields of each kind drawn at once: memory does not grow with L."""


def overlaps(data: Data, k: np.ndarray, v: np.ndarray) -> dict[str, float]:
    """m_a = w_a.w_a*/D and q_a = |w_a|^2/D."""
    pairs = {"k": (k, data.k_star), "v": (v, data.v_star)}
    return {
        f"{n}_{a}": float(w @ (star if n == "m" else w)) / data.D
        for a, (w, star) in pairs.items()
        for n in "mq"
    }


Predictor = Callable[..., np.ndarray]
"""(chi, z, present) -> prediction, (N,); ``present`` may be left out at fixed length."""


def predictor(sigma: Attention) -> Predictor:
    """sum_l sigma(chi)_l z_l, compiled once."""
    return jax.jit(lambda chi, z, present=None: (sigma(chi, present) * z).sum(axis=0))


def test_risk(
    rng: GENERATOR,
    predict: Predictor,
    data: Data,
    k: np.ndarray,
    v: np.ndarray,
    rule: str,
    nu: float,
    Delta: float,
    samples: int = TEST_SAMPLES,
    lengths: Lengths | None = None,
) -> float:
    """Mean squared error on ``samples`` fresh sequences (in equal blocks, whose number is rounded
    up), label noise added as its variance.
    """
    vectors = np.stack([k, v, data.k_star, data.v_star])
    gram = vectors @ vectors.T / data.D
    values, frame = np.linalg.eigh(gram)  # not Cholesky: k may be k*
    root = frame * np.sqrt(np.maximum(values, 0.0))
    block = max(1, min(samples, FIELDS // data.L))
    each, squares = np.arange(block), []
    for _ in range(-(-samples // block)):
        fields = np.einsum("ab,bln->aln", root, rng.standard_normal((4, data.L, block)))
        length, present = draw_lengths(rng, lengths, data.L, block)
        if present is not None:
            fields *= present
        if rule == "spiked":
            location = rng.integers(length, size=block)
            fields[:, location, each] += np.sqrt(nu) * gram[:, 2:3]
        else:
            location = locate(rng, fields[2].T, nu, None if present is None else present.T)
        squares.append(
            np.mean(
                (fields[3][location, each] - np.asarray(predict(fields[0], fields[1], present)))
                ** 2
            )
        )
    return float(np.mean(squares)) + Delta


@dataclass(frozen=True)
class Symmetry:
    """Exchanges of weights that leave every prediction as it is: (k, v) -> (-k, -v),
    and k <-> v.
    """

    flip: bool
    swap: bool

    def aligned(
        self, data: Data, k: np.ndarray, v: np.ndarray, ridge: tuple[float, float]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The image of (k, v) with the largest m_k + m_v: minimisers come in such sets, and the
        theory describes this one.
        """
        found = [(k, v)]
        if self.swap:  # at a minimum lam_k |k|^2 = lam_v |v|^2; the exchange keeps that
            scale = np.sqrt(ridge[1] / ridge[0])
            found.append((scale * v, k / scale))
        if self.flip:
            found += [(-a, -b) for a, b in found]
        return max(found, key=lambda pair: float(pair[0] @ data.k_star + pair[1] @ data.v_star))


def symmetry(predict: Predictor, tokens: int) -> Symmetry:
    """Found by trying it on random fields."""
    chi, z = np.random.default_rng(0).standard_normal((2, tokens, 64))
    plain = np.asarray(predict(chi, z))
    return Symmetry(
        *(bool(np.allclose(plain, predict(*other), rtol=1e-9)) for other in ((-chi, -z), (z, chi)))
    )
