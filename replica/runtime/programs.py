"""Compiled programs: one store for all of them, from which the least recently used are let go.

    Program(function)(arrays) = function(arrays),        compiled at the first call

A program is keyed by structure: one function, and the shapes of its arguments. What may vary from
call to call (node positions and weights, tolerances, controls, starts) is an argument. The handle
``Program`` is small and may be kept for ever; what it compiled is held by the store alone, and is
compiled again if it was let go. A program keeps memory maps, of which Linux allows a process 65530,
and LLVM ends the interpreter where there are none left: hence a bound on both.
"""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import RLock
from typing import Any

import jax
import numpy as np

from .exported import exported
from .precision import double_precision

MOST = 64
"""Programs that are kept."""
MOST_MAPS = 8000
"""Memory maps of the process above which room is made; a large program has 1500."""
FEWEST = 16
"""Programs that are never let go, whatever else holds memory maps: what one computation uses."""
GROWTH = 1000
"""Memory maps by which the process has to grow before room is made again in vain."""
SIDE_BY_SIDE = 2
"""Programs that are compiled at the same time."""
QUICK = {"xla_backend_optimization_level": 1, "xla_cpu_use_fusion_emitters": False}
"""Half the time of compilation, for code that runs as fast here."""
MAPS = Path("/proc/self/maps")
Options = Mapping[str, Any]
Signature = tuple[Any, ...]
Key = tuple["Program", Signature]


class Store:
    """The compiled programs, the most recently used last.

    Attributes
    ----------
    compilations : int
        How many there were.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, Any] = OrderedDict()
        self._lock = RLock()
        self._in_vain = 0
        self.compilations = 0

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, key: Key) -> Any:
        """A program, which is now the most recently used; None if there is none."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def add(self, key: Key, compiled: Any) -> None:
        """Keep a program, and let others go where there are too many.

        One that runs just now is held by its caller until it ends.
        """
        with self._lock:
            self.compilations += 1
            self._kept[key] = compiled
            if len(self._kept) > MOST:
                self._shrink(MOST - MOST // 4)
            if memory_maps() > max(MOST_MAPS, self._in_vain):
                jax.clear_caches()  # every operation outside a program is one of JAX's own
                self._shrink(max(FEWEST, len(self._kept) // 2))
                self._in_vain = memory_maps() + GROWTH

    def _shrink(self, size: int) -> None:
        """Let the least recently used go, several at a time: collecting takes a second where many
        objects live.
        """
        while len(self._kept) > size:
            self._kept.popitem(last=False)
        gc.collect()  # JAX's objects refer to each other

    def clear(self) -> None:
        """Let all go."""
        with self._lock:
            self._shrink(0)
            self._in_vain = 0


STORE = Store()


class Program:
    """A function of arrays, compiled at its first call with arguments of such shapes.

    Parameters
    ----------
    function : callable
        Traced once for each shape of its arguments, if at all.
    options : dict, optional
        Of XLA, such as ``QUICK``.
    name : str, optional
        All that the function depends on beside its arguments and the sources of this package: what
        it is found by in a later process (``exported``). Without one, it is traced in each.
    result : callable, optional
        From the arrays of what a function with a name returns to what it returns, such as the class
        of a named tuple; by default the one array.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        options: Options | None = None,
        name: str | None = None,
        result: Callable[..., Any] | None = None,
    ) -> None:
        self._function, self._options = function, dict(options or {})
        self._name, self._result = name, result or _the_one
        self._lock = RLock()

    def __call__(self, *arguments: Any) -> Any:
        leaves, structure = jax.tree.flatten(arguments)
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):  # type: ignore[attr-defined]
            return self._function(*arguments)  # a part of another program
        return self._found(_signature(leaves, structure), arguments)(*arguments)

    def prepare(self, *arguments: Any) -> None:
        """Compile it for arguments of such shapes, without running it."""
        self._found(_signature(*jax.tree.flatten(arguments)), arguments)

    def _found(self, signature: Signature, arguments: Sequence[Any]) -> Any:
        """The compiled function, from the store if it is there."""
        key = self, signature
        found = STORE.find(key)
        if found is not None:
            return found
        with self._lock:  # whoever else needs it waits, and does not compile it too
            found = STORE.find(key)
            if found is None:
                found = self._compile(arguments)
                STORE.add(key, found)
            return found

    def _compile(self, arguments: Sequence[Any]) -> Any:
        kept = self._compile_kept(arguments)
        if kept is not None:
            return kept

        def fresh(*traced: Any) -> Any:  # what JAX remembers of a function goes with it
            return self._function(*traced)

        return jax.jit(fresh).lower(*arguments).compile(known_options(self._options))

    def _compile_kept(self, arguments: Sequence[Any]) -> Callable[..., Any] | None:
        """The same from the program that an earlier process exported, or made so that a later one
        finds it; None if it has no name or cannot be kept.
        """
        if self._name is None:
            return None
        leaves, structure = jax.tree.flatten(arguments)

        def flat(*traced: Any) -> list[Any]:
            whole = self._function(*jax.tree.unflatten(structure, traced))
            parts, form = jax.tree.flatten(whole)
            assert form == jax.tree.structure(self._result(*parts))
            return parts

        shapes = repr(_signature(leaves, structure))
        call = exported(f"{self._name}\n{shapes}", flat, leaves)
        if call is None:
            return None
        compiled = jax.jit(call).lower(*leaves).compile(known_options(self._options))
        return lambda *given: self._result(*compiled(*jax.tree.leaves(given)))


def _the_one(part: Any) -> Any:
    return part


def side_by_side(*calls: tuple[Program, tuple[Any, ...]]) -> None:
    """Compile programs for such arguments, on several cores at once; in double precision."""

    def compile_one(call: tuple[Program, tuple[Any, ...]]) -> None:
        program, arguments = call
        with double_precision():  # the setting is per thread
            program.prepare(*arguments)

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        list(pool.map(compile_one, calls))


def clear_caches() -> None:
    """Let go of every compiled program, and of what JAX remembers.

    Programs are compiled again when they are needed; nothing else changes.
    """
    STORE.clear()
    jax.clear_caches()
    gc.collect()


def memory_maps() -> int:
    """How many memory maps this process has; 0 where the system does not say."""
    try:
        return MAPS.read_bytes().count(b"\n")
    except OSError:
        return 0


def known_options(options: Options) -> dict[str, Any] | None:
    """Those of ``options`` that this version of XLA has; none on other devices than a CPU, for
    which they are meant (XLA for GPUs supports no optimisation level below 2).
    """
    if jax.default_backend() != "cpu":
        return None
    return {name: value for name, value in options.items() if _is_known(name, value)} or None


_KNOWN: dict[str, bool] = {}


def _is_known(name: str, value: Any) -> bool:
    if name not in _KNOWN:
        try:
            jax.jit(lambda x: x).lower(0.0).compile({name: value})
            _KNOWN[name] = True
        except jax.errors.JaxRuntimeError:  # it says that there is no such option
            _KNOWN[name] = False
    return _KNOWN[name]


def _signature(leaves: Sequence[Any], structure: Any) -> Signature:
    """Structure, shapes and types."""
    double = jax.config.jax_enable_x64  # type: ignore[attr-defined]
    return structure, double, *((np.shape(a), _type(a)) for a in leaves)


def _type(leaf: Any) -> Any:
    return getattr(leaf, "dtype", type(leaf))
