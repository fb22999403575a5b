r"""A model along one of its controls c: F(x; c), dF/dx, dF/dc and Phi, as a field that continuation
follows, compiled once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from equations import Model

from ..lowering.lower import FLOOR, SAFETY
from ..lowering.node_sets import arguments
from ..lowering.node_sizes import NodeSizes
from ..runtime.precision import double_precision
from .base import two_standard_errors
from .equations import Linearisation
from .point_programs import linearised, observed

EDGE = 1e-9
"""How far beyond an end of the domain rounding may carry an overlap."""
ROUNDING = 1e-14
"""An overlap this near to the lower end of its range is there: the map may magnify the
difference.
"""
TINY = 1e-300
SHARE, NEAREST, FOLDING = 0.3, 1e-3, 0.3
"""A step along a curve moves an overlap by this share of its distance to an end of its range, if
not nearer than NEAREST; the logarithm of an overlap by FOLDING.
"""


class Followed(Protocol):
    """What is needed of the theory of a model whose curves are followed."""

    model: Model

    def equations(self, sizes: NodeSizes, route: str = ..., one_set: bool = ...) -> Any: ...

    def start_vector(self, start: Any, values: Any) -> np.ndarray: ...


class OneParameter:
    """A model with all controls fixed but one, as a field for ``solvers.continuation`` in u = (x,
    t).

    An overlap that is declared logarithmic enters u by its logarithm (``overlaps`` and ``place``
    translate). t = log c for a control that must be positive, else c itself; with a minus sign
    where a larger c means less information (noise), so that the uninformed branch always lives at
    small t.
    """

    def __init__(
        self,
        theory: Followed,
        sizes: NodeSizes,
        control: str,
        fixed: dict[str, float],
        one_set: int | None = None,
    ) -> None:
        model = theory.model
        self.theory, self.model, self.sizes, self.one_set = theory, model, sizes, one_set
        self.control, self.fixed = control, fixed
        quantity = next(q for q in model.controls if q.name == control)
        self.logarithmic, self.sign = quantity.low >= 0, -1.0 if quantity.information < 0 else 1.0
        self.low = np.array([q.low for q in model.overlaps], dtype=float)
        self.high = np.array([q.high for q in model.overlaps], dtype=float)
        self.is_log = np.array([q.logarithmic for q in model.overlaps])
        self._equations = theory.equations(sizes, one_set=one_set is not None)
        self._sets = arguments(sizes)
        # What was evaluated on this line, which lives for one search.
        self._seen: dict[tuple[bytes, float], Linearisation] = {}

    def shifted(self) -> OneParameter:
        """The same on the second node sets."""
        return type(self)(self.theory, self.sizes.shifted(), self.control, self.fixed)

    def uncertainty(self, number: Callable[[OneParameter], float]) -> float:
        """Error of ``number(self)``: its shift on the second node sets."""
        return SAFETY * abs(number(self.shifted()) - number(self))

    def gap_error(self, c: float, a: np.ndarray, b: np.ndarray) -> float:
        """Error of the difference of the free energies at the fixed points ``a`` and ``b``, where
        they are stationary.
        """
        return sum(self.uncertainty(lambda at, x=x: at.free_energy(x, c)) + FLOOR for x in (a, b))

    def free_energy(self, x: np.ndarray, c: float) -> float:
        """Phi at overlaps ``x`` and control value ``c``."""
        return float(self.at(x, c).free_energy)

    def observables(self, names: tuple[str, ...], u: np.ndarray) -> np.ndarray:
        """The named observables at points u (m, n + 1), shape (m, names)."""
        if not names:
            return np.zeros((len(u), 0))
        every, found = list(self.model.observables), []
        columns = [every.index(name) for name in names]
        with double_precision():
            for point in u:
                x = np.clip(self.overlaps(point), self.low, self.high)
                c = self._controls(self.value(point[-1]))
                found.append(np.asarray(observed(self._equations)(c, jnp.asarray(x), self._sets)))
        return np.array(found)[:, columns]

    def level(self, c: float) -> float:
        """t at a control value."""
        return self.sign * float(np.log(c) if self.logarithmic else c)

    def value(self, t: float) -> float:
        """The control value at t."""
        with np.errstate(over="ignore"):  # a step of Newton may go anywhere
            return float(np.exp(self.sign * t) if self.logarithmic else self.sign * t)

    def at(self, x: np.ndarray, c: float) -> Linearisation:
        """The model at overlaps ``x`` and control value ``c``."""
        key = np.asarray(x, dtype=float).tobytes(), float(c)
        if key not in self._seen:
            self._seen[key] = self._evaluate(x, c)
        return self._seen[key]

    def _evaluate(self, x: np.ndarray, c: float) -> Linearisation:
        with double_precision():
            at = linearised(self._equations, self.control)
            return jax.tree.map(np.asarray, at(self._controls(c), jnp.asarray(x), self._sets))

    def _controls(self, c: float) -> jax.Array:
        """All control values, and which set is used."""
        values = [c if q.name == self.control else self.fixed[q.name] for q in self.model.controls]
        return jnp.asarray(values if self.one_set is None else [*values, self.one_set])

    def overlaps(self, u: np.ndarray) -> np.ndarray:
        """x of a point u, or of rows of points."""
        return np.where(self.is_log, np.exp(np.where(self.is_log, u[..., :-1], 0.0)), u[..., :-1])

    def place(self, x: np.ndarray, t: float) -> np.ndarray:
        """u of overlaps x."""
        with np.errstate(divide="ignore"):  # perfect recovery, which no curve meets
            return np.append(np.where(self.is_log, np.log(np.where(self.is_log, x, 1.0)), x), t)

    def stretch(self, x: np.ndarray) -> np.ndarray:
        """dx/du of each overlap."""
        return np.where(self.is_log, x, 1.0)

    def field(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """H and dH/du, H = F - x, or log F - log x of a logarithmic overlap; NaN outside the domain
        of the overlaps.
        """
        x, c = self.overlaps(u), self.value(u[-1])
        n = len(x)
        if not (np.all(x >= self.low - EDGE) and np.all(x <= self.high + EDGE)):
            return np.full(n, np.nan), np.full((n, n + 1), np.nan)
        here = self.at(x, c)
        rate = self.sign * (c if self.logarithmic else 1.0)
        image = np.where(self.is_log & ~(here.update > 0), np.nan, here.update)
        gap = np.where(self.is_log, np.log(np.where(self.is_log, image, 1.0)) - u[:-1], image - x)
        unit = self.stretch(image)[:, None]
        return gap, np.column_stack(
            [here.slope / unit * self.stretch(x) - np.eye(n), rate * here.dF_dc[:, None] / unit]
        )

    def room(self, u: np.ndarray) -> np.ndarray:
        """How far one step along a curve may go: overlaps vary on the scale of their distance to an
        end of their range.
        """
        x = self.overlaps(u)
        distance = np.minimum(x - self.low, self.high - x)
        return np.append(
            np.where(self.is_log, FOLDING, SHARE * np.maximum(distance, NEAREST)), np.inf
        )

    def start(self, name: str, c: float) -> np.ndarray:
        """The overlaps of a start of the model."""
        return self.theory.start_vector(self.model.starts[name], {**self.fixed, self.control: c})

    def iterated(
        self, x0: np.ndarray, c: float, tol: float = 1e-10, most: int = 2000
    ) -> np.ndarray | None:
        """Plain iteration from ``x0`` until max|F(x) - x| <= tol, relative to x where it is
        logarithmic; None if that is not met.
        """
        x = np.asarray(x0, dtype=float)
        for _ in range(most):
            update = self.at(x, c).update
            if not np.all(np.isfinite(update)):
                return None
            if np.max(np.abs(update - x) / self.stretch(np.maximum(x, TINY))) <= tol:
                return x
            x = update
        return None

    def no_information(self) -> np.ndarray:
        """The overlaps that vanishing conjugates imply (the prior alone)."""
        controls = [self.fixed.get(q.name, 1.0) for q in self.model.controls]
        equations = self.theory.equations(self.sizes)
        responses = equations.group(["responses"], "conjugates")
        with double_precision():
            binding = equations.binding(jnp.asarray(controls), self._sets)
            hats = jnp.zeros(len(self.model.conjugates))
            x = np.asarray(responses.at(hats, binding)["responses"])
        lowest = np.where(np.abs(x - self.low) <= ROUNDING, self.low, x)
        inside = np.clip(lowest, self.low, self.high)
        return np.where(np.abs(inside - x) <= EDGE, inside, x)  # rounding must not leave the domain


class SampledOneParameter(OneParameter):
    """The same for a map that is a mean over sets of samples."""

    def uncertainty(self, number: Callable[[OneParameter], float]) -> float:
        """Twice the standard error of ``number`` over the scrambled sets."""
        sets = [
            number(type(self)(self.theory, self.sizes, self.control, self.fixed, k))
            for k in range(self.sizes.scrambles)
        ]
        return float(two_standard_errors(np.array(sets)))

    def gap_error(self, c: float, a: np.ndarray, b: np.ndarray) -> float:
        """The sets vary together on both branches."""
        return self.uncertainty(lambda at: float(at.at(a, c).free_energy - at.at(b, c).free_energy))
