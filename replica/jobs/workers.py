"""Columns on dask workers. What is sent is small: a model's name and options (or the pickled
model), and arrays.

Workers need the same versions of this package and of the ones that decide its numbers; a worker
that is lost has its columns computed again by another one.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from equations import Model, Source
from equations.numerals import shown

from ..errors import InputError, ReplicaWarning, SolveError
from ..files.store import versions
from ..models import built, of_source
from ..models.imported import imports_beside
from ..models.own_model import is_file

INSTALL = "pip install 'replica-solver[distributed]'"
TIMEOUT = 10
"""Seconds to wait for a scheduler."""


@dataclass(frozen=True)
class Reference:
    """A model as it is sent: by name and options, by the text of its file, or pickled; and the
    versions it is to be computed with.
    """

    name: str
    options: tuple[tuple[str, str], ...]
    source: Source | None
    pickled: bytes | None
    versions: tuple[tuple[str, str], ...]
    sha256: str | None = None
    """Of the text: a worker executes no other."""

    @classmethod
    def of(cls, model: Model, name: str | None) -> Reference:
        pickled = None if name or model.source else _pickled(model)
        return cls(
            model.name,
            tuple(sorted(model.options.items())),
            model.source,
            pickled,
            tuple(versions().items()),
            None if model.source is None else model.source.sha256,
        )


def _pickled(model: Model) -> bytes:
    from distributed.protocol.pickle import dumps  # also functions that a script defines

    try:
        return dumps(model)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise InputError(
            f"{model.name} cannot be sent to workers ({error}): define it in a module that they can"
            " import"
        ) from error


@cache
def _found(reference: Reference) -> Model:
    """The model on the worker; one object for all its columns, so that it is compiled once."""
    if reference.pickled is not None:
        return pickle.loads(reference.pickled)
    if reference.source is not None:
        return _executed(reference, reference.source)
    if is_file(reference.name):
        raise InputError(
            f"a worker was sent the name of a model file, {shown(reference.name)}, without its"
            " text: it executes nothing that it was not sent"
        )
    return built(reference.name, dict(reference.options))[0]


def _executed(reference: Reference, source: Source) -> Model:
    """The model in a user's file, if its text is the one that was announced."""
    if source.sha256 != reference.sha256:
        raise InputError(
            f"the text of {shown(source.file)} that a worker got has not the hash that was"
            " announced: it was changed on the way and is not executed"
        )
    here = dict(imports_beside(source.file, source.text))
    for name, sha256 in source.imports:
        if here.get(name) != sha256:
            raise InputError(
                f"{shown(name)}, which {shown(source.file)} imports, is not on a worker as it is"
                " here: give both the same folder"
            )
    if len(here) != len(source.imports):
        raise InputError(
            f"{shown(source.file)} imports files on a worker that it does not import here: give"
            " both the same folder"
        )
    return of_source(source, reference.options)


class _Told(logging.Filter):
    """Keeps what a lost connection makes dask log from the user, who is told by our own error."""

    def filter(self, record: logging.LogRecord) -> bool:
        problem = record.exc_info[1] if record.exc_info else None
        return not isinstance(problem, asyncio.CancelledError | OSError)


def _on_worker(job: Callable[..., Any], reference: Reference, column: Any) -> Any:
    here = versions()
    differing = [f"{k} {here[k]} instead of {v}" for k, v in reference.versions if here[k] != v]
    if differing:
        raise InputError(
            f"a worker has {', '.join(differing)}: install the same versions on all machines"
        )
    return job(_found(reference), column, lambda points: None)


@contextmanager
def connected(dask: Any) -> Iterator[Any]:
    """A client for an address, a scheduler file (.json), a client (which stays open) or None."""
    if dask is None:
        yield None
        return
    try:
        import distributed
    except ImportError as error:
        raise InputError(f"dask.distributed is not installed: {INSTALL}") from error
    if not isinstance(dask, str):
        yield dask
        return
    try:
        options = {"scheduler_file": dask} if dask.endswith(".json") else {"address": dask}
        client = distributed.Client(**options, timeout=TIMEOUT, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"no dask scheduler answers at {dask} ({error}): start one with `dask scheduler` and"
            " --host 127.0.0.1, or check the address"
        ) from error
    told, logger = _Told(), logging.getLogger("distributed.client")
    logger.addFilter(told)
    try:
        yield client
    finally:
        client.close()
        logger.removeFilter(told)


def distributed_results(
    client: Any, job: Callable[..., Any], model: Model, name: str | None, columns: Mapping[int, Any]
) -> Iterator[tuple[int, Any]]:
    """(key, result) of every column, as the workers of ``client`` deliver them."""
    import distributed
    from distributed.comm.core import CommClosedError

    reference = Reference.of(model, name)
    if not client.scheduler_info()["workers"]:
        warnings.warn(
            "the dask scheduler has no workers yet: waiting for some", ReplicaWarning, stacklevel=2
        )
    futures: dict[Any, int] = {}
    try:
        futures = {
            client.submit(_on_worker, job, reference, column, pure=False): key
            for key, column in columns.items()
        }
        for future, result in distributed.as_completed(
            list(futures), loop=client.loop, with_results=True
        ):
            if isinstance(
                result, CancelledError
            ):  # delivered, not raised, when the scheduler is gone
                raise result
            yield futures[future], result
    except distributed.KilledWorker as error:
        lost = f"a column was lost with {error.allowed_failures + 1} workers one after the other"
        raise SolveError(f"{lost}: see their logs, perhaps they need more memory") from error
    except (CancelledError, CommClosedError) as error:
        why = str(error).partition("\n")[0]
        raise SolveError(
            f"the dask scheduler was lost or has cancelled the work ({why}): what was stored is"
            " kept, continue with --resume"
        ) from error
    finally:
        client.cancel(list(futures))
