"""Digests: how a file knows that what is read is what was written.

Of every variable and of the attributes a SHA-256, which refuses damage; of every point of a grid
that is computed piece by piece a shorter one, which says where the damage is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from .metadata import encoded

POINT_BYTES = 8
"""Of the digest of a point. It only finds a place in a variable that is known to be damaged."""


def of_text(text: str) -> str:
    """Of attributes, as they are stored."""
    return hashlib.sha256(text.encode()).hexdigest()


def of_values(values: np.ndarray) -> str:
    """Of the values of a variable, and their shape; in one form for all machines: little-endian, or
    JSON for texts.
    """
    content = hashlib.sha256(encoded(values.shape).encode())
    if values.dtype.kind in "OUT":
        content.update(encoded(values.astype(object).tolist()).encode())
    else:
        content.update(np.ascontiguousarray(_little_endian(values)).data)
    return content.hexdigest()


def _little_endian(values: np.ndarray) -> np.ndarray:
    return values.astype(values.dtype.newbyteorder("<"), copy=False)


def covered(dataset: xr.Dataset, dims: Sequence[str]) -> list[str]:
    """The variables that have a value at each point of a grid."""
    return sorted(str(n) for n, v in dataset.data_vars.items() if set(dims) <= set(v.dims))


def of_points(dataset: xr.Dataset, dims: Sequence[str]) -> list[str]:
    """Of every point of the grid of ``dims``, in C order: over all that has a value there."""
    count = int(np.prod([dataset.sizes[d] for d in dims]))
    rows = [np.zeros((count, 0), np.uint8)]
    for name in covered(dataset, dims):
        values = dataset[name].transpose(*dims, ...).values
        if values.dtype.kind in "OT":
            values = values.astype("U")
        flat = np.ascontiguousarray(_little_endian(values))
        rows.append(flat.reshape(-1).view(np.uint8).reshape(count, -1) if flat.size else rows[0])
    # One row a point, hashed one by one: a microsecond each.
    points: Any = np.concatenate(rows, axis=1)
    return [hashlib.blake2b(row, digest_size=POINT_BYTES).hexdigest() for row in points]
