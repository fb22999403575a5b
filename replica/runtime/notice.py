"""One line for who waits: what is being compiled, and that it is kept.

It is a message of the logger "replica" at level INFO, which the command line prints on the error
stream. JAX announces when it begins and ends to trace, lower or compile a program; once that has
taken ``PATIENCE`` seconds of a computation, the line is said, once for each computation.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Timer
from typing import Any

from .kept import kept_in

PATIENCE = 1.0
"""Seconds of compilation before something is said."""
COMPILING = "/jax/core/compile/"
"""How JAX's events of tracing, lowering and compiling begin."""

logger = logging.getLogger("replica")
logger.addHandler(logging.NullHandler())


class Computation:
    """What is computed, and how long it has been compiled.

    Parameters
    ----------
    what : str
        Named in the line, such as the name of a model.
    """

    def __init__(self, what: str) -> None:
        self.what, self.told = what, False
        self._spent, self._running, self._since = 0.0, 0, 0.0
        self._timer: Timer | None = None
        self._lock = Lock()

    def begin(self) -> None:
        """Something begins to be compiled; parts of one program nest."""
        with self._lock:
            self._running += 1
            if self._running == 1:
                self._since = time.monotonic()
                self._watch()

    def end(self) -> None:
        """It is compiled."""
        with self._lock:
            self._running = max(0, self._running - 1)
            if self._running == 0:
                self._spent += time.monotonic() - self._since

    def close(self) -> None:
        """The computation is over: nothing is said any more."""
        with self._lock:
            self.told = True
            if self._timer is not None:
                self._timer.cancel()

    def _watch(self) -> None:
        """Look again when there may be something to say (a thread for each program would cost more
        than many a program).
        """
        if self._timer is None and not self.told:
            self._timer = Timer(max(0.01, PATIENCE - self._total()), self._look)
            self._timer.daemon = True
            self._timer.start()

    def _total(self) -> float:
        """Seconds of compilation so far."""
        return self._spent + (time.monotonic() - self._since if self._running else 0.0)

    def _look(self) -> None:
        with self._lock:
            self._timer = None
            if self.told or not self._running:
                return
            if self._total() < PATIENCE:
                self._watch()
                return
            self.told = True
        folder = kept_in()
        kept = f"kept in {folder}" if folder else "not kept"
        logger.info("compiling %s (compiled programs are %s)", self.what, kept)


_open: list[Computation] = []
"""The one that is going on, if there is one: it hears what JAX announces."""
_opening, _listening = Lock(), False


@contextmanager
def computing(what: str) -> Iterator[None]:
    """If what is done inside compiles for longer than a second, say so. Inside another one it does
    nothing: that one has the name the user knows.
    """
    import jax.monitoring

    global _listening
    with _opening:
        if not _listening:
            jax.monitoring.register_scalar_listener(_began)
            jax.monitoring.register_event_duration_secs_listener(_ended)
            _listening = True
        mine = None if _open else Computation(what)
        if mine is not None:
            _open.append(mine)
    try:
        yield
    finally:
        if mine is not None:
            _open.remove(mine)
            mine.close()


def _began(event: str, value: float, **_: Any) -> None:
    # JAX announces the beginning as a scalar, the time at which it was.
    if event.startswith(COMPILING):
        for now in tuple(_open):
            now.begin()


def _ended(event: str, duration: float, **_: Any) -> None:
    if event.startswith(COMPILING):
        for now in tuple(_open):
            now.end()
