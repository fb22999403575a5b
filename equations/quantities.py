"""The field's quantities: one table of name, LaTeX, range, scaling and meaning.

Every symbol of a model is declared as a :class:`Quantity`. ``quantity(name)`` takes the entry of
the table; a model of yours declares its own with ``Quantity(...)``. Names are plain: ``lambda``,
``E`` or ``I`` are symbols here, never functions or constants.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy as sp

INF = float("inf")


@dataclass(frozen=True)
class Quantity:
    """A named real number with its range.

    Attributes
    ----------
    name : str
        ASCII name, used in code, files and the command line.
    latex : str
        How figures and equations print it.
    low, high : float
        Range; the ends belong to it unless ``open_low`` / ``open_high``.
    integer : bool
        Whether only whole numbers are allowed.
    scaling : str
        "per D", "per N", or "" for a pure number.
    meaning : str
        One phrase.
    default : float or None
        Value of a control that is not given; None means it must be given.
    outside : str
        What to say when the value is out of range, beyond naming the range.
    information : int
        +1 (-1) if the overlaps grow (fall) with this control, 0 if unknown. It decides the
        direction in which a sweep may warm-start without changing a branch.
    infinite : bool
        Whether the value ``inf`` is allowed.
    optional : bool
        Whether a control may be left out; what depends on it is then not defined.
    logarithmic : bool
        Whether curves of fixed points are followed in the logarithm of this overlap: it is positive
        and spans decades.
    role : str
        "susceptibility" for a response, which is not asked to meet the accuracy; else "".
    """

    name: str
    latex: str = ""
    low: float = -INF
    high: float = INF
    open_low: bool = False
    open_high: bool = False
    integer: bool = False
    scaling: str = ""
    meaning: str = ""
    default: float | None = None
    outside: str = ""
    information: int = 0
    infinite: bool = False
    optional: bool = False
    logarithmic: bool = False
    role: str = ""

    @property
    def symbol(self) -> sp.Symbol:
        """The SymPy symbol; the same assumptions for the same quantity everywhere."""
        if self.low > 0 or (self.low == 0 and self.open_low):
            return sp.Symbol(self.name, positive=True)
        if self.low == 0:
            return sp.Symbol(self.name, nonnegative=True)
        return sp.Symbol(self.name, real=True)

    @property
    def label(self) -> str:
        """LaTeX, or the ASCII name in upright type."""
        return self.latex or rf"\mathrm{{{self.name}}}".replace("_", r"\_")

    def contains(self, value: float) -> bool:
        """Whether ``value`` is a number inside the range (False for NaN)."""
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        return above and below and (not self.integer or value == round(value))

    def range_text(self) -> str:
        """The range in words, such as ``nu >= 0`` or ``an integer L >= 1``."""
        kind = "an integer " if self.integer else ""
        if self.high == INF and self.low == -INF:
            return f"{kind}{self.name}, any finite number"
        if self.high == INF:
            return f"{kind}{self.name} {'>' if self.open_low else '>='} {self.low:g}"
        left, right = ("<" if self.open_low else "<="), ("<" if self.open_high else "<=")
        return f"{kind}{self.low:g} {left} {self.name} {right} {self.high:g}"


_TABLE = {
    q.name: q
    for q in (
        Quantity(
            "alpha",
            r"\alpha",
            0,
            open_low=True,
            scaling="N/D",
            meaning="samples per dimension",
            information=1,
        ),
        Quantity("L", "L", 1, integer=True, meaning="tokens per sequence", information=-1),
        Quantity("nu", r"\nu", 0, meaning="spike strength", information=1),
        Quantity("Delta", r"\Delta", 0, meaning="label noise variance", information=-1),
        Quantity(
            "snr", r"\lambda", 0, open_low=True, meaning="signal-to-noise ratio", information=1
        ),
        Quantity(
            "q_k", "q_k", 0, 1, scaling="per D", meaning="key overlap, khat.k*/D = |khat|^2/D"
        ),
        Quantity(
            "q_v", "q_v", 0, 1, scaling="per D", meaning="value overlap, vhat.v*/D = |vhat|^2/D"
        ),
        Quantity(
            "q", "q", 0, 1, scaling="per d", meaning="overlap of the estimate with the signal"
        ),
    )
}


def quantity(name: str, **changes: object) -> Quantity:
    """The table's entry ``name``, with ``changes`` to its fields.

    Parameters
    ----------
    name : str
        One of the table's: alpha, L, nu, Delta, lam_k, lam_v, snr, q, q_k, q_v, ...
    **changes
        Fields of ``Quantity``, such as ``meaning`` or ``high``.

    Returns
    -------
    Quantity
        The entry; the table itself does not change.
    """
    return replace(_TABLE[name], **changes)  # type: ignore[arg-type]


def conjugate(overlap: Quantity) -> Quantity:
    """The conjugate ``<name>_hat`` of an overlap: a field strength, non-negative in Bayes-optimal
    models.

    Parameters
    ----------
    overlap : Quantity
        Named in the table or not.

    Returns
    -------
    Quantity
        With the scaling of the overlap.
    """
    head, _, tail = (overlap.latex or overlap.name).partition("_")
    latex = rf"\hat {head}" + (f"_{tail}" if tail else "")
    return Quantity(
        f"{overlap.name}_hat",
        latex,
        meaning=f"conjugate of {overlap.name}",
        scaling=overlap.scaling,
    )
