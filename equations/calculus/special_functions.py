r"""Functions whose derivatives are given in the form that does not overflow.

The raw derivative of a log-partition function, such as sinh(x)/cosh(x) or phi(x)/Phi(x), is inf/inf
in the tails. Each class here states its derivative through another class of this file, so what
``derive`` emits is stable at every order, and ``replica.lower`` has one row for each.
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from .averages import bound_subs


class _Stable(sp.Function):
    def _eval_is_real(self) -> bool:
        return True


class LogNdtr(_Stable):
    r"""log Phi(x), Phi the normal distribution function."""

    def fdiff(self, argindex: int = 1) -> Any:
        return InverseMills(self.args[0])


class InverseMills(_Stable):
    r"""m(x) = phi(x)/Phi(x); m' = v - 1."""

    def fdiff(self, argindex: int = 1) -> Any:
        return TruncatedVariance(self.args[0]) - 1


class MillsGap(_Stable):
    r"""g(x) = x + phi(x)/Phi(x); -> 1/|x| as x -> -oo; g' = v."""

    def fdiff(self, argindex: int = 1) -> Any:
        return TruncatedVariance(self.args[0])


class TruncatedVariance(_Stable):
    r"""v(x) = 1 - m(x) g(x), the variance of a Gaussian truncated at x; v' = m (g^2 - v)."""

    def fdiff(self, argindex: int = 1) -> Any:
        x = self.args[0]
        return InverseMills(x) * (MillsGap(x) ** 2 - TruncatedVariance(x))


class Softplus(_Stable):
    r"""log(1 + e^x); derivative the logistic function."""

    def fdiff(self, argindex: int = 1) -> Any:
        return Logistic(self.args[0])


class Logistic(_Stable):
    r"""1/(1 + e^-x)."""

    def fdiff(self, argindex: int = 1) -> Any:
        return Logistic(self.args[0]) * Logistic(-self.args[0])


class LogAdd(_Stable):
    r"""log(e^a + e^b), by the larger of the two: a + softplus(b - a) loses all digits where b
    exceeds a by far.
    """

    def fdiff(self, argindex: int = 1) -> Any:
        this, other = self.args if argindex == 1 else reversed(self.args)
        return Logistic(this - other)


class LogCosh(_Stable):
    r"""log cosh x; derivative tanh x."""

    def fdiff(self, argindex: int = 1) -> Any:
        return sp.tanh(self.args[0])


class UnitPower(_Stable):
    r"""F^n for 0 <= F <= 1, in the log domain.

    Evaluated as exp(n log max(F, 1e-16)): F is a probability known to about 1e-16, which may come
    out as -1e-17 where it vanishes, and a real power of that would be NaN.
    """

    def fdiff(self, argindex: int = 1) -> Any:
        base, n = self.args
        if argindex == 1:
            return n * UnitPower(base, n - 1)
        return sp.log(base) * UnitPower(base, n)

    def _latex(self, printer: Any, exp: Any = None) -> str:
        base, n = (printer._print(a) for a in self.args)
        return rf"\left({base}\right)^{{{n}}}"


class Width(_Stable):
    r"""The variance V >= 0 of what is unknown, where it divides; evaluated as max(V, 1e-30).

    At V = 0 (perfect recovery) the conjugate field is infinite. At 1e-30 it is 1e15, and what it
    implies for the overlaps, e^{-1e15}, is zero as well: the limit V -> 0 can be evaluated.
    """

    def fdiff(self, argindex: int = 1) -> Any:
        return sp.S.One

    def _eval_is_positive(self) -> bool:
        return True

    def _latex(self, printer: Any, exp: Any = None) -> str:
        inner = printer._print(self.args[0])
        return inner if exp is None else rf"{inner}^{{{exp}}}"


class Rounded(_Stable):
    r"""A number that is >= 0 but for rounding: negative values down to -1e-9 are evaluated as 0,
    below as NaN.
    """

    def fdiff(self, argindex: int = 1) -> Any:
        return sp.S.One

    def _eval_is_nonnegative(self) -> bool:
        return True

    def _sympystr(self, printer: Any) -> str:
        inner = printer._print(self.args[0])
        return inner if self.args[0].is_Atom else f"({inner})"

    def _latex(self, printer: Any, exp: Any = None) -> str:
        inner = printer._print(self.args[0])
        return inner if exp is None else rf"\left({inner}\right)^{{{exp}}}"


class LogInterval(_Stable):
    r"""log(Phi(b) - Phi(a)) for a < b."""

    def fdiff(self, argindex: int = 1) -> Any:
        a, b = self.args
        return -IntervalDensity(a, b) if argindex == 1 else IntervalDensity(-b, -a)


class IntervalDensity(_Stable):
    r"""phi(a)/(Phi(b) - Phi(a)) for a < b; that of b is IntervalDensity(-b, -a)."""

    def fdiff(self, argindex: int = 1) -> Any:
        a, b = self.args
        return self * (self - a) if argindex == 1 else -self * IntervalDensity(-b, -a)


