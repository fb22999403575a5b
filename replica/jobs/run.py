"""Long work, done: pieces computed by threads or dask workers, gathered by one writer that stores
each as it comes.
"""

from __future__ import annotations

import signal
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from dataclasses import dataclass
from threading import Event, current_thread, main_thread
from typing import Any, Protocol

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

from ..errors import StoreError
from ..files.netcdf import portable
from ..runtime.notice import computing
from .checkpoint import Checkpoint, Results, opened
from .options import JobOptions
from .workers import connected, distributed_results


class Piece(Protocol):
    """Work that is done at one go, of so many points."""

    @property
    def points(self) -> int: ...


@dataclass(frozen=True)
class SinglePoint:
    """A piece that is one point: its controls."""

    controls: dict[str, float]
    points: int = 1


PieceSolver = Callable[[Model, Any, Callable[[int], None]], Any]
"""(model, piece, hears the number of points that were finished) -> result; a function that can be
imported, to be sent to workers.
"""


@dataclass(frozen=True)
class Batch:
    """The pieces of one model.

    Attributes
    ----------
    solve : PieceSolver
    model : Model
    name : str or None
        Workers find the model under this name.
    pieces : sequence of Piece
    pending : list of int
        Numbers of the pieces that are to be computed.
    put : (number of the piece, result) -> int
        Takes a result, and says how many of its points failed.
    failed : int
        Points that an earlier run has seen fail.
    cores : int or None
        Occupied by one piece; None: pieces are not to be solved side by side.
    """

    solve: PieceSolver
    model: Model
    name: str | None
    pieces: Sequence[Piece]
    pending: list[int]
    put: Callable[[int, Any], int]
    failed: int
    cores: int | None = 1

    @property
    def points(self) -> int:
        """Of all pieces."""
        return sum(piece.points for piece in self.pieces)

    @property
    def points_left(self) -> int:
        """Of the pieces that are to be computed."""
        return sum(self.pieces[i].points for i in self.pending)


class Job(Results):
    """Long work in pieces, with what it has found so far.

    Attributes
    ----------
    title : str
        What the progress bar says.
    """

    title: str

    @abstractmethod
    def batches(self) -> list[Batch]:
        """The pieces, of which those are pending that are not there yet."""

    def conclude(self) -> bool:
        """Find what follows from all pieces together; whether there is such a thing."""
        return False


def run_job(job: Job, options: JobOptions) -> xr.Dataset:
    """Compute what the file of ``options`` does not have, and store it there piece by piece."""
    # The workers come first: nothing is written before all is known to be in order.
    with connected(options.dask) as client, opened(job, options) as checkpoint:
        if checkpoint.stored is not None and checkpoint.stored.attrs.get("complete"):
            return checkpoint.stored
        if checkpoint.stored is None:
            checkpoint.write()
        batches = job.batches()
        total = sum(batch.points for batch in batches)
        left = sum(batch.points_left for batch in batches)
        with computing(job.title), progress_bar(options, job.title, total, total - left) as bar:
            bar.failed(sum(batch.failed for batch in batches))
            for batch in batches:
                at_once = 1 if batch.cores is None else options.at_once(batch.cores)
                _run_batch(batch, client or at_once, checkpoint, bar)
        if job.conclude():
            _write(checkpoint)
        return portable(checkpoint.dataset())


def _run_batch(batch: Batch, workers: Any, checkpoint: Checkpoint, bar: Bar) -> None:
    # Closing the stream cancels what has not begun, whatever ends the loop.
    with _ctrl_c() as pressed, closing(_finished(batch, workers, bar.done)) as stream:
        for i, result in stream:
            failed = batch.put(i, result)
            _write(checkpoint)
            bar.failed(failed)
            if pressed.is_set():
                raise KeyboardInterrupt


def _write(checkpoint: Checkpoint) -> None:
    try:
        checkpoint.write()
    except StoreError as error:
        kept = "the columns stored before it are kept"
        if checkpoint.working != checkpoint.file:
            kept = f"{kept} in {checkpoint.working}"
        raise StoreError(f"{error}; {kept}, continue with --resume") from error


# on workers or on threads ------------------------------------------------------------------------


def _finished(batch: Batch, workers: Any, done: Callable[[int], None]) -> Iterator[tuple[int, Any]]:
    """(number, result) of every pending piece, as it is finished; by so many threads, or by the
    workers of a client.
    """
    pieces = {i: batch.pieces[i] for i in batch.pending}
    if isinstance(workers, int):
        yield from _on_threads(batch, pieces, done, workers)
        return
    for i, result in distributed_results(workers, batch.solve, batch.model, batch.name, pieces):
        done(pieces[i].points)
        yield i, result


def _on_threads(
    batch: Batch, pieces: Mapping[int, Piece], done: Callable[[int], None], at_once: int
) -> Iterator[tuple[int, Any]]:
    # The first piece compiles; the threads then share the program, which lets go of Python's lock.
    alone = len(pieces) if at_once == 1 else 1
    pool = ThreadPoolExecutor(at_once)
    try:
        for i in list(pieces)[:alone]:
            yield i, batch.solve(batch.model, pieces[i], done)
        futures = {}
        for i in list(pieces)[alone:]:
            futures[pool.submit(batch.solve, batch.model, pieces[i], done)] = i
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


# progress, Ctrl-C --------------------------------------------------------------------------------


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
        speed = task.finished_speed or task.speed
        return Text(f"{speed:.3g}/s" if speed else "-/s")


@contextmanager
def progress_bar(options: JobOptions, title: str, total: int, finished: int = 0) -> Iterator[Bar]:
    """A bar for ``total`` points, of which an earlier run has done ``finished``."""
    show = sys.stderr.isatty() if options.progress is None else options.progress
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Speed(),
        TextColumn("{task.fields[failed]} failed"),
        TextColumn("ETA"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), disable=not show) as progress:
        yield Bar(progress, progress.add_task(title, total=total, completed=finished, failed=0))


@contextmanager
def _ctrl_c() -> Iterator[Event]:
    """Whether Ctrl-C was pressed, also if Python dropped the exception (as it does in the callback
    of a weak reference).
    """
    pressed, before = Event(), signal.getsignal(signal.SIGINT)
    # Only the main thread may set a handler, and one that is not Python's cannot be called.
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
