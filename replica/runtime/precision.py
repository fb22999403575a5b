"""Float64 for as long as we compute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import jax

from ..errors import InputError
from .kept import keep_programs
from .process import check_process


@contextmanager
def double_precision() -> Iterator[None]:
    """The one place where float64 is switched on (per thread); the caller's JAX configuration is
    left as it was. Before the first program is compiled, JAX is told where to keep it.
    """
    check_process()
    check_device()
    keep_programs()
    with jax.enable_x64(True):
        yield


@cache
def check_device() -> None:
    """Raise InputError if JAX does not find the device that the user asks for. It starts JAX, which
    must not happen on import: the user may choose the device until then.
    """
    try:
        jax.default_backend()
    except (RuntimeError, AssertionError):  # with and without a plugin for the device
        platforms = jax.config.jax_platforms  # type: ignore[attr-defined]
        raise InputError(
            f"JAX finds no device for JAX_PLATFORMS={platforms}: install JAX for it"
            " (docs/gpu.md), or leave the variable out"
        ) from None
