"""The file of long work: complete and readable at every moment, locked, refused to other settings,
and continued bit for bit.

It is replaced as a whole whenever a piece of the work is finished, with what is still to come
marked. So it is also all that a later run needs to continue. The pieces do not depend on each
other, so continued work is the same as undisturbed work.
"""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from ..errors import InputError, ReplicaWarning, StoreError
from ..files import reading, store
from ..files.metadata import encoded
from ..files.writer import Name, check_target, locked
from .options import JobOptions

VOLATILE = ("created", "command", "complete", "source_file")
"""Attributes that may differ between the runs that make one file; those of the first are kept. The
place of a user's own model may differ, its text may not."""
DONE = "done"
TRIAL_GRIDS = ("size", "trial")


class Results(ABC):
    """What long work has found so far, as the dataset that is stored, and back.

    This is all that a kind of work (sweep, diagram, trials, ...) has to say about its file.

    Attributes
    ----------
    grids : sequence of str
        Coordinates that must be those of a file that is continued.
    """

    grids: Sequence[str]

    @property
    @abstractmethod
    def complete(self) -> bool:
        """Whether nothing is left to be found."""

    @abstractmethod
    def dataset(self) -> xr.Dataset:
        """All that is there; its attributes say what was asked for."""

    @abstractmethod
    def take(self, stored: xr.Dataset) -> None:
        """Continue with what a file has."""

    def outcomes(self, stored: xr.Dataset) -> Collection[str]:
        """Attributes of a file that were found, not asked for: they need not agree."""
        return ()

    def without(self, stored: xr.Dataset, lost: np.ndarray) -> xr.Dataset:
        """What a file has, some points of the grid as if they had never been computed."""
        empty, changed = self.dataset(), {}
        for name, variable in stored.data_vars.items():
            same = name in empty and empty[name].sizes == variable.sizes
            if same and set(self.grids) <= set(variable.dims):
                kept = xr.DataArray(~lost, dims=self.grids)
                changed[name] = variable.where(kept, empty[name]).astype(variable.dtype)
        return stored.assign(changed)


def unfinished(file: Name) -> Path:
    """Where work is kept that is to replace ``file``, until it is complete."""
    path = Path(file)
    return path.with_name(f"{path.stem}.unfinished{path.suffix}")


class Checkpoint:
    """The file of some results, or none; it is ours while it is open.

    Attributes
    ----------
    file : path or None
        Of the complete results.
    working : path or None
        Of what there is so far: the same, unless that replaces an older file.
    stored : xarray.Dataset or None
        What the file has had, if it is continued.
    """

    def __init__(
        self,
        results: Results,
        options: JobOptions,
        stored: xr.Dataset | None = None,
        working: Name | None = None,
    ) -> None:
        self.file, self.stored, self.working = options.file, stored, working
        self._results = results
        self._noted = dict(options.attrs)
        if stored is not None:
            first = (*options.attrs, *VOLATILE)
            self._noted = {name: stored.attrs[name] for name in first if name in stored.attrs}
        # Until we have written it, the file is somebody else's, even if it has only just appeared.
        self._replace = options.force or stored is not None

    def dataset(self) -> xr.Dataset:
        """The results so far, as they are stored."""
        complete = self._results.complete
        return self._results.dataset().assign_attrs({**self._noted, "complete": complete})

    def write(self, dataset: xr.Dataset | None = None) -> None:
        """Store the results so far, or ``dataset``; a failure leaves the file as it was."""
        if self.file is None or self.working is None:
            return
        content = self.dataset() if dataset is None else dataset
        complete = bool(content.attrs["complete"])
        target = self.file if complete else self.working
        store.rewrite(target, content, force=self._replace, grid=self._results.grids)
        self._replace = True
        if complete and self.working != self.file:
            Path(self.working).unlink(missing_ok=True)
            self.working = self.file


@contextmanager
def opened(results: Results, options: JobOptions) -> Iterator[Checkpoint]:
    """The file of ``results``, locked; they continue with what it has, if that is asked for.

    Nothing is written yet: a run that is refused leaves no trace.
    """
    if options.resume and (options.file is None or options.force):
        raise InputError("resume continues a file: give its name, and not force, which replaces it")
    if options.file is None:
        yield Checkpoint(results, options)
        return
    file = options.file
    check_target(file, force=True)
    # A complete file is worth keeping until the new one is complete, too.
    replaces = options.force and os.path.exists(file)
    working = unfinished(file) if replaces else file
    with locked(file), locked(working) if replaces else nullcontext():
        yield Checkpoint(results, options, _continued(results, options), working)


def _continued(results: Results, options: JobOptions) -> xr.Dataset | None:
    """What ``results`` take from the file, or why they do not; None where they begin anew."""
    file = options.file
    if file is None or not os.path.exists(file) or options.force:
        return None
    if not options.resume:
        raise StoreError(
            f"{file} exists: pass --resume to continue it, --force to replace it, or choose"
            " another name"
        )
    stored, lost = _repaired(file, results)
    asked = results.dataset().assign_attrs(options.attrs)
    ignored = (*VOLATILE, *results.outcomes(stored))
    differing = differences(stored, asked, results.grids, ignored)
    if differing:
        raise StoreError(
            f"{file} was made with other settings ({'; '.join(differing)}): repeat those,"
            " or choose another name"
        )
    if lost.any():
        warnings.warn(
            f"{file}: {int(lost.sum())} of {lost.size} points are damaged and are computed again",
            ReplicaWarning,
            stacklevel=2,
        )
        stored = results.without(stored, lost).assign_attrs(complete=False)
    results.take(stored)
    return stored


