"""Float64, for as long as we compute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jax

from .process import check_process


@contextmanager
def double_precision() -> Iterator[None]:
    """The one place where float64 is switched on (per thread); the caller's JAX configuration is
    left as it was.
    """
    check_process()
    with jax.enable_x64(True):
        yield
