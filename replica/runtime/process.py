"""Which process computes: JAX runs threads, of which a fork of a process has none, so that it would
wait for them for ever.
"""

from __future__ import annotations

import os

from ..errors import InputError

_COMPUTED_IN: list[int] = []
"""The process that has computed first: this one, or the one of which this is a fork."""


def check_process() -> None:
    """Raise InputError in a fork of a process that has computed; to be called before any computing.

    A fork that computes nothing is left in peace, and so is one of a process that has computed
    nothing yet.
    """
    here = os.getpid()
    if not _COMPUTED_IN:
        _COMPUTED_IN.append(here)
    elif _COMPUTED_IN[0] != here:
        raise InputError(
            f"this process is a fork of process {_COMPUTED_IN[0]}, in which replica has computed:"
            ' use multiprocessing.get_context("spawn") or "forkserver"'
        )