def _repaired(file: Name, results: Results) -> tuple[xr.Dataset, np.ndarray]:
    """What a file has, and which points of the grid are damaged."""
    stored = reading.read(file)
    if not stored.damaged:
        return stored.dataset, np.zeros(0, bool)
    return stored.dataset, reading.lost_points(file, stored, results.grids)


# what differs between a file and the present settings --------------------------------------------


def differences(
    old: xr.Dataset, new: xr.Dataset, grids: Sequence[str], ignored: Collection[str] = VOLATILE
) -> list[str]:
    """What differs between a file and the present settings, each with both values."""
    there, here = _settings(old, ignored), _settings(new, ignored)
    found = []
    for name in dict.fromkeys([*here, *there]):
        # As texts: equal ones are equal values, also for NaN and arrays.
        if _text(there, name) != _text(here, name):
            before, now = there.get(name, "not given"), here.get(name, "not given")
            found.append(f"{name} is {before} there and {now} here")
    for name in grids:
        before, now = _grid(old, name), _grid(new, name)
        if not np.array_equal(before, now):
            found.append(f"the grid of {name} is {_shown(before)} there and {_shown(now)} here")
    return found


def _settings(dataset: xr.Dataset, ignored: Collection[str]) -> dict[str, Any]:
    """The attributes that must agree, by dotted names."""
    return _flat({name: v for name, v in dataset.attrs.items() if name not in ignored})


def _flat(nested: Mapping[Any, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dicts as one dict with dotted names."""
    found = {}
    for key, value in nested.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found |= _flat(value, f"{name}.")
        else:
            found[name] = value
    return found


def _text(settings: Mapping[str, Any], name: str) -> str | None:
    return encoded(settings[name]) if name in settings else None


def _grid(dataset: xr.Dataset, name: str) -> np.ndarray:
    return dataset[name].values if name in dataset.coords else np.array([])


def _shown(grid: np.ndarray) -> str:
    if grid.size > 3:
        return f"{grid[0]}..{grid[-1]} ({grid.size} values)"
    return str(grid.tolist())


# the trials of a check ---------------------------------------------------------------------------


class TrialCheckpoint(Results):
    """Numbers over (size, trial, ...), and which trials are there; stored if it is ``keeping``.
    ``jobs`` says how many are run at a time, if the user does.
    """

    grids = TRIAL_GRIDS

    def __init__(
        self, sizes: Sequence[int], trials: int, attrs: Mapping[str, Any] | None = None
    ) -> None:
        coords = {"size": list(sizes), "trial": np.arange(trials)}
        self._blank = xr.Dataset(coords=coords, attrs=dict(attrs or {}))
        self.done = np.zeros((len(sizes), trials), bool)
        self.results: dict[str, np.ndarray] = {}
        self.checkpoint: Checkpoint | None = None
        self.jobs: int | None = None

    @property
    def complete(self) -> bool:
        """Never: the trials alone are not the whole check, which ``finish`` stores."""
        return False

    def put(self, size: int, trial: int, found: Mapping[str, Any]) -> None:
        """Keep the numbers of one trial, given by its positions."""
        for name, given in found.items():
            value = np.asarray(given)
            if name not in self.results:
                self.results[name] = np.zeros((*self.done.shape, *value.shape), value.dtype)
            self.results[name][size, trial] = value
        self.done[size, trial] = True
        if self.checkpoint is not None:
            self.checkpoint.write()

    def dataset(self) -> xr.Dataset:
        """What is there so far; the axes beyond (size, trial) have no names yet."""
        variables: dict[str, Any] = {}
        for name, values in self.results.items():
            inner = [f"{name}_{i}" for i in range(values.ndim - len(TRIAL_GRIDS))]
            variables[name] = ((*TRIAL_GRIDS, *inner), values)
        variables[DONE] = (TRIAL_GRIDS, self.done)
        return self._blank.assign(variables)

    def take(self, stored: xr.Dataset) -> None:
        """Continue with the trials of a file."""
        finished = DONE not in stored
        self.done = np.ones_like(self.done) if finished else stored[DONE].values
        self.results = {
            str(name): v.values
            for name, v in stored.data_vars.items()
            if v.dims[:2] == TRIAL_GRIDS and name != DONE
        }

    def without(self, stored: xr.Dataset, lost: np.ndarray) -> xr.Dataset:
        """What a file has, some trials as if they had not been made."""
        done = stored[DONE].values if DONE in stored else np.ones(lost.shape, bool)
        return stored.assign({DONE: (TRIAL_GRIDS, done & ~lost)})

    def outcomes(self, stored: xr.Dataset) -> Collection[str]:
        """A finished check has the attributes of its theory and of its report besides."""
        return [name for name in stored.attrs if name not in self._blank.attrs]

    def finish(self, dataset: xr.Dataset) -> None:
        """Replace the trials by the whole check."""
        if self.checkpoint is not None:
            self.checkpoint.write(dataset.assign_attrs(complete=True))


@contextmanager
def keeping(
    work: JobOptions, sizes: Sequence[int], trials: int, attrs: Mapping[str, Any]
) -> Iterator[TrialCheckpoint]:
    """The trials of ``work``; its file is locked meanwhile. ``attrs`` say what is run, and must be
    those of a file that is continued.
    """
    kept = TrialCheckpoint(sizes, trials, attrs)
    # The check itself notes the command line, in what it gives to ``finish``.
    with opened(kept, replace(work, attrs={})) as checkpoint:
        kept.checkpoint, kept.jobs = checkpoint, work.jobs
        yield kept
