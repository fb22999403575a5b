"""Trials of a check that are stored as they finish, so that an interrupted check continues where it
stopped.

The file is complete and readable at every moment: it is replaced as a whole, with a mark on every
trial that is done. Trial i of a size does not depend on any other, so a continued check is the same
bit for bit.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import xarray as xr

from ..errors import StoreError
from ..files import store
from .run import JobOptions, differences

DONE = "done"
GRIDS = ("size", "trial")


class TrialCheckpoint:
    """Results over (size, trial, ...), which of them are there, and the file (or None) that holds
    them.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        trials: int,
        attrs: Mapping[str, Any] | None = None,
        file: store.Name | None = None,
    ) -> None:
        self.file = file
        self.blank = xr.Dataset(
            coords={"size": list(sizes), "trial": np.arange(trials)},
            attrs={**(attrs or {}), "complete": False},
        )
        self.done = np.zeros((len(sizes), trials), bool)
        self.results: dict[str, np.ndarray] = {}

    def put(self, size: int, trial: int, found: Mapping[str, Any]) -> None:
        """Keep the numbers of one trial, given by its positions."""
        for name, value in found.items():
            value = np.asarray(value)
            self.results.setdefault(name, np.zeros((*self.done.shape, *value.shape), value.dtype))[
                size, trial
            ] = value
        self.done[size, trial] = True
        if self.file is not None:
            store.rewrite(self.file, self.dataset())

    def dataset(self) -> xr.Dataset:
        """What is there so far; the axes beyond (size, trial) have no names yet."""
        variables = {
            name: ((*GRIDS, *(f"{name}_{i}" for i in range(v.ndim - 2))), v)
            for name, v in self.results.items()
        }
        return self.blank.assign(variables).assign({DONE: (GRIDS, self.done)})

    def take(self, old: xr.Dataset) -> None:
        """Continue with what a file has, or say why it does not belong to this check."""
        ignored = [name for name in old.attrs if name not in self.blank.attrs]
        differing = differences(old, self.blank, GRIDS, (*ignored, "complete"))
        if differing:
            raise StoreError(
                f"{self.file} was made with other settings ({'; '.join(differing)}): repeat those,"
                " or choose another name"
            )
        finished = DONE not in old
        self.done = np.ones_like(self.done) if finished else old[DONE].values
        self.results = {
            str(name): v.values
            for name, v in old.data_vars.items()
            if v.dims[:2] == GRIDS and name != DONE
        }

    def finish(self, dataset: xr.Dataset) -> None:
        """Replace the trials by the whole check."""
        if self.file is not None:
            store.rewrite(self.file, dataset.assign_attrs(complete=True))


@contextmanager
def keeping(
    work: JobOptions, sizes: Sequence[int], trials: int, attrs: Mapping[str, Any]
) -> Iterator[TrialCheckpoint]:
    """The trials of ``work``; its file is locked meanwhile. ``attrs`` say what is run, and must be
    those of a file that is continued.
    """
    if work.file is None:
        yield TrialCheckpoint(sizes, trials)
        return
    store.check_target(work.file, force=True)
    with store.locked(work.file):
        kept = TrialCheckpoint(sizes, trials, attrs, work.file)
        if os.path.exists(work.file) and work.resume:
            kept.take(store.load(work.file))
        elif os.path.exists(work.file) and not work.force:
            raise StoreError(
                f"{work.file} exists: pass --resume to continue it, --force to replace it, or"
                " choose another name"
            )
        yield kept