class LogSumExp(sp.Expr):
    r"""log sum_{l=1}^{L} exp(g_l), an indexed sum; its derivative is the softmax average of g'."""

    def __new__(cls, body: Any, index: sp.Symbol, count: Any) -> Any:
        return sp.Expr.__new__(cls, sp.sympify(body), index, sp.sympify(count))

    @property
    def bound_symbols(self) -> list[Any]:
        return [self.args[1]]

    @property
    def free_symbols(self) -> set[sp.Basic]:
        return (self.args[0].free_symbols - {self.args[1]}) | self.args[2].free_symbols

    def _eval_subs(self, old: sp.Basic, new: sp.Basic) -> Any:
        return bound_subs(self, old, new)

    def _eval_derivative(self, t: sp.Symbol) -> Any:
        body, index, count = self.args
        if t in count.free_symbols:
            raise TypeError(
                f"{self} cannot be differentiated with respect to {t}: it is the number of terms"
            )
        slope = body.diff(t)
        return sp.Sum(sp.exp(body - self) * slope, (index, 1, count)) if slope != 0 else sp.S.Zero

    def _eval_is_real(self) -> bool:
        return True

    def _latex(self, printer: Any, exp: Any = None) -> str:
        body, index, count = (printer._print(a) for a in self.args)
        return rf"\log\sum_{{{index}=1}}^{{{count}}}\exp\left({body}\right)"

    def _sympystr(self, printer: Any) -> str:
        body, index, count = map(printer._print, self.args)
        return f"log sum_{{{index}=1..{count}}} exp({body})"


PLAIN = {
    LogNdtr: lambda x: sp.log(sp.erfc(-x / sp.sqrt(2)) / 2),
    Softplus: lambda x: sp.log(1 + sp.exp(x)),
    Logistic: lambda x: 1 / (1 + sp.exp(-x)),
    LogAdd: lambda a, b: sp.log(sp.exp(a) + sp.exp(b)),
    LogCosh: lambda x: sp.log(sp.cosh(x)),
}


def plain(expr: sp.Expr) -> sp.Expr:
    """The functions of this file as SymPy's own, which it can evaluate as numbers (and which
    overflow).
    """
    for stable, written in PLAIN.items():
        expr = expr.replace(stable, written)  # type: ignore[assignment]
    return expr


def stabilise(expr: sp.Expr) -> sp.Expr:
    """Write the logarithms that overflow as the functions of this file.

    log(erfc x), log(1 + erf x), log(1 + e^x), log(cosh x) and log(sum_l e^{g_l}) are recognised,
    also to a power and with factors in front. Do this before differentiating: the raw derivative of
    log f is f'/f, and both may be inf.

    Parameters
    ----------
    expr : expression
        As one writes it.

    Returns
    -------
    expression
        Equal to ``expr``, of functions that have stable derivatives and a row in the table of
        ``replica.lower``.
    """
    return expr.replace(lambda e: isinstance(e, sp.log), _stable_log)


def _stable_log(node: sp.Expr) -> sp.Expr:
    """log(c f) = log c + log f for every positive factor f that is recognised, whatever c."""
    total, rest = sp.S.Zero, sp.S.One
    for factor in sp.Mul.make_args(node.args[0]):
        base, power = factor.as_base_exp() if not isinstance(factor, sp.exp) else (factor, sp.S.One)
        content, base = base.primitive() if isinstance(base, sp.Add) else (sp.S.One, base)
        known = _log_of(base) if power.is_real else None
        if known is None:
            rest *= factor
        else:
            total += power * (known + sp.log(content))
    return node if total == 0 else total + sp.log(rest)


def _log_of(positive: sp.Expr) -> sp.Expr | None:
    """The logarithm of one recognised function, or None."""
    if isinstance(positive, sp.erfc):
        return sp.log(2) + LogNdtr(-sp.sqrt(2) * positive.args[0])
    if isinstance(positive, sp.cosh):
        return LogCosh(positive.args[0])
    if (
        isinstance(positive, sp.Sum)
        and isinstance(positive.function, sp.exp)
        and len(positive.limits) == 1
    ):
        index, low, high = positive.limits[0]
        return LogSumExp(positive.function.args[0], index, high) if low == 1 else None
    if isinstance(positive, sp.Add) and len(positive.args) == 2 and sp.S.One in positive.args:
        factor, other = next(a for a in positive.args if a != 1).as_coeff_Mul()
        if isinstance(other, sp.exp) and factor.is_positive:
            return Softplus(other.args[0] + sp.log(factor))
        if isinstance(other, sp.erf) and abs(factor) == 1:
            return sp.log(2) + LogNdtr(sp.sqrt(2) * factor * other.args[0])
    if isinstance(positive, sp.Add) and isinstance(
        2 - positive, sp.erfc
    ):  # what SymPy makes of erfc(-z)
        return sp.log(2) + LogNdtr(sp.sqrt(2) * (2 - positive).args[0])
    return None
