r"""The channel of a hidden location that follows the keys (max-SLR), with the Nishimori identity as
its derivative rule.

    Z(y, omega) = sum_l P_l(omega_k) N(y; omega_v,l, V),
    P_l = E_{chi ~ N(omega_k, V_k)} softmax(nu chi)_l
    Psi = E_omega int dy Z log Z,                             omega_a,l ~ N(0, q_a)

The variances known and unknown add up, q_a + V_a = const, so Z obeys the backward heat equation
dZ/dq_a = -(1/2) Laplacian_a Z. With Price's theorem for the law of omega (``nodes``),

    dPsi/dq_a = (1/2) E_omega int dy [ Laplacian_a (Z log Z) - (log Z + 1) Laplacian_a Z ] = (1/2)
    E[ sum_l (d log Z/d omega_a,l)^2 ]

where the last average is over the planted law, of density Z in (omega, y). Nothing here is divided
by q_a or V_a. With a law of the length it is a sum over lengths, E = sum_L p_L E_L, and so are its
derivatives. Source: theory.md section 4.
"""

from __future__ import annotations

from typing import Any

import sympy as sp
from sympy.printing.precedence import PRECEDENCE

from ..calculus.averages import Numerical, latex_power
from .data import LABEL, TOKEN


class LocationLaw(sp.Expr):
    """P_l(omega), l = ``TOKEN``: the probability of location l given key fields known up to the
    variance ``unknown``.

    Parameters
    ----------
    field : IndexedBase
        omega_k.
    known, unknown : expression
        Variance of omega_k, and of the keys around it.
    nu : strength, inf included
    count : L
    """

    def __new__(cls, field: sp.IndexedBase, known: Any, unknown: Any, nu: Any, count: Any) -> Any:
        return sp.Expr.__new__(cls, field, *map(sp.sympify, (known, unknown, nu, count)))

    @property
    def parameters(self) -> tuple[sp.Expr, ...]:
        """known, unknown, nu, count."""
        return self.args[1:]  # type: ignore[return-value]

    @property
    def free_symbols(self) -> set[sp.Basic]:
        return set().union(*(p.free_symbols for p in self.parameters))

    def _eval_is_nonnegative(self) -> bool:
        return True

    def _sympystr(self, printer: Any) -> str:
        return f"P_{TOKEN}({self.args[0]})"

    def _latex(self, printer: Any, exp: Any = None) -> str:
        return latex_power(rf"P_{TOKEN}\left({printer._print(self.args[0])}\right)", exp)


class LogEvidence(sp.Expr):
    """log Z(y, omega): ``location`` decides which value field, N(0, ``known``) and unknown by
    ``width``, the label shows.
    """

    def __new__(cls, location: LocationLaw, field: sp.IndexedBase, known: Any, width: Any) -> Any:
        return sp.Expr.__new__(cls, location, field, sp.sympify(known), sp.sympify(width))

    @property
    def location(self) -> LocationLaw:
        return self.args[0]  # type: ignore[return-value]

    @property
    def variances(self) -> tuple[tuple[sp.Expr, sp.Expr], ...]:
        """(known, unknown) of the key and of the value fields."""
        return self.location.parameters[:2], (self.args[2], self.args[3])  # type: ignore[return-value]

    def score(self, a: str) -> Score:
        """d log Z/d omega_a,l of the key ("k") or the value ("v") fields."""
        return Score(self, ("k", "v").index(a))

    @property
    def free_symbols(self) -> set[sp.Basic]:
        return self.location.free_symbols | self.args[2].free_symbols | self.args[3].free_symbols

    def _eval_is_real(self) -> bool:
        return True

    def _sympystr(self, printer: Any) -> str:
        law, field, _, width = self.args
        return (
            f"log sum_{{{TOKEN}=1..{self.location.parameters[3]}}} {printer._print(law)} N({LABEL};"
            f" {field}[{TOKEN}], {printer._print(width)})"
        )

    def _latex(self, printer: Any, exp: Any = None) -> str:
        law, field, _, width = (printer._print(a) for a in self.args)
        return latex_power(
            rf"\log\sum_{{{TOKEN}}} {law}\,\mathcal"
            rf" N\left({LABEL};{{{field}}}_{{{TOKEN}}},{width}\right)",
            exp,
        )


