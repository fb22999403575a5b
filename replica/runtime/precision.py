"""Float64 for as long as we compute, and what differs between a CPU and other devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

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
    on_cpu()  # says in a sentence if the device is not there
    keep_programs()
    with jax.enable_x64(True):
        yield


@cache
def on_cpu() -> bool:
    """Whether programs run on a CPU. It starts JAX, which must not happen on import: the user may
    choose the device until then.

    Raises
    ------
    InputError
        JAX does not find the device that the user asks for.
    """
    try:
        return jax.default_backend() == "cpu"
    except (RuntimeError, AssertionError):  # with and without a plugin for the device
        raise InputError(
            f"JAX finds no device for JAX_PLATFORMS={jax.config.jax_platforms}: install JAX for it"
            " (docs/gpu.md), or leave the variable out"
        ) from None


class CpuOptions(Mapping[str, Any]):
    """Options of XLA for CPUs, and none on other devices: XLA for GPUs supports no optimisation
    level below 2. The device is looked up when a program is jitted.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options

    def _here(self) -> dict[str, Any]:
        return self._options if on_cpu() else {}

    def __getitem__(self, name: str) -> Any:
        return self._here()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._here())

    def __len__(self) -> int:
        return len(self._here())


def mapped(function: Callable[[Any], Any], values: Any) -> Any:
    """``function`` of each entry along the first axis: one after the other on a CPU, where in a
    batch all wait for the slowest; on other devices in one batch.
    """
    return jax.lax.map(function, values) if on_cpu() else jax.vmap(function)(values)
