r"""A model is data; its saddle-point equations are derived from its free energy.

    Phi = prior(conjugates) + coupling(overlaps, conjugates) + channel(overlaps)

with a coupling that is bilinear, usually -sum_a q_a q_a_hat/2. A model without conjugates is an
objective: dPhi/dx = 0 as it stands. What is measured, what must hold of a solution and how it is
solved stand with the model, as records.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import sympy as sp

from .quantities import Quantity
from .theory import Quadrature, TheoryRecord

Start = Mapping[str, "float | sp.Expr"]
ROLES = (
    "risk",
    "bayes_risk",
    "replicon",
    "training_loss",
    "energy",
    "prox_failures",
    "off_manifold",
    "overlap",
)
"""What observables are to the rest of the package, whatever their names; an "overlap" is another
form of an unknown, which is shown among them.
"""


class ModelError(ValueError):
    """A model contradicts itself; the message names the model and the symbol."""


@dataclass(frozen=True)
class Source:
    """The file of a user's own model.

    Attributes
    ----------
    file : str
        Its path as it was given.
    text : str
    imports : tuple of (str, str)
        Files of its folder that it imports, and the SHA-256 of each.
    """

    file: str
    text: str
    imports: tuple[tuple[str, str], ...] = ()

    @property
    def sha256(self) -> str:
        """Of the text, and of what it imports."""
        content = hashlib.sha256(self.text.encode(errors="surrogateescape"))
        for name, digest in self.imports:
            content.update(f"\0{name}\0{digest}".encode(errors="surrogateescape"))
        return content.hexdigest()


@dataclass(frozen=True)
class Observable:
    """What is measured at a solution.

    Attributes
    ----------
    expr : expression
        In overlaps and controls.
    latex, units : str
        How figures label it; "1" for a pure number.
    role : str
        One of ``ROLES``, or "". A model has at most one observable of each role.
    where : condition on the controls
        Where it is defined.
    """

    expr: Any
    latex: str = ""
    units: str = "1"
    role: str = ""
    where: Any = sp.true


@dataclass(frozen=True)
class Criterion:
    """What must hold of a solution, and the status of one of which it does not.

    Attributes
    ----------
    of : str
        Name of an observable or conjugate.
    relation : {"above", "below", "apart"}
        Wrong if it lies above ``limit``, below it by more than twice their errors, or apart from it
        by more than five of their joint standard errors (two of which are an error).
    limit : float or str
        A number, or the name of another observable or conjugate.
    status : str
        Name of a status.
    when : {"first", "finite", "resolved"}
        It is asked before anything else, once the numbers are finite, or of a resolved point.
    """

    of: str
    relation: Literal["above", "below", "apart"]
    limit: float | str
    status: str
    when: Literal["first", "finite", "resolved"] = "resolved"


RENAMED = {
    "path": "theory=Quadrature(), QuasiMonteCarlo(...), EmpiricalRisk(...), SphereFlow(...) or "
    "GradientFlow(...)",
    "gram": "theory=GradientFlow(gram=...)",
    "scrambled": "theory=QuasiMonteCarlo(...)",
    "exact": "theory=Quadrature(rewrite=...)",
    "sampled": "theory=Quadrature(sampled=...)",
    "nodes": "theory=Quadrature(nodes=...)",
    "infinite_scale": "theory=Quadrature(infinite_scale=...)",
    "bound": 'observables={name: Observable(..., role="bayes_risk")}',
    "units": "observables={name: Observable(..., units=...)}",
    "latex": "observables={name: Observable(..., latex=...)}",
}
"""Fields of earlier versions, and what they are now."""


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
    observables : dict of name -> Observable
        A plain expression is one without label; if its name is a role, it has that role.
    starts : dict of name -> {overlap: value or expression in the controls}
    theory : Quadrature, QuasiMonteCarlo, EmpiricalRisk, SphereFlow or GradientFlow
        How it is solved.
    criteria : tuple of Criterion
        What must hold of a solution, beside a risk that is not below its Bayes risk.
    options : dict
        String settings the model was built with, such as ``activation``.
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
    observables: Mapping[str, Observable]
    starts: Mapping[str, Start]
    sources: tuple[str, ...]
    conjugates: tuple[Quantity, ...] = ()
    prior: sp.Expr = sp.S.Zero
    coupling: sp.Expr = sp.S.Zero
    best: Literal["largest", "smallest"] = "largest"
    theory: TheoryRecord = field(default_factory=Quadrature)
    criteria: tuple[Criterion, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    accuracy: float = 1e-6
    notes: Mapping[str, str] = field(default_factory=dict)
    source: Source | None = None

    def __new__(cls, *_: Any, **fields: Any) -> Model:
        """Say what a field of an earlier version is now."""
        for old in fields:
            if old in RENAMED:
                name = fields.get("name", "?")
                raise ModelError(f"model {name}: {old}= is no field any more: write {RENAMED[old]}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        measured = {name: _observable(name, value) for name, value in self.observables.items()}
        object.__setattr__(self, "observables", measured)
        _check_symbols(self)
        _check_names(self)

    @property
    def free_energy(self) -> sp.Expr:
        """Phi as the model states it, before any rewriting."""
        return self.prior + self.coupling + self.channel

    @property
    def expressions(self) -> dict[str, sp.Expr]:
        """The observables' expressions."""
        return {name: o.expr for name, o in self.observables.items()}

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """Overlaps, conjugates and controls."""
        return (*self.overlaps, *self.conjugates, *self.controls)

    def with_role(self, role: str) -> str | None:
        """The name of the observable that has ``role``, None if there is none."""
        return next((name for name, o in self.observables.items() if o.role == role), None)

    @property
    def all_criteria(self) -> tuple[Criterion, ...]:
        """Those of the model, and that no risk lies below its Bayes risk."""
        risk, bound = self.with_role("risk"), self.with_role("bayes_risk")
        if risk is None or bound is None:
            return self.criteria
        return (*self.criteria, Criterion(risk, "below", bound, "BELOW_BAYES"))


def joined(known: Mapping[str, Observable], given: Mapping[str, Any]) -> dict[str, Any]:
    """The observables ``known`` and those ``given``; a plain expression that takes the place of a
    known one keeps its labels.
    """
    found: dict[str, Any] = dict(known)
    for name, value in given.items():
        plain = name in known and not isinstance(value, Observable)
        found[name] = replace(known[name], expr=value) if plain else value
    return found


def _observable(name: str, value: Any) -> Observable:
    if isinstance(value, Observable):
        return value
    return Observable(value, role=name if name in ROLES else "")


def _check_names(model: Model) -> None:
    """Refuse a start without a value, two observables of one role, and a criterion of nothing."""
    for start, values in model.starts.items():
        missing = {q.name for q in model.overlaps} - set(values)
        if missing:
            raise ModelError(
                f"model {model.name}: start {start!r} has no value for {', '.join(sorted(missing))}"
            )
    roles = [o.role for o in model.observables.values() if o.role]
    for role in roles:
        if role not in ROLES:
            raise ModelError(
                f"model {model.name}: there is no role {role!r}: choose {', '.join(ROLES)}"
            )
        if roles.count(role) > 1:
            raise ModelError(f"model {model.name}: two observables have the role {role!r}")
    known = {*model.observables, *(q.name for q in model.conjugates)}
    for criterion in model.criteria:
        for name in (criterion.of, criterion.limit):
            if isinstance(name, str) and name not in known:
                raise ModelError(
                    f"model {model.name}: a criterion names {name}, which is no observable"
                )


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
    for where, expr in {"the free energy": model.free_energy, **model.expressions}.items():
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
