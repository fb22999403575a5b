"""A model along one of its controls c: F(x; c), dF/dx, dF/dc and Phi, from the derived equations,
compiled once.

Where the control multiplies the channel term (a sample ratio), dF/dc costs nothing beyond F: SymPy
finds d(alpha G)/d alpha = G, which is evaluated already. Any other control works the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp

from equations import Model, jacobian

from ..lowering.lower import SAFETY, SCRAMBLE, Lowered, NodeSizes
from ..precision import double_precision
from ..solve import COMPILER_OPTIONS
from .saddle_point import derived, standard_error

EDGE = 1e-9
"""How far beyond an end of the domain rounding may carry an overlap."""
ROUNDING = 1e-14
"""An overlap this near to the lower end of its range is there: the map may magnify the
difference.
"""
TINY = 1e-300
SHARE, NEAREST, FOLDING = 0.3, 1e-3, 0.3
"""A step along a curve moves an overlap by this share of its distance to an end of its range, if
not nearer than NEAREST; the logarithm of an overlap by FOLDING."""


class Linearisation(NamedTuple):
    """Everything at one (x, c): conjugates, F, dF/dx, dF/dc, Phi and its explicit derivative
    dPhi/dc.
    """

    hats: np.ndarray
    update: np.ndarray
    slope: np.ndarray
    dF_dc: np.ndarray
    free_energy: np.ndarray
    dPhi_dc: np.ndarray


@cache
def compiled_linearisation(
    model: Model, sizes: NodeSizes, control: str, one_set: bool = False
) -> Callable[[jax.Array, jax.Array], Linearisation]:
    """(controls, x) -> Slice, jitted; with ``one_set`` the last control says which scrambled set is
    used.
    """
    equations = derived(model, "exact")
    c = next(q.symbol for q in model.controls if q.name == control)
    x, h = [q.symbol for q in model.overlaps], [q.symbol for q in model.conjugates]
    n = len(x)
    controls = [q.symbol for q in model.controls] + [SCRAMBLE] * one_set
    channel, prior = model.exact(model.channel), model.exact(model.prior)

    def group(values: list[sp.Symbol], arguments: list[sp.Symbol], term: sp.Expr) -> Lowered:
        parts = {
            "image": [equations[v] for v in values],
            "slope": list(jacobian(equations, arguments, values)),
            "drift": [equations[v].diff(c) for v in values],
            "term": [term, term.diff(c)],
        }
        flat = {f"{name} {i}": e for name, entries in parts.items() for i, e in enumerate(entries)}
        return Lowered(flat, arguments, controls, model.name, sizes)

    forces, responses = group(h, x, channel), group(x, h, prior)
    coupling = Lowered({"value": model.coupling}, [*x, *h], controls, model.name, sizes)

    def split(values: dict[str, jax.Array]) -> list[jax.Array]:
        flat = jnp.stack(list(values.values()))
        cuts = np.cumsum([n, n * n, n])
        image, slope, dF_dc, term = jnp.split(flat, cuts)
        return [image, slope.reshape(n, n), dF_dc, term]

    def at(values: jax.Array, point: jax.Array) -> Linearisation:
        binding = {symbol: values[i] for i, symbol in enumerate(controls)}
        hats, d_hats, drift_hats, energy = split(forces.bind(point, binding)(None))
        update, d_update, drift_update, entropy = split(responses.bind(hats, binding)(None))
        pairing = coupling.bind(jnp.concatenate([point, hats]), binding)(None)["value"]
        slope, dF_dc = d_update @ d_hats, d_update @ drift_hats + drift_update
        return Linearisation(
            hats, update, slope, dF_dc, energy[0] + entropy[0] + pairing, energy[1] + entropy[1]
        )  # type: ignore[arg-type]

    return jax.jit(at, compiler_options=COMPILER_OPTIONS)


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
        model: Model,
        sizes: NodeSizes,
        control: str,
        fixed: dict[str, float],
        one_set: int | None = None,
    ) -> None:
        self.one_set = one_set
        self.model, self.sizes, self.control, self.fixed = model, sizes, control, fixed
        quantity = next(q for q in model.controls if q.name == control)
        self.logarithmic, self.sign = quantity.low >= 0, -1.0 if quantity.information < 0 else 1.0
        self.low = np.array([q.low for q in model.overlaps], dtype=float)
        self.high = np.array([q.high for q in model.overlaps], dtype=float)
        self._log = np.array([q.logarithmic for q in model.overlaps])
        self._slice = compiled_linearisation(model, sizes, control, one_set is not None)
        self._seen: dict[
            tuple[bytes, float], Linearisation
        ] = {}  # of this line, which lives for one search

    def finer(self) -> OneParameter:
        return OneParameter(self.model, self.sizes.finer(), self.control, self.fixed)

    def uncertainty(self, number: Callable[[OneParameter], float]) -> float:
        """Error of ``number(self)``: its shift under a finer rule, or twice its standard error over
        the scrambled sets.
        """
        if not self.model.scrambled:
            return SAFETY * abs(number(self.finer()) - number(self))
        sets = [
            number(OneParameter(self.model, self.sizes, self.control, self.fixed, k))
            for k in range(self.sizes.scrambles)
        ]
        return float(standard_error(np.array(sets)))

    def level(self, c: float) -> float:
        return self.sign * float(np.log(c) if self.logarithmic else c)

    def value(self, t: float) -> float:
        return float(np.exp(self.sign * t) if self.logarithmic else self.sign * t)

    def at(self, x: np.ndarray, c: float) -> Linearisation:
        """The model at overlaps ``x`` and control value ``c``."""
        key = np.asarray(x, dtype=float).tobytes(), float(c)
        if key not in self._seen:
            self._seen[key] = self._evaluate(x, c)
        return self._seen[key]

    def _evaluate(self, x: np.ndarray, c: float) -> Linearisation:
        values = [c if q.name == self.control else self.fixed[q.name] for q in self.model.controls]
        values += [] if self.one_set is None else [self.one_set]
        with double_precision():
            return jax.tree.map(np.asarray, self._slice(jnp.asarray(values), jnp.asarray(x)))

    def overlaps(self, u: np.ndarray) -> np.ndarray:
        """x of a point u, or of rows of points."""
        return np.where(self._log, np.exp(np.where(self._log, u[..., :-1], 0.0)), u[..., :-1])

    def place(self, x: np.ndarray, t: float) -> np.ndarray:
        """u of overlaps x."""
        with np.errstate(divide="ignore"):  # perfect recovery, which no curve meets
            return np.append(np.where(self._log, np.log(np.where(self._log, x, 1.0)), x), t)

    def stretch(self, x: np.ndarray) -> np.ndarray:
        """dx/du of each overlap."""
        return np.where(self._log, x, 1.0)

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
        image = np.where(self._log & ~(here.update > 0), np.nan, here.update)
        gap = np.where(self._log, np.log(np.where(self._log, image, 1.0)) - u[:-1], image - x)
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
            np.where(self._log, FOLDING, SHARE * np.maximum(distance, NEAREST)), np.inf
        )

    def settle(
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
        hats = [q.symbol for q in self.model.conjugates]
        equations = derived(self.model, "exact")
        responses = Lowered(
            {q.name: equations[q.symbol] for q in self.model.overlaps},
            hats,
            [q.symbol for q in self.model.controls],
            self.model.name,
            self.sizes,
        )
        binding = {q.symbol: self.fixed.get(q.name, 1.0) for q in self.model.controls}
        with double_precision():
            x = np.array(
                [float(v) for v in responses.bind(jnp.zeros(len(hats)), binding)(None).values()]
            )
        inside = np.clip(
            np.where(np.abs(x - self.low) <= ROUNDING, self.low, x), self.low, self.high
        )
        return np.where(np.abs(inside - x) <= EDGE, inside, x)  # rounding must not leave the domain
