r"""Moreau envelopes, unevaluated, with the envelope theorem as their derivative rule.

    M(omega, V) = min_x sum_{a,l} (x_{a,l} - omega_{a,l})^2/(2 V_a) + loss(x)
    f_{a,l} = (x_{a,l} - omega_{a,l})/V_a  at the minimiser ("prox")
    dM/dt = - sum_{a,l} f_{a,l} d omega_{a,l}/dt - sum_{a,l} (f_{a,l}^2/2) dV_a/dt + (d
    loss/dt)(prox)

so that a free energy with an envelope under an average differentiates to its saddle-point equations
without the minimiser ever being differentiated. What does need its linear response (stability, the
second form of V_hat) has nodes of its own. Source: theory.md section 5; the envelope theorem is
Danskin's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy as sp
from sympy.core.symbol import Str

from .averages import Numerical, SampleAverage
from .special_functions import LogSumExp


class MoreauEnvelope(sp.Expr):
    """min over token fields x_{a,l}, l = 1..L, of the proximal terms plus ``loss``.

    Parameters
    ----------
    loss : expression in ``x_a[l]``
    index, count : l and L
    fields : sequence of (x_a, omega_a, V_a, label)
        Minimised field (``IndexedBase``), its centre (an expression in l), its width, and how it is
        called.
    """

    def __new__(
        cls, loss: Any, index: sp.Symbol, count: Any, fields: Sequence[Sequence[Any]]
    ) -> Any:
        rows = [
            sp.Tuple(x, sp.sympify(centre), sp.sympify(width), Str(str(label)))
            for x, centre, width, label in fields
        ]
        return sp.Expr.__new__(cls, sp.sympify(loss), index, sp.sympify(count), sp.Tuple(*rows))

    @property
    def loss(self) -> sp.Expr:
        return self.args[0]  # type: ignore[return-value]

    @property
    def index(self) -> sp.Symbol:
        return self.args[1]  # type: ignore[return-value]

    @property
    def count(self) -> sp.Expr:
        return self.args[2]  # type: ignore[return-value]

    @property
    def fields(self) -> tuple[Any, ...]:
        return self.args[3].args

    @property
    def minimised(self) -> sp.Expr:
        """What is minimised, as an expression in the fields x_a[l]."""
        index = self.index
        terms = [
            sp.Sum((x[index] - centre) ** 2, (index, 1, self.count)) / (2 * width)
            for x, centre, width, _ in self.fields
        ]
        return sp.Add(*terms) + self.loss

    @property
    def free_symbols(self) -> set[sp.Basic]:
        hidden = {self.index} | {s for x, *_ in self.fields for s in (x, *x.free_symbols)}
        parts = [
            self.loss,
            self.count,
            *(p for _, centre, width, _ in self.fields for p in (centre, width)),
        ]
        return {
            s
            for s in set().union(*(p.free_symbols for p in parts)) - hidden
            if not isinstance(s, sp.Indexed)
        }

    def _eval_derivative(self, t: sp.Symbol) -> Any:
        every = (self.index, 1, self.count)
        total: Any = sp.S.Zero
        for a, (_, centre, width, _) in enumerate(self.fields):
            force, slope, widening = ProxForce(self, a), centre.diff(t), width.diff(t)
            total -= sp.Sum(force * slope, every) if slope != 0 else 0
            total -= widening / 2 * sp.Sum(force**2, every) if widening != 0 else 0
        explicit = self.loss.diff(t)
        return total + (AtProx(explicit, self) if explicit != 0 else 0)

    def _eval_is_real(self) -> bool:
        return True

    def _latex(self, printer: Any, exp: Any = None) -> str:
        names = ",".join(printer._print(x) for x, *_ in self.fields)
        inner = rf"\min_{{{names}}}\left[{printer._print(self.minimised)}\right]"
        return inner if exp is None else rf"\left({inner}\right)^{{{exp}}}"

    def _sympystr(self, printer: Any) -> str:
        return (
            f"min_{{{', '.join(str(x) for x, *_ in self.fields)}}}"
            f" [{printer._print(self.minimised)}]"
        )


class _AtMinimiser(Numerical):
    """A number read off the minimiser; ``args[0]`` is the envelope."""

    head = ""

    def __new__(cls, envelope: MoreauEnvelope, *which: Any) -> Any:
        return sp.Expr.__new__(cls, envelope, *(sp.sympify(w) for w in which))

    @property
    def envelope(self) -> MoreauEnvelope:
        return self.args[0]  # type: ignore[return-value]

    @property
    def labels(self) -> str:
        """The names of the fields it refers to, joined."""
        return "".join(str(self.envelope.fields[int(a)][3]) for a in self.args[1:] if a.is_Integer)

    @property
    def free_symbols(self) -> set[sp.Basic]:
        return self.envelope.free_symbols

    def refusal(self, t: sp.Symbol) -> str:
        return (
            f"d({self})/d{t} is the linear response of a minimiser, which is computed numerically"
        )

    def _sympystr(self, printer: Any) -> str:
        return f"{self.head}_{self.labels}" if self.labels else self.head

    def _latex(self, printer: Any, exp: Any = None) -> str:
        text = rf"\mathrm{{{self.head}}}" + (rf"_{{{self.labels}}}" if self.labels else "")
        return text if exp is None else rf"{{{text}}}^{{{exp}}}"


class ProxForce(_AtMinimiser):
    """f_{a,l} = (x_{a,l} - omega_{a,l})/V_a at the minimiser."""

    @property
    def explicit(self) -> sp.Expr:
        x, centre, width, _ = self.envelope.fields[int(self.args[1])]
        return (x[self.envelope.index] - centre) / width

    @property
    def free_symbols(self) -> set[sp.Basic]:
        return self.envelope.free_symbols | {self.envelope.index}

    def _sympystr(self, printer: Any) -> str:
        return f"f_{self.labels}[{self.envelope.index}]"

    def _latex(self, printer: Any, exp: Any = None) -> str:
        text = rf"f_{{{self.labels},{printer._print(self.envelope.index)}}}"
        return text if exp is None else rf"{text}^{{{exp}}}"


class ForceDivergence(_AtMinimiser):
    """sum_l d f_{a,l} / d omega_{a,l}, from the linear response of the minimiser (no jumps)."""

    head = "div_f"


class ForceResponse(_AtMinimiser):
    """sum_{l,l'} (d f_{a,l} / d omega_{b,l'})^2."""

    head = "response"


class BasinChange(_AtMinimiser):
    """1 where the last search from several starts found a lower minimum than the one followed, else
    0.
    """

    head = "basin_change"


class ProxFailure(_AtMinimiser):
    """1 where no minimiser was found to the tolerance, else 0."""

    head = "prox_failure"


RESPONSES = (ForceDivergence, ForceResponse, BasinChange, ProxFailure)
"""What is computed numerically beside the minimiser, and not differentiated."""


class AtProx(Numerical):
    """``expr``, in the fields x_a[l] of an envelope, at its minimiser."""

    def __new__(cls, expr: Any, envelope: MoreauEnvelope) -> Any:
        return sp.Expr.__new__(cls, sp.sympify(expr), envelope)

    @property
    def free_symbols(self) -> set[sp.Basic]:
        return self.args[1].free_symbols

    def refusal(self, t: sp.Symbol) -> str:
        return (
            f"d({self})/d{t} needs the linear response of a minimiser, which is computed"
            " numerically"
        )

    def _sympystr(self, printer: Any) -> str:
        return f"({printer._print(self.args[0])} at prox)"

    def _latex(self, printer: Any, exp: Any = None) -> str:
        text = rf"\left.{printer._print(self.args[0])}\right|_{{\mathrm{{prox}}}}"
        return text if exp is None else rf"\left({text}\right)^{{{exp}}}"


PRESENT = sp.IndexedBase("present")
"""Data like the token fields: 1 on the tokens that a sequence of random length has, 0 on the others
up to the longest.
"""


class TeacherAverage(SampleAverage):
    """E[body] over the data of a single-location model, the tokens numbered so that the relevant
    one is l = 1.

    ``tokens`` are vectors indexed by l; the first one is the teacher's key field chi*, whose law is
    that of ``rule`` ("spiked": N(sqrt(nu), 1) on the relevant token; "max": weight softmax(nu
    chi*)), the others and ``common`` are iid standard Gaussians. No law depends on an overlap, so
    derivatives pass under the average.
    """

    def __new__(
        cls, body: Any, index: sp.Symbol, count: Any, common: Any, tokens: Any, rule: Any, nu: Any
    ) -> Any:
        body = sp.sympify(body)
        if body.is_zero:
            return sp.S.Zero
        factor, rest = body.as_coeff_Mul()
        node = sp.Expr.__new__(
            cls,
            rest,
            index,
            sp.sympify(count),
            sp.Tuple(*common),
            sp.Tuple(*tokens),
            Str(str(rule)),
            sp.sympify(nu),
        )
        return node if factor == 1 else factor * node

    @property
    def free_symbols(self) -> set[sp.Basic]:
        return (super().free_symbols | self.parameters[4].free_symbols) - PRESENT.free_symbols

    def _eval_derivative(self, t: sp.Symbol) -> Any:
        if t in self.parameters[4].free_symbols:
            raise TypeError(
                f"the law of the data depends on {t}: an average over it is not differentiated with"
                f" respect to {t}"
            )
        return super()._eval_derivative(t)

    def _sympystr(self, printer: Any) -> str:
        return f"E_data[{printer._print(self.body)}]"

    def _latex(self, printer: Any, exp: Any = None) -> str:
        text = rf"\mathbb E_{{\mathrm{{data}}}}\left[{printer._print(self.body)}\right]"
        return text if exp is None else rf"\left({text}\right)^{{{exp}}}"


class NotEliminable(ValueError):
    """The loss is not (1/2)(y - sum_l s_l(chi) z_l)^2."""


def linear_predictor(envelope: MoreauEnvelope) -> tuple[sp.Expr, sp.Expr]:
    """Read y and s_l(chi) off a loss (1/2)(y - sum_l s_l(chi) z_l)^2, z the second field: z can
    then be eliminated exactly.
    """
    z = envelope.fields[1][0][envelope.index]
    half, square = envelope.loss.as_coeff_Mul()
    base, power = square.as_base_exp()
    sums = [a for a in sp.Add.make_args(base) if a.has(z)]
    if half != sp.S.Half or power != 2 or len(sums) != 1 or not isinstance(-sums[0], sp.Sum):
        raise NotEliminable(f"{envelope.loss} is not (1/2)(y - sum_l s_l z_l)^2")
    weight = (
        sp.cancel((-sums[0]).function / z)
        if not (-sums[0]).function.is_Mul
        else (-sums[0]).function / z
    )
    if weight.has(z):
        raise NotEliminable(f"{envelope.loss} is not linear in {z}")
    return base - sums[0], weight


def token_function(envelope: MoreauEnvelope, weight: sp.Expr) -> tuple[str, sp.Expr] | None:
    """phi, an expression in one token's chi, and how s_l is made of it; None where it is not.

    "none": s_l = phi_l; "sum": phi_l/sum phi; "softmax": exp(phi_l)/sum exp(phi).
    """
    index = envelope.index
    found = ("none", weight)
    (whole, *more) = [*weight.atoms(sp.Sum), *weight.atoms(LogSumExp)] or [None]
    if isinstance(whole, sp.Sum):
        found = ("sum", whole.function.subs(whole.limits[0][0], index))
        plain, total = found[1], sp.S.One
    elif isinstance(whole, LogSumExp):
        found = ("softmax", whole.args[0].subs(whole.args[1], index))
        plain, total = sp.exp(found[1]), sp.S.Zero
    if whole is not None and (more or weight.xreplace({whole: total}) != plain):
        return None
    allowed = {envelope.fields[0][0][index], PRESENT[index]}
    return found if found[1].atoms(sp.Indexed) <= allowed else None