class Score(sp.Expr):
    """d log Z/d omega_a,l, l = ``TOKEN``, of the key (a = 0) or the value (a = 1) fields."""

    precedence = PRECEDENCE["Mul"]

    def __new__(cls, evidence: LogEvidence, a: Any) -> Any:
        return sp.Expr.__new__(cls, evidence, sp.sympify(a))

    @property
    def free_symbols(self) -> set[sp.Basic]:
        return self.args[0].free_symbols | {TOKEN}

    def _eval_is_real(self) -> bool:
        return True

    @property
    def _field(self) -> sp.Basic:
        evidence = self.args[0]
        return evidence.location.args[0] if self.args[1] == 0 else evidence.args[1]

    def _sympystr(self, printer: Any) -> str:
        return f"dlogZ/d{self._field}[{TOKEN}]"

    def _latex(self, printer: Any, exp: Any = None) -> str:
        return latex_power(
            rf"\frac{{\partial\log Z}}{{\partial {{{printer._print(self._field)}}}_{{{TOKEN}}}}}",
            exp,
        )


class PlantedAverage(sp.Expr):
    """E[body] over the joint law of (omega_k, omega_v, eps, y) whose density in (omega, y) is Z.

    ``body`` is built from log Z, its ``Score`` and ``LocationLaw``, sums over ``TOKEN`` included.
    ``lengths``, pairs (L, p_L), is the law of the count of tokens, which is then bound; without it
    the count is a parameter.
    """

    def __new__(cls, body: Any, evidence: LogEvidence, lengths: Any = ()) -> Any:
        body = sp.sympify(body)
        return (
            body
            if body.is_number
            else sp.Expr.__new__(
                cls, body, evidence, sp.Tuple(*(sp.Tuple(*pair) for pair in lengths))
            )
        )

    @property
    def body(self) -> sp.Expr:
        return self.args[0]  # type: ignore[return-value]

    @property
    def evidence(self) -> LogEvidence:
        return self.args[1]  # type: ignore[return-value]

    @property
    def lengths(self) -> sp.Tuple:
        return self.args[2]  # type: ignore[return-value]

    @property
    def free_symbols(self) -> set[sp.Basic]:
        count = {self.evidence.location.parameters[3]} if self.lengths else set()
        return ((self.body.free_symbols - {TOKEN}) | self.evidence.free_symbols) - count

    def _eval_derivative(self, t: sp.Symbol) -> Any:
        if t not in self.free_symbols:
            return sp.S.Zero
        if self.body != self.evidence or not self._only_known(t):
            return Slope(self, t)
        every = (TOKEN, 1, self.evidence.location.parameters[3])
        squares = [
            PlantedAverage(sp.Sum(Score(self.evidence, a) ** 2, every), self.evidence, self.lengths)
            for a in (0, 1)
        ]
        return sp.Add(
            *(
                known.diff(t) / 2 * square
                for (known, _), square in zip(self.evidence.variances, squares, strict=True)
            )
        )

    def _only_known(self, t: sp.Symbol) -> bool:
        """Whether t moves variance between what is known and what is not, and changes
        nothing else.
        """
        kept = all(
            sp.expand((known + unknown).diff(t)) == 0 for known, unknown in self.evidence.variances
        )
        return kept and not any(p.has(t) for p in self.evidence.location.parameters[2:])

    def _eval_is_real(self) -> bool:
        return True

    def _sympystr(self, printer: Any) -> str:
        return f"E_planted[{printer._print(self.body)}]"

    def _latex(self, printer: Any, exp: Any = None) -> str:
        length = f"{printer._print(self.evidence.location.parameters[3])}," if self.lengths else ""
        return latex_power(
            rf"\mathbb E_{{{length}\omega,y}}\left[{printer._print(self.body)}\right]", exp
        )


class Slope(Numerical):
    """d ``average``/d ``t`` of a ``PlantedAverage``, by forward differentiation of its evaluation
    on fixed samples.
    """

    def __new__(cls, average: PlantedAverage, t: sp.Symbol) -> Any:
        return sp.Expr.__new__(cls, average, t)

    @property
    def average(self) -> PlantedAverage:
        return self.args[0]  # type: ignore[return-value]

    @property
    def variable(self) -> sp.Symbol:
        return self.args[1]  # type: ignore[return-value]

    @property
    def free_symbols(self) -> set[sp.Basic]:
        return self.average.free_symbols

    def refusal(self, t: sp.Symbol) -> str:
        return f"{self} is a derivative by forward differentiation and is not differentiated again"

    def _sympystr(self, printer: Any) -> str:
        return f"d/d{self.variable} {printer._print(self.average)}"

    def _latex(self, printer: Any, exp: Any = None) -> str:
        return latex_power(
            rf"\partial_{{{printer._print(self.variable)}}}{printer._print(self.average)}", exp
        )
