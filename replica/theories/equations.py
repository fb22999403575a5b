"""The derived equations of a model as JAX functions: named entries, lowered in groups, one binding
of the controls. Solving, thresholds, curves, derivatives and flows all evaluate these.

    forces      conjugates as functions of the overlaps (of an objective: its gradient)
    responses   overlaps as functions of the conjugates
    channel, prior, coupling   the three parts of Phi
    observables, observable NAME
    ENTRY by overlaps, ENTRY by conjugates, ENTRY by CONTROL[,CONTROL]   its derivatives
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp

from equations import Model, derive
from solvers import Box

from ..lowering.lower import SCRAMBLE, Lowered
from ..lowering.node_sets import NodeSets
from ..lowering.node_sizes import NodeSizes

Values = dict[str, jax.Array]


class Binding(NamedTuple):
    """What stays fixed while overlaps vary: control values, and the nodes of all averages (None:
    those of the equations' own sizes, as constants).
    """

    controls: dict[sp.Symbol, jax.Array]
    sets: NodeSets | None = None


class State(NamedTuple):
    """Everything a model defines at given overlaps: conjugates, update F(x), Phi, observables,
    dF/dx.
    """

    hats: jax.Array
    update: jax.Array
    free_energy: jax.Array
    observables: jax.Array
    slope: jax.Array


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


class Group:
    """Entries of the same unknowns, evaluated together: each is a vector."""

    def __init__(self, lowered: Lowered, lengths: Mapping[str, int]) -> None:
        self._lowered, self._lengths = lowered, dict(lengths)

    def bind(self, u: jax.Array, binding: Binding) -> Callable[[jax.Array | None], Values]:
        """Fix the controls: u -> entries (None: at the ``u`` given here).

        What does not depend on u is evaluated here, outside any loop the function runs in.
        """
        at = self._lowered.bind(u, *binding)
        return lambda v: self._joined(at(v))

    def at(self, u: jax.Array, binding: Binding) -> Values:
        """The entries at ``u``."""
        return self._joined(self._lowered.bind(u, *binding)(None))

    def _joined(self, flat: Values) -> Values:
        return {
            name: stacked([flat[_flat_name(name, i)] for i in range(length)])
            for name, length in self._lengths.items()
        }


def _flat_name(name: str, i: int) -> str:
    return f"{name} [{i}]"


def stacked(values: Sequence[jax.Array]) -> jax.Array:
    """Scalars as a vector, of no entry if there are none."""
    return jnp.stack(list(values)) if values else jnp.zeros(0)


class CompiledEquations:
    """A model with its derived equations, for all node sets of one bucket: they are arguments.

    Parameters
    ----------
    model : Model
    sizes : NodeSizes
    route : {"exact", "sampled"}
    one_set : bool
        Whether the last control says which of the scrambled sets is used (in the sampled route it
        always does).
    """

    def __init__(
        self, model: Model, sizes: NodeSizes, route: str = "exact", one_set: bool = False
    ) -> None:
        self.model, self.sizes, self.route = model, sizes, route
        # Of the type that the theory is for which these are the equations.
        self.record: Any = model.theory
        self.x = [q.symbol for q in model.overlaps]
        self.h = [q.symbol for q in model.conjugates]
        scramble = route == "sampled" or one_set
        self.controls = [q.symbol for q in model.controls] + [SCRAMBLE] * scramble
        self._groups: dict[tuple[tuple[str, ...], str], Group] = {}

    # entries and groups --------------------------------------------------------------------------

    def binding(self, c: jax.Array, sets: NodeSets | None = None) -> Binding:
        """Control symbols with their values, and the nodes."""
        return Binding({symbol: c[i] for i, symbol in enumerate(self.controls)}, sets)

    def lower(self, expressions: Mapping[str, sp.Expr], unknowns: list[sp.Symbol]) -> Lowered:
        """Expressions in the controls and ``unknowns``, ready to be evaluated."""
        return Lowered(expressions, unknowns, self.controls, self.model.name, self.sizes)

    def entry(self, name: str) -> list[sp.Expr]:
        """The expressions of an entry; derivatives run over the arguments first."""
        kind, _, by = name.partition(" by ")
        whole = self._whole(kind)
        if not by:
            return whole
        arguments = self._arguments(by)
        return [e.diff(a) for e in whole for a in arguments]

    def _whole(self, kind: str) -> list[sp.Expr]:
        model, rewrite = self.model, route_of(self.model, self.route)
        equations = derived(model, self.route)
        parts = {"channel": model.channel, "prior": model.prior}
        if kind in parts:
            return [rewrite(parts[kind])]
        if kind == "coupling":
            return [model.coupling]
        if kind == "observables":
            return [rewrite(e) for e in model.expressions.values()]
        if kind.startswith("observable "):
            return [rewrite(model.expressions[kind.removeprefix("observable ")])]
        names = {"forces": self.h or self.x, "responses": self.x if self.h else []}[kind]
        return [equations[name] for name in names]

    def _arguments(self, by: str) -> list[sp.Symbol]:
        unknowns = {"overlaps": self.x, "conjugates": self.h}
        if by in unknowns:
            return unknowns[by]
        names = by.split(",")
        return [q.symbol for q in self.model.controls if q.name in names]

    def group(self, names: Sequence[str], of: str = "overlaps") -> Group:
        """Entries that are evaluated together, functions ``of`` overlaps, conjugates or both."""
        key = tuple(names), of
        if key not in self._groups:
            entries = {name: self.entry(name) for name in names}
            unknowns = {"overlaps": self.x, "conjugates": self.h, "both": [*self.x, *self.h]}[of]
            flat = {
                _flat_name(name, i): expr
                for name, expressions in entries.items()
                for i, expr in enumerate(expressions)
            }
            lengths = {name: len(expressions) for name, expressions in entries.items()}
            self._groups[key] = Group(self.lower(flat, unknowns), lengths)
        return self._groups[key]

    def prepare(self) -> None:
        """Derive and lower all that a solve needs, without evaluating it."""
        for names in (["forces"], ["forces by overlaps"], ["channel"], ["observables"]):
            self.group(names)
        for names in (["responses"], ["prior", "responses by conjugates"]):
            self.group(names, "conjugates")
        self.group(["coupling"], "both")

    # what they give ------------------------------------------------------------------------------

    def conjugates(
        self, c: jax.Array, x0: jax.Array, sets: NodeSets | None = None
    ) -> Callable[[jax.Array], jax.Array]:
        """x -> conjugates (the gradient, for an objective)."""
        at = self.group(["forces"]).bind(x0, self.binding(c, sets))
        return lambda x: at(x)["forces"]

    def update(
        self, c: jax.Array, x0: jax.Array, sets: NodeSets | None = None
    ) -> Callable[[jax.Array], jax.Array]:
        """x -> F(x), shape (n,)."""
        forces, responses = self.conjugates(c, x0, sets), self.group(["responses"], "conjugates")
        return lambda x: responses.at(forces(x), self.binding(c, sets))["responses"]

    def observables(self, c: jax.Array, x: jax.Array, sets: NodeSets | None = None) -> jax.Array:
        """Observables at x, in the order of ``model.observables``."""
        return self.group(["observables"]).at(x, self.binding(c, sets))["observables"]

    def state(self, c: jax.Array, x: jax.Array, sets: NodeSets | None = None) -> State:
        """Everything the model defines at the overlaps ``x``."""
        here = self.linearisation(None)(c, x, sets)
        seen = self.observables(c, x, sets)
        return State(here.hats, here.update, here.free_energy, seen, here.slope)  # type: ignore[arg-type]

    def values(
        self, c: jax.Array, x: jax.Array, sets: NodeSets | None = None
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Conjugates, free energy and observables at ``x``, without slopes."""
        binding = self.binding(c, sets)
        forces = self.group(["forces"]).at(x, binding)["forces"]
        prior = self.group(["prior"], "conjugates").at(forces, binding)["prior"]
        return forces, self._energy(x, forces, prior, binding), self.observables(c, x, sets)

    def _energy(
        self, x: jax.Array, forces: jax.Array, prior: jax.Array, binding: Binding
    ) -> jax.Array:
        """Phi from the value of the prior."""
        channel = self.group(["channel"]).at(x, binding)["channel"]
        both = jnp.concatenate([x, forces])
        coupling = self.group(["coupling"], "both").at(both, binding)["coupling"]
        return (channel + prior + coupling)[0]

    @property
    def factor(self) -> str | None:
        """The control that multiplies the channel term and stands nowhere else, as a sample ratio
        does.
        """
        factors, rest = sp.Mul.make_args(self.model.channel), self.model.prior + self.model.coupling
        for q in self.model.controls:
            others = [f for f in factors if f != q.symbol]
            alone = not any(e.has(q.symbol) for e in (*others, rest))
            if alone and len(others) == len(factors) - 1:
                return q.name
        return None

    def linearisation(
        self, control: str | None
    ) -> Callable[[jax.Array, jax.Array, NodeSets | None], Linearisation]:
        """(controls, x, nodes) -> Linearisation along ``control`` (None: without its derivatives).

        Where the control multiplies the channel term (a sample ratio), dF/dc costs nothing beyond
        F: SymPy finds d(alpha G)/d alpha = G, which is evaluated already.
        """

        def names(image: str, by: str, term: str) -> list[str]:
            plain = [image, f"{image} by {by}", term]
            return plain + ([] if control is None else [f"{e} by {control}" for e in (image, term)])

        n, still = len(self.x), () if control is not None else (jnp.zeros(1), jnp.zeros(1))
        first, second = (
            names("forces", "overlaps", "channel"),
            names("responses", "conjugates", "prior"),
        )
        forces, responses = self.group(first), self.group(second, "conjugates")
        coupling = self.group(["coupling"], "both")

        def at(c: jax.Array, x: jax.Array, sets: NodeSets | None = None) -> Linearisation:
            binding = self.binding(c, sets)
            hats, hats_x, energy, hats_c, energy_c = *forces.at(x, binding).values(), *still
            of_hats = responses.at(hats, binding).values()
            image, image_h, entropy, image_c, entropy_c = *of_hats, *still
            pairing = coupling.at(jnp.concatenate([x, hats]), binding)["coupling"]
            inner, outer = hats_x.reshape(n, n), image_h.reshape(n, n)
            total = energy[0] + entropy[0] + pairing[0]
            dF_dc = jnp.broadcast_to(outer @ jnp.broadcast_to(hats_c, n) + image_c, n)
            dPhi_dc = energy_c[0] + entropy_c[0]
            return Linearisation(hats, image, outer @ inner, dF_dc, total, dPhi_dc)  # type: ignore[arg-type]

        return at

    def derivatives(self, moved: tuple[str, ...]) -> Callable[..., tuple[jax.Array, jax.Array]]:
        """(overlaps, controls) -> d (overlaps, conjugates, observables) / d ``moved`` through the
        fixed point, and how far dF/dx is from an eigenvalue 1.
        """
        by = ",".join(moved)

        def at(
            x: jax.Array, c: jax.Array, sets: NodeSets | None = None
        ) -> tuple[jax.Array, jax.Array]:
            binding = self.binding(c, sets)

            def matrix(entry: str, argument: str, of: str, u: jax.Array) -> jax.Array:
                name = f"{entry} by {argument}"
                columns = len(self._arguments(argument))
                return self.group([name], of).at(u, binding)[name].reshape(-1, columns)

            force_x = matrix("forces", "overlaps", "overlaps", x)
            force_c = matrix("forces", by, "overlaps", x)
            system, right = self._moved(x, binding, matrix, by, force_x, force_c)
            slope = jnp.linalg.solve(system, right)
            hats = force_x @ slope + force_c if self.h else jnp.zeros((0, len(moved)))
            seen_x = matrix("observables", "overlaps", "overlaps", x)
            seen = seen_x @ slope + matrix("observables", by, "overlaps", x)
            distance = jnp.min(jnp.abs(jnp.linalg.eigvals(system)))
            return jnp.concatenate([slope, hats, seen]), distance

        return at

    def _moved(
        self,
        x: jax.Array,
        binding: Binding,
        matrix: Callable[..., jax.Array],
        by: str,
        force_x: jax.Array,
        force_c: jax.Array,
    ) -> tuple[jax.Array, jax.Array]:
        """A and b of A dx/dc = b: x = F(x, c)."""
        hats = self.group(["forces"]).at(x, binding)["forces"]
        response = matrix("responses", "conjugates", "conjugates", hats)
        response_c = matrix("responses", by, "conjugates", hats)
        return jnp.eye(len(self.x)) - response @ force_x, response @ force_c + response_c


class CompiledObjective(CompiledEquations):
    """The same for an objective without conjugates: F = x - gradient."""

    @property
    def factor(self) -> str | None:
        """There is none."""
        return None

    def update(
        self, c: jax.Array, x0: jax.Array, sets: NodeSets | None = None
    ) -> Callable[[jax.Array], jax.Array]:
        """x -> x - gradient."""
        gradient = self.conjugates(c, x0, sets)
        return lambda x: x - gradient(x)

    def objective(
        self, c: jax.Array, x0: jax.Array, sets: NodeSets | None = None
    ) -> Callable[[jax.Array], jax.Array]:
        """x -> Phi."""
        at = self.group(["channel"]).bind(x0, self.binding(c, sets))
        return lambda x: at(x)["channel"][0]

    def at_infinity(self, c: jax.Array, sets: NodeSets | None = None) -> jax.Array:
        """Whether the optimum is a limit at infinite scale."""
        condition = self.lower({"value": self.record.infinite_scale}, [])
        return condition.bind(jnp.zeros(0), *self.binding(c, sets))(None)["value"] > 0

    def linearisation(
        self, control: str | None
    ) -> Callable[[jax.Array, jax.Array, NodeSets | None], Linearisation]:
        """(controls, x, nodes) -> Linearisation; no curve is followed, and it has no derivatives by
        a control.
        """
        assert control is None
        n, names = len(self.x), ["forces", "forces by overlaps", "channel"]

        def at(c: jax.Array, x: jax.Array, sets: NodeSets | None = None) -> Linearisation:
            found = self.group(names).at(x, self.binding(c, sets))
            gradient, slope, value = (found[name] for name in names)
            curvature, none = jnp.eye(n) - slope.reshape(n, n), jnp.zeros(())
            hats = jnp.zeros(0)
            return Linearisation(hats, x - gradient, curvature, jnp.zeros(n), value[0], none)  # type: ignore[arg-type]

        return at

    def _moved(
        self,
        x: jax.Array,
        binding: Binding,
        matrix: Callable[..., jax.Array],
        by: str,
        force_x: jax.Array,
        force_c: jax.Array,
    ) -> tuple[jax.Array, jax.Array]:
        """The gradient stays zero."""
        return force_x, -force_c


def route_of(model: Model, route: str) -> Callable[[sp.Expr], sp.Expr]:
    """The rewriting of one route of evaluation."""
    record = model.theory
    rewrite = record.rewrite if route == "exact" else getattr(record, "sampled", None)
    assert rewrite is not None
    return rewrite


@cache
def derived(model: Model, route: str = "exact") -> dict[sp.Symbol, sp.Expr]:
    """The model's saddle-point equations on one route (derived once per process)."""
    return derive(model, route_of(model, route))


def box(model: Model) -> Box:
    """The domain of the overlaps."""
    low, high = (jnp.array([getattr(q, end) for q in model.overlaps]) for end in ("low", "high"))
    return Box(low, high)
