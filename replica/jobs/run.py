"""Long work: columns computed by threads or dask workers, gathered by one writer that stores each
as it comes.

The file is complete and readable at every moment: it is replaced as a whole, with its unfinished
columns marked. So it is also all that a later run needs to continue.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from threading import Event, current_thread, main_thread
from typing import Any, Protocol

import numpy as np
import xarray as xr
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from equations import Model

from ..errors import InputError, StoreError
from ..files import store
from .workers import connected, distributed_results

VOLATILE = ("created", "command", "complete", "source_file")
"""Attributes that may differ between the runs that make one file; those of the first are kept. The
place of a user's own model may differ, its text may not."""


class Column(Protocol):
    """A piece of work, of so many points."""

    @property
    def points(self) -> int: ...


Job = Callable[[Model, Any, Callable[[int], None]], Any]
"""(model, column, hears the number of points that were finished) -> result; a function that can be
imported, to be sent to workers.
"""


@dataclass(frozen=True)
class JobOptions:
    """Where long work is done and kept.

    Attributes
    ----------
    file : path or None
        Rewritten whenever a column is finished.
    resume : bool
        Continue ``file`` if it is there.
    force : bool
        Replace ``file`` if it is there.
    dask : address, distributed.Client or None
        Workers to send the columns to; this process's threads by default.
    progress : bool or None
        Show a bar; None: only if the error stream is a terminal.
    attrs : dict
        Noted in the file, such as the command line.
    """

    file: store.Name | None = None
    resume: bool = False
    force: bool = False
    dask: Any = None
    progress: bool | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)


class Checkpoint:
    """The dataset that work begins with, its file and the client of its workers (if any)."""

    def __init__(self, file: store.Name | None, dataset: xr.Dataset, client: Any) -> None:
        self.file, self.dataset, self.client = file, dataset, client

    def write(self, dataset: xr.Dataset) -> None:
        """Store the columns so far; what was stored before survives a failure."""
        if self.file is None:
            return
        try:
            store.rewrite(self.file, dataset)
        except StoreError as error:
            kept = "the columns stored before it are kept, continue with --resume"
            raise StoreError(f"{error}; {kept}") from error


@contextmanager
def opened(
    work: JobOptions, blank: xr.Dataset, grids: Sequence[str], attrs: Sequence[str] = ()
) -> Iterator[Checkpoint]:
    """The target of ``work``, its file locked: ``blank``, or what the file has. Nothing is written
    before all is known to be in order.

    Parameters
    ----------
    blank : xarray.Dataset
        A run of which nothing is computed.
    grids : names of coordinates
        What must agree between ``blank`` and the file, besides the attributes.
    attrs : names
        Attributes that are results, and need not agree.
    """
    if work.resume and (work.file is None or work.force):
        raise InputError("resume continues a file: give its name, and not force, which replaces it")
    blank = blank.assign_attrs(work.attrs, complete=False)
    if work.file is not None:
        store.check_target(work.file, force=True)
    with (
        connected(work.dask) as client,
        store.locked(work.file) if work.file is not None else nullcontext(),
    ):
        yield Checkpoint(work.file, _begun(work, blank, grids, (*VOLATILE, *attrs)), client)


def _begun(
    work: JobOptions, blank: xr.Dataset, grids: Sequence[str], ignored: Sequence[str]
) -> xr.Dataset:
    if work.file is None:
        return blank
    if work.resume and os.path.exists(work.file):
        old = store.load(work.file)
        differing = differences(old, blank, grids, ignored)
        if differing:
            raise StoreError(
                f"{work.file} was made with other settings ({'; '.join(differing)}): repeat those,"
                " or choose another name"
            )
        return old
    if os.path.exists(work.file) and not work.force:
        raise StoreError(
            f"{work.file} exists: pass --resume to continue it, --force to replace it, or choose"
            " another name"
        )
    store.rewrite(work.file, blank, force=work.force)
    return blank


