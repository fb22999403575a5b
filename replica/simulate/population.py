r"""Gradient descent on the population risk over vectors k, v of dimension D: what the flow of the
overlaps is held against.

    k <- k - size D dR/dk,     v <- v - size D dR/dv,
    R a function of the Gram matrix of k, v, k*, v*

The gradient is that of R(G(k, v)) by automatic differentiation, not the derived one of
``equations.gram``. k*, v* are N(0, I_D), so that their own overlaps are 1, 1, 0 up to 1/sqrt(D);
the risk is taken at those they have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equations import Model

from ..lowering.lower import Lowered
from ..models import resolve
from ..runtime.precision import double_precision
from ..theories.gram_field import OPTIONS, first_sizes, overlaps_in

MODEL = "slr-flow"


class Teacher(NamedTuple):
    """k* and v*, each of shape (D,)."""

    key: np.ndarray
    value: np.ndarray


class Path(NamedTuple):
    """Overlaps during descent, shape (steps + 1, overlaps), and the overlaps of the teacher as
    controls of slr-flow.
    """

    overlaps: np.ndarray
    teacher: dict[str, float]


def draw_teacher(D: int, seed: int, exact: bool = False) -> Teacher:
    """k* and v* ~ N(0, I_D); ``exact``: made orthogonal, of length sqrt(D), which the max rule
    needs.
    """
    drawn = np.random.default_rng(seed).standard_normal((2, D))
    if exact:
        drawn = np.linalg.qr(drawn.T)[0].T * np.sqrt(D)
    return Teacher(*drawn)


def descend(start: np.ndarray, teacher: Teacher, size: float, steps: int, **controls: Any) -> Path:
    """Descent from k, v = ``start``, shape (2, D), in ``steps`` of ``size``.

    Parameters
    ----------
    **controls
        Controls and options of slr-flow, without rho_k, rho_v, rho_kv: they are the teacher's.
    """
    with double_precision():
        drawn = np.stack(teacher)
        gram = drawn @ drawn.T / drawn.shape[1]
        own = (
            {"rho_k": gram[0, 0], "rho_v": gram[1, 1], "rho_kv": gram[0, 1]}
            if controls.get("rule", "spiked") == "spiked"
            else {}
        )
        model, values = resolve(MODEL, {**controls, **own})
        c = jnp.asarray([values[q.name] for q in model.controls], dtype=float)
        path = _descend(model)(
            c, jnp.asarray(start), jnp.asarray(drawn), jnp.asarray(size), jnp.zeros(steps)
        )
        return Path(np.asarray(path), {k: float(v) for k, v in own.items()})


@cache
def _descend(model: Model) -> Any:
    overlaps, controls = [q.symbol for q in model.overlaps], [q.symbol for q in model.controls]
    lowered = Lowered(
        {"J": model.theory.rewrite(model.channel)},
        overlaps,
        controls,
        model.name,
        first_sizes(model),
    )

    def run(
        c: jax.Array, start: jax.Array, teacher: jax.Array, size: jax.Array, steps: jax.Array
    ) -> jax.Array:
        at = _objective(model, lowered, c)
        dimension = start.shape[1]

        def gram(w: jax.Array) -> jax.Array:
            vectors = jnp.concatenate([w, teacher])
            return vectors @ vectors.T / dimension

        def step(w: jax.Array, _: jax.Array) -> tuple[jax.Array, jax.Array]:
            slope = jax.grad(lambda u: at(overlaps_in(model, gram(u))))(w)
            new = w - size * dimension * slope
            return new, overlaps_in(model, gram(new))

        path = jax.lax.scan(step, start, steps)[1]
        return jnp.concatenate([overlaps_in(model, gram(start))[None], path])

    return jax.jit(run, compiler_options=OPTIONS)


def _objective(model: Model, lowered: Lowered, c: jax.Array) -> Callable[[jax.Array], jax.Array]:
    binding: Mapping[Any, jax.Array] = {q.symbol: c[i] for i, q in enumerate(model.controls)}
    return lambda x: lowered.bind(x, binding)(None)["J"]
