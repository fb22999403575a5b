r"""Samples of single-location data: scrambled Sobol sets whose second moments are exact.

Each set is whitened (mean 0, covariance 1 over its points), which leaves the average of every
quadratic statistic of the Gaussian fields without error. Then the relevant token, numbered first,
gets its law:

    spiked:  chi*_1 = sqrt(nu) + g_1     max, nu = inf:  chi*_1 = max_l g_l
    max:  weight softmax(nu g)_eps, eps moved first

For finite nu the location is summed out: each point appears once per eps, with its weight. No draw
depends on an overlap, so a saddle-point map over fixed samples is smooth. Source: theory.md
sections 1 and 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..quadrature import sobol_gaussian


class Samples(NamedTuple):
    """Independent sets along the first axis, samples along the second, tokens along the third."""

    common: np.ndarray
    """(sets, n): the label noise."""
    tokens: np.ndarray
    """(sets, 4, n, L): chi*, z*, xi_k, xi_v."""
    weights: np.ndarray
    """(sets, n), summing to 1 in each set."""
    present: np.ndarray
    """(sets, n, L): 1 on the tokens of the sequence, the first ones."""


def whiten(points: np.ndarray) -> np.ndarray:
    """Shift and mix the columns of (n, d) points so that their mean is 0 and their
    covariance is 1.
    """
    centred = points - points.mean(axis=0)
    factor = np.linalg.cholesky(centred.T @ centred / len(points))
    return np.linalg.solve(factor, centred.T).T


def single_location(
    tokens: int, rule: str, nu: float, log2_n: int, sets: int, seed: int
) -> Samples:
    """``sets`` independent sets of at least ``2**log2_n`` samples (per location, for ``rule`` =
    "max" and finite ``nu``).
    """
    points = np.stack([whiten(p) for p in sobol_gaussian(4 * tokens + 1, log2_n, sets, seed)])
    common, fields = (
        points[:, :, 0],
        points[:, :, 1:].reshape(sets, -1, 4, tokens).transpose(0, 2, 1, 3).copy(),
    )
    weights = np.full(common.shape, 1.0 / common.shape[1])
    if rule == "spiked":
        fields[:, 0, :, 0] += np.sqrt(nu)
    elif np.isinf(nu):
        fields[:, 0] = _first(fields[:, 0], fields[:, 0].argmax(axis=-1))
    else:
        each = np.exp(nu * (fields[:, 0] - fields[:, 0].max(axis=-1, keepdims=True)))
        each /= each.sum(axis=-1, keepdims=True)
        turned = [
            np.concatenate(
                [_first(fields[:, :1], np.full(fields[:, :1].shape[:-1], eps)), fields[:, 1:]],
                axis=1,
            )
            for eps in range(tokens)
        ]
        fields = np.concatenate(turned, axis=2)
        weights = np.concatenate([weights * each[..., eps] for eps in range(tokens)], axis=1)
        common = np.concatenate([common] * tokens, axis=1)
    return Samples(common, fields, weights, np.ones(fields[:, 0].shape))


def random_length(
    law: Sequence[tuple[int, float]], rule: str, nu: float, log2_n: int, sets: int, seed: int
) -> Samples:
    """The same with the length summed out: samples of each length, weighted with its probability
    and padded with zeros.
    """
    longest, parts = max(length for length, _ in law), []
    for length, probability in law:
        one = single_location(length, rule, nu, log2_n - _halvings(rule, nu, length), sets, seed)
        padding = ((0, 0), (0, 0), (0, longest - length))
        padded = Samples(
            one.common,
            np.pad(one.tokens, ((0, 0), *padding)),
            one.weights * probability,
            np.pad(one.present, padding),
        )
        parts.append(padded)
    common, tokens, weights, present = zip(*parts, strict=True)
    return Samples(
        np.concatenate(common, 1),
        np.concatenate(tokens, 2),
        np.concatenate(weights, 1),
        np.concatenate(present, 1),
    )


def _halvings(rule: str, nu: float, tokens: int) -> int:
    """How often the samples are halved where summing the location out multiplies them by the number
    of tokens.
    """
    return int(np.log2(tokens)) if rule == "max" and np.isfinite(nu) else 0


def _first(fields: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Exchange token 0 and the chosen token."""
    moved = fields.copy()
    value = np.take_along_axis(fields, chosen[..., None], axis=-1)
    np.put_along_axis(moved, chosen[..., None], fields[..., :1], axis=-1)
    moved[..., :1] = value
    return moved
