"""What a user says about long work: where it is done, and where it is kept."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import InputError
from ..files.writer import Name


def cores() -> int:
    """Processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True)
class JobOptions:
    """Where long work is done and kept.

    Attributes
    ----------
    file : path or None
        Rewritten whenever a piece of the work is finished.
    resume : bool
        Continue ``file`` if it is there.
    force : bool
        Replace ``file`` if it is there.
    dask : address, distributed.Client or None
        Workers to send the pieces to; this process's threads by default.
    jobs : int or None
        Cores of this machine to use, by so many threads; None: all. It changes no bit of a result.
    progress : bool or None
        Show a bar; None: only if the error stream is a terminal.
    attrs : dict
        Noted in the file, such as the command line.
    """

    file: Name | None = None
    resume: bool = False
    force: bool = False
    dask: Any = None
    progress: bool | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)
    jobs: int | None = None

    def __post_init__(self) -> None:
        whole = isinstance(self.jobs, int) and not isinstance(self.jobs, bool)
        if self.jobs is not None and not (whole and self.jobs >= 1):
            raise InputError(f"jobs = {self.jobs} must be a whole number, at least 1")
        if self.jobs is not None and self.dask is not None:
            raise InputError(
                "jobs are threads of this machine, dask has workers of its own: give one of them"
            )

    def at_once(self, cores_of_one: int = 1) -> int:
        """Pieces at a time, each of which occupies so many cores."""
        return max(1, (self.jobs or cores()) // cores_of_one)
