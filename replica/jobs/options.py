"""What a user says about long work: where it is done, and where it is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..files.writer import Name


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
