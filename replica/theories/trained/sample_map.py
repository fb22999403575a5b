"""A saddle-point map over many samples: pieces of one shape, compiled once, summed on the host.

Pieces bound the memory, let fast samples not wait for slow ones elsewhere, and make refinement free
of compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equations import Model
from solvers.attention.data import Samples

from ...runtime.precision import double_precision
from ...runtime.programs import Program
from .proximal_map import ProximalMap, proximal_map

QUICK = {"xla_backend_optimization_level": 1}
"""For what runs a few times per solve: it compiles faster and runs no slower."""
THREADS = 2
"""Pieces at a time: XLA runs the loops of a minimisation on one core."""


class Minima(NamedTuple):
    """Per piece: the minimisers, where the last search changed them, and where it failed."""

    found: list[jax.Array]
    changed: list[jax.Array]
    failed: list[jax.Array]

    @property
    def any_changed(self) -> bool:
        return any(bool(jnp.any(c)) for c in self.changed)


class Report(NamedTuple):
    """Per set of samples (leading axis), at the means where it says so, and d observables/dx."""

    averages: np.ndarray
    update: np.ndarray
    hats: np.ndarray
    free_energy: np.ndarray
    observables: np.ndarray
    mean_hats: np.ndarray
    mean_free_energy: np.ndarray
    mean_observables: np.ndarray
    sensitivity: np.ndarray


class Compiled(NamedTuple):
    """The jitted parts of a map."""

    search: Callable[..., Any]
    image: Callable[..., Any]
    slope: Callable[..., Any]
    details: Callable[..., Any]
    closing: Callable[..., Any]
    update: Callable[..., Any]


@cache
def compiled(model: Model, tokens: int) -> Compiled:
    """Compiled once per model and number of tokens."""
    parts = proximal_map(model, tokens)
    closing = parts.closing

    def image(
        x: jax.Array, c: jax.Array, data: Samples, known: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        found, _ = parts.warm(x, c, data, known)
        return parts.averages(x, c, data, found, closing.first), found

    def averages(
        x: jax.Array, c: jax.Array, data: Samples, found: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        value = parts.averages(x, c, data, found, closing.first)
        return value, value

    def update_slopes(
        x: jax.Array, a: jax.Array, c: jax.Array
    ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        return closing.update(x, a, c), jax.jacfwd(closing.update, argnums=(0, 1))(x, a, c)

    return Compiled(
        Program(parts.search),
        Program(image),
        Program(jax.jacfwd(averages, has_aux=True), QUICK),
        Program(lambda *a: _details(parts, *a), QUICK),
        Program(lambda *a: _closing(parts, *a), QUICK),
        Program(update_slopes, QUICK),
    )


def _details(
    parts: ProximalMap, x: jax.Array, c: jax.Array, data: Samples, *minima: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """All averages and their derivatives in x, one set of samples after the other (sets lead)."""

    def one(a: tuple[Any, ...]) -> tuple[jax.Array, jax.Array]:
        part, minimum, *flags = a
        response = parts.response(x, c, part, minimum, tuple(flags))

        def averages(x: jax.Array) -> tuple[jax.Array, jax.Array]:
            value = parts.averages(x, c, part, minimum, parts.closing.nodes, response)
            return value, value

        slope, value = jax.jacfwd(averages, has_aux=True)(x)
        return value, slope

    return jax.lax.map(one, (data, *minima))


def _closing(
    parts: ProximalMap, x: jax.Array, c: jax.Array, a: jax.Array, slopes: jax.Array
) -> Report:
    """Everything from the averages of each set, ``a`` (sets, nodes), and their mean derivatives in
    x.
    """
    closing, mean = parts.closing, jnp.mean(a, axis=0)
    hats = closing.conjugates(x, mean, c)
    by_x, by_a = jax.jacfwd(closing.observables, argnums=(0, 1))(x, mean, c)
    return Report(
        a,
        jax.vmap(lambda s: closing.update(x, s, c))(a),
        jax.vmap(lambda s: closing.conjugates(x, s, c))(a),
        jax.vmap(lambda s: closing.free_energy(x, hats, s, c))(a),
        jax.vmap(lambda s: closing.observables(x, s, c))(a),
        hats,
        closing.free_energy(x, hats, mean, c),
        closing.observables(x, mean, c),
        by_x + by_a @ slopes,
    )


class Tuning(NamedTuple):
    """The jitted parts of a derivative of one observable in the controls."""

    averages: Callable[..., Any]
    closing: Callable[..., Any]


@cache
def tuning(model: Model, tokens: int, name: str) -> Tuning:
    """Compiled once per model, number of tokens and observable."""
    parts = proximal_map(model, tokens)
    closing = parts.closing
    nodes, observable = closing.for_observable(name)

    def averages(
        x: jax.Array, c: jax.Array, basis: jax.Array, data: Samples, found: jax.Array
    ) -> tuple[jax.Array, Any]:
        def at(x: jax.Array, t: jax.Array) -> tuple[jax.Array, jax.Array]:
            value = parts.averages(x, c + t @ basis, data, found, nodes)
            return value, value

        slopes, value = jax.jacfwd(at, argnums=(0, 1), has_aux=True)(x, jnp.zeros(len(basis)))
        return value, slopes

    def along(
        x: jax.Array, c: jax.Array, basis: jax.Array, a: jax.Array, by_x: jax.Array, by_t: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        def at(x: jax.Array, t: jax.Array, a: jax.Array) -> tuple[jax.Array, jax.Array]:
            return closing.update(x, a, c + t @ basis), observable(x, a, c + t @ basis)

        origin = jnp.zeros(len(basis))
        (update_x, update_t, update_a), (seen_x, seen_t, seen_a) = jax.jacfwd(
            at, argnums=(0, 1, 2)
        )(x, origin, a)
        moved = jnp.linalg.solve(
            jnp.eye(len(x)) - update_x - update_a @ by_x, update_t + update_a @ by_t
        )
        return at(x, origin, a)[1], seen_t + seen_a @ by_t + (seen_x + seen_a @ by_x) @ moved

    return Tuning(Program(averages, QUICK), Program(along, QUICK))


class SampleMap:
    """The map of ``model`` on ``data``, at the control values ``c``, in ``pieces`` pieces."""

    def __init__(self, model: Model, data: Samples, pieces: int, c: np.ndarray) -> None:
        tokens = data.tokens.shape[-1]
        self.model, self._run, self._parts, self._c = (
            model,
            compiled(model, tokens),
            proximal_map(model, tokens),
            jnp.asarray(c),
        )
        self._sets = data.common.shape[0]
        split = zip(
            *(
                np.split(array, pieces, axis=axis)
                for array, axis in zip(data, (1, 2, 1, 1), strict=True)
            ),
            strict=True,
        )
        self._by_set = [Samples(*map(jnp.asarray, piece)) for piece in split]
        self._flat = [flattened(piece) for piece in self._by_set]

    def unknown(self) -> Minima:
        """Something to start the first search from."""
        found = [self._parts.unknown(piece) for piece in self._flat]
        return Minima(found, [], [])

    def search(self, x: np.ndarray, known: Minima) -> Minima:
        """The minima from several starts, and which of them are new."""
        x_ = jnp.asarray(x)
        results = _each(
            lambda piece, k: self._run.search(x_, self._c, piece, k), self._flat, known.found
        )
        return Minima(*map(list, zip(*results, strict=True)))

    def image(self, x: np.ndarray, known: Minima) -> tuple[np.ndarray, Minima]:
        """F(x) and the minima followed to x."""
        x_ = jnp.asarray(x)
        results = _each(
            lambda piece, k: self._run.image(x_, self._c, piece, k), self._flat, known.found
        )
        update, _ = self._run.update(x_, sum(a for a, _ in results), self._c)
        return np.asarray(update), known._replace(found=[f for _, f in results])

    def slope(self, x: np.ndarray, minima: Minima) -> np.ndarray:
        """dF/dx."""
        x_ = jnp.asarray(x)
        results = _each(
            lambda piece, k: self._run.slope(x_, self._c, piece, k), self._flat, minima.found
        )
        slopes, averages = jax.tree.map(lambda *a: sum(a), *results)
        _, (by_x, by_a) = self._run.update(x_, averages, self._c)
        return np.asarray(by_x + by_a @ slopes)

    def update(self, x: np.ndarray, averages: np.ndarray) -> np.ndarray:
        """F(x) from averages at x."""
        first = jnp.asarray(averages)[: len(self._parts.closing.first)]
        return np.asarray(self._run.update(jnp.asarray(x), first, self._c)[0])

    def observable_gradient(
        self, x: np.ndarray, minima: Minima, name: str, basis: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """The observable ``name`` and its derivative along the rows of ``basis``, directions in the
        space of controls.

        The overlaps follow the controls: dx/dt = (1 - J)^{-1} dF/dt, by the implicit function
        theorem.
        """
        run, x_, t = (
            tuning(self.model, self._parts.tokens, name),
            jnp.asarray(x),
            jnp.asarray(basis),
        )
        results = _each(
            lambda piece, k: run.averages(x_, self._c, t, piece, k), self._flat, minima.found
        )
        averages, (by_x, by_t) = jax.tree.map(lambda *a: sum(a), *results)
        value, gradient = run.closing(x_, self._c, t, averages, by_x, by_t)
        return float(value), np.asarray(gradient)

    def report(self, x: np.ndarray, minima: Minima) -> Report:
        """Everything the model defines at ``x``, set by set."""
        x_ = jnp.asarray(x)
        rows = [[_by_set(m, self._sets) for m in row] for row in zip(*minima, strict=True)]
        results = _each(
            lambda piece, row: self._run.details(x_, self._c, piece, *row), self._by_set, rows
        )
        averages, slopes = sum(a for a, _ in results), sum(s for _, s in results)
        return jax.tree.map(
            np.asarray, self._run.closing(x_, self._c, averages, jnp.mean(slopes, axis=0))
        )


def _each(work: Callable[..., Any], *lists: Sequence[Any]) -> list[Any]:
    """``work`` on every piece, ``THREADS`` at a time."""

    def one(*arguments: Any) -> Any:
        with double_precision():
            return jax.block_until_ready(work(*arguments))

    first = one(*(entries[0] for entries in lists))  # compiles; the threads then share the program
    with ThreadPoolExecutor(THREADS) as pool:
        return [first, *pool.map(one, *(entries[1:] for entries in lists))]


def flattened(piece: Samples) -> Samples:
    """All sets as one."""
    sets, _, n, tokens = piece.tokens.shape
    fields = jnp.moveaxis(piece.tokens, 1, 0).reshape(4, sets * n, tokens)
    return Samples(
        piece.common.ravel(),
        fields,
        piece.weights.ravel() / sets,
        piece.present.reshape(-1, tokens),
    )


def _by_set(values: jax.Array, sets: int) -> jax.Array:
    """(..., sets * n) -> (sets, ..., n)."""
    return jnp.moveaxis(values.reshape(*values.shape[:-1], sets, -1), -2, 0)
