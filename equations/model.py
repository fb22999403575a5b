r"""A model is data; its saddle-point equations are derived from its free energy.

    Phi(overlaps, conjugates) = prior(conjugates) + coupling(overlaps, conjugates) +
    channel(overlaps)

with a coupling that is bilinear, usually -sum_a q_a q_a_hat/2. ``derive`` sets dPhi = 0 and solves
it for the conjugates and for the overlaps. A model without conjugates is an objective: dPhi/dx = 0
as it stands.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import sympy as sp

from .calculus.gram_matrix import Gram
from .calculus.special_functions import stabilise
from .quantities import Quantity

Start = Mapping[str, "float | sp.Expr"]


class ModelError(ValueError):
    """A model contradicts itself; the message names the model and the symbol."""


@dataclass(frozen=True)
class Source:
    """The file of a user's own model: its path as it was given, and its text."""

    file: str
    text: str

    @property
    def sha256(self) -> str:
        """Of the text."""
        return hashlib.sha256(self.text.encode(errors="surrogateescape")).hexdigest()


@dataclass(frozen=True, eq=False)
class Model:
    """Physics as data.

    Attributes
    ----------
    name, title, setting : str
        Identifier, one line, and the model in two lines.
    overlaps, conjugates, controls : tuple of Quantity
        Unknowns (overlaps[i] is conjugate to conjugates[i]) and what the user sets.
    prior, channel, coupling : expression
        The three parts of Phi. Without conjugates the objective is ``channel``.
    best : {"largest", "smallest"}
        Which stationary value of Phi is the equilibrium one.
    observables : dict of name -> expression
    units : dict of name -> str
    latex : dict of name -> LaTeX label of an observable
    starts : dict of name -> {overlap: value or expression in the controls}
    exact, sampled : callables
        Rewriting of Phi and the observables into what can be evaluated: the default route, and a
        second independent one (None if there is none).
    bound : str or None
        Name of the observable that no value of ``risk`` may undercut.
    nodes : dict of rule size -> expression in the controls
        Sizes of node sets that this model needs, such as {"line": 100 + nu}, where they exceed the
        default.
    options : dict
        String settings the model was built with, such as ``activation``.
    path : {"compiled", "proximal", "flow"}
        How it is solved: node sets compiled into one program, samples with a minimisation in each,
        or the fixed points of a flow: dx/dt = observable ``drift``, or that of ``gram``.
    gram : Gram or None
        The Gram matrix whose entries the overlaps are, if they descend on the free energy.
    scrambled : bool
        Whether its averages run over scrambled sets of samples, whose spread is then the error.
    infinite_scale : condition on the controls
        Where the optimum is a limit that no finite value of the unknowns attains.
    accuracy : float
        Largest error of an overlap that is called resolved, unless the user asks for another.
    notes : dict
        Further fields of the docstring contract: Exact?, Accuracy, Limits.
    sources : tuple of str
    source : Source or None
        The file of a user's own model.
    """

    name: str
    title: str
    setting: str
    overlaps: tuple[Quantity, ...]
    controls: tuple[Quantity, ...]
    channel: sp.Expr
    observables: Mapping[str, sp.Expr]
    starts: Mapping[str, Start]
    sources: tuple[str, ...]
    conjugates: tuple[Quantity, ...] = ()
    prior: sp.Expr = sp.S.Zero
    coupling: sp.Expr = sp.S.Zero
    best: Literal["largest", "smallest"] = "largest"
    units: Mapping[str, str] = field(default_factory=dict)
    latex: Mapping[str, str] = field(default_factory=dict)
    exact: Callable[[sp.Expr], sp.Expr] = stabilise
    sampled: Callable[[sp.Expr], sp.Expr] | None = None
    bound: str | None = None
    nodes: Mapping[str, sp.Expr] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    path: Literal["compiled", "proximal", "flow"] = "compiled"
    gram: Gram | None = None
    scrambled: bool = False
    infinite_scale: Any = sp.false
    accuracy: float = 1e-6
    notes: Mapping[str, str] = field(default_factory=dict)
    source: Source | None = None

    def __post_init__(self) -> None:
        _check_symbols(self)
        for start, values in self.starts.items():
            missing = {q.name for q in self.overlaps} - set(values)
            if missing:
                raise ModelError(
                    f"model {self.name}: start {start!r} has no value for"
                    f" {', '.join(sorted(missing))}"
                )

    @property
    def free_energy(self) -> sp.Expr:
        """Phi as the model states it, before any rewriting."""
        return self.prior + self.coupling + self.channel

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        return (*self.overlaps, *self.conjugates, *self.controls)


def _check_symbols(model: Model) -> None:
    """Refuse undeclared symbols and two symbols of one name (SymPy would keep both, silently)."""
    declared = {q.name: q.symbol for q in model.quantities}
    if len(declared) < len(model.quantities):
        names = [q.name for q in model.quantities]
        twice = next(n for n in names if names.count(n) > 1)
        raise ModelError(f"model {model.name}: {twice} is declared twice")
    if model.conjugates and len(model.conjugates) != len(model.overlaps):
        raise ModelError(
            f"model {model.name}: {len(model.overlaps)} overlaps and {len(model.conjugates)}"
            " conjugates: each overlap needs its own"
        )
    for where, expr in {"the free energy": model.free_energy, **model.observables}.items():
        if not isinstance(expr, sp.Expr):
            raise ModelError(
                f"model {model.name}: {where} is {expr!r} ({type(expr).__name__}): it must be a"
                " SymPy expression"
            )
        for symbol in sorted(expr.free_symbols, key=str):
            known = declared.get(str(symbol))
            if known is None:
                raise ModelError(
                    f"model {model.name}: {where} contains {symbol}, which is not an overlap,"
                    " conjugate or control"
                )
            if known != symbol:
                raise ModelError(
                    f"model {model.name}: {where} contains a symbol {symbol} with other assumptions"
                    " than the declared one; take it from its Quantity"
                )