def differences(
    old: xr.Dataset, new: xr.Dataset, grids: Sequence[str], ignored: Sequence[str] = VOLATILE
) -> list[str]:
    """What differs between a file and the present settings, each with both values."""
    there, here = (
        {k: v for k, v in _flat(d.attrs).items() if k.partition(".")[0] not in ignored}
        for d in (old, new)
    )
    found = [
        f"{name} is {there.get(name, 'not given')} there and {here.get(name, 'not given')} here"
        for name in dict.fromkeys([*here, *there])
        if name not in there
        or name not in here
        or store.encoded(there[name]) != store.encoded(here[name])
    ]
    for name in grids:
        grid = [d[name].values if name in d.coords else np.array([]) for d in (old, new)]
        if not np.array_equal(*grid):
            found.append(
                f"the grid of {name} is {_shown(grid[0])} there and {_shown(grid[1])} here"
            )
    return found


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """Nested dicts as one dict with dotted names."""
    if not isinstance(value, Mapping):
        return {name: value}
    return {
        k: v
        for key, item in value.items()
        for k, v in _flat(item, f"{name}.{key}" if name else str(key)).items()
    }


def _shown(grid: np.ndarray) -> str:
    return f"{grid[0]}..{grid[-1]} ({grid.size} values)" if grid.size > 3 else str(grid.tolist())


def results(
    client: Any,
    job: Job,
    model: Model,
    name: str | None,
    columns: Mapping[int, Column],
    done: Callable[[int], None],
    threads: int,
) -> Iterator[tuple[int, Any]]:
    """(key, result) of every column as it is finished; ``name`` says that workers find the model
    under this name.
    """
    if client is not None:
        for key, result in distributed_results(client, job, model, name, columns):
            done(columns[key].points)
            yield key, result
        return
    pool, pending = ThreadPoolExecutor(threads), dict(columns)
    try:
        for key in list(pending)[
            : len(pending) if threads == 1 else 1
        ]:  # the first compiles; the threads then share the program
            yield key, job(model, pending.pop(key), done)
        futures = {pool.submit(job, model, column, done): key for key, column in pending.items()}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


class Bar:
    """Progress on the error stream: a bar, points per second, failures and the time
    that remains.
    """

    def __init__(self, progress: Progress, task: Any) -> None:
        self._progress, self._task, self._failed = progress, task, 0

    def done(self, points: int) -> None:
        """So many points more were finished."""
        self._progress.advance(self._task, points)

    def failed(self, points: int) -> None:
        """So many of them failed."""
        self._failed += points
        self._progress.update(self._task, failed=self._failed)


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(
            f"{task.finished_speed or task.speed:.3g}/s"
            if task.finished_speed or task.speed
            else "-/s"
        )


@contextmanager
def progress_bar(work: JobOptions, name: str, total: int, finished: int = 0) -> Iterator[Bar]:
    """A bar for ``total`` points, of which an earlier run has done ``finished``."""
    show = sys.stderr.isatty() if work.progress is None else work.progress
    failed = TextColumn("{task.fields[failed]} failed")
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Speed(),
        failed,
        TextColumn("ETA"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), disable=not show) as progress:
        yield Bar(progress, progress.add_task(name, total=total, completed=finished, failed=0))


def gathered(
    client: Any,
    job: Job,
    model: Model,
    name: str | None,
    columns: Mapping[int, Column],
    bar: Bar,
    put: Callable[[int, Any], int],
    threads: int = 2,
) -> None:
    """Compute all columns; ``put`` takes each result and says how many of its points failed."""
    with (
        _ctrl_c() as pressed,
        closing(results(client, job, model, name, columns, bar.done, threads)) as stream,
    ):
        for key, result in stream:
            bar.failed(put(key, result))
            if pressed.is_set():
                raise KeyboardInterrupt


@contextmanager
def _ctrl_c() -> Iterator[Event]:
    """Whether Ctrl-C was pressed, also if Python dropped the exception (as it does in the callback
    of a weak reference).
    """
    pressed, before = Event(), signal.getsignal(signal.SIGINT)
    if current_thread() is not main_thread() or not callable(before):
        yield pressed
        return

    def handler(number: int, frame: Any) -> Any:
        pressed.set()
        return before(number, frame)

    signal.signal(signal.SIGINT, handler)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)
