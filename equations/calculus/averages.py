"""Unevaluated averages and integrals: expressions with one bound variable.

    Average(f, x, m, v)        =  E[f(x)],  x ~ N(m, v)
    LineIntegral(f, s, lo, hi) =  int_{-oo}^{oo} ds f(s)          (negligible outside lo..hi)
    MellinIntegral(f, z, c, P) =  (1/2 pi i) int_{c-i oo}^{c+i oo} dz Gamma(z) f(z)
    TokenAverage(f, l, L, ...) =  E[f] over a sequence of L tokens, one of them planted

Derivatives pass under the integral. A Gaussian law with parameters is differentiated by Price's
theorem (Gaussian integration by parts), which has no 1/sqrt(v) and is therefore valid at v = 0:

    d/dt E_{N(m,v)}[f] = E[df/dt] + m' E[df/dx] + (v'/2) E[d2f/dx2]
"""

from __future__ import annotations

from typing import Any

import sympy as sp


def bound_subs(node: Any, old: sp.Basic, new: sp.Basic) -> Any:
    """``subs`` for ``func(body, variable, *parameters)``: x in E_x[f(x)] is neither replaced nor
    captured.
    """
    body, variable, *parameters = node.args
    if variable in old.free_symbols:
        return node.func(body, variable, *(p.subs(old, new) for p in parameters))
    if variable in new.free_symbols and old in body.free_symbols:
        fresh = sp.Symbol(f"{variable.name}_", **variable.assumptions0)
        while fresh in body.free_symbols | new.free_symbols:
            fresh = sp.Symbol(f"{fresh.name}_", **variable.assumptions0)
        return node.func(
            body.subs(variable, fresh).subs(old, new),
            fresh,
            *(p.subs(old, new) for p in parameters),
        )
    return None


class Bound(sp.Expr):
    """An expression ``(body, variable, *parameters)`` in which ``variable`` is bound."""

    def __new__(cls, body: Any, variable: sp.Symbol, *parameters: Any) -> Any:
        body = sp.sympify(body)
        if body.is_zero:
            return sp.S.Zero
        return sp.Expr.__new__(cls, body, variable, *(sp.sympify(p) for p in parameters))

    @property
    def body(self) -> sp.Expr:
        return self.args[0]  # type: ignore[return-value]

    @property
    def variable(self) -> sp.Symbol:
        return self.args[1]  # type: ignore[return-value]

    @property
    def parameters(self) -> tuple[sp.Expr, ...]:
        return self.args[2:]  # type: ignore[return-value]

    @property
    def bound_symbols(self) -> list[sp.Symbol]:
        return [self.variable]

    @property
    def free_symbols(self) -> set[sp.Basic]:
        outside = set().union(*(p.free_symbols for p in self.parameters))
        return (self.body.free_symbols - {self.variable}) | outside

    def _eval_subs(self, old: sp.Basic, new: sp.Basic) -> Any:
        return bound_subs(self, old, new)

    def breakpoints(self) -> list[sp.Expr]:
        """What vanishes where the integral jumps or bends, as a function of its parameters."""
        return []

    def with_body(self, body: Any) -> Any:
        """The same integral of another body."""
        return self.func(body, self.variable, *self.parameters)

    def _eval_derivative(self, t: sp.Symbol) -> Any:
        return self.with_body(self.body.diff(t)) if t != self.variable else sp.S.Zero

    def _eval_is_real(self) -> bool:
        return True

    def _eval_is_commutative(self) -> bool:
        return True


class Average(Bound):
    r"""E[body] over ``variable`` ~ N(mean, variance).

    Optional pairs (centre, width) name narrow features of the body that quadrature should
    resolve; they do not change the value. A DiracDelta of an argument linear in the variable is
    integrated exactly on construction.
    """

    def __new__(
        cls, body: Any, variable: sp.Symbol, mean: Any = 0, variance: Any = 1, *focus: Any
    ) -> Any:
        body, mean, variance = sp.sympify(body), sp.sympify(mean), sp.sympify(variance)
        if variable not in body.free_symbols:
            return body
        if variance.is_zero:
            return body.subs(variable, mean)
        if body.has(sp.DiracDelta):
            return _sift(body, variable, mean, variance, focus)
        return super().__new__(cls, body, variable, mean, variance, *focus)

    @property
    def mean(self) -> sp.Expr:
        return self.parameters[0]

    @property
    def variance(self) -> sp.Expr:
        return self.parameters[1]

    @property
    def localised(self) -> tuple[sp.Expr, ...]:
        return self.parameters[2:]

    def _eval_derivative(self, t: sp.Symbol) -> Any:
        if t == self.variable:
            return sp.S.Zero
        slope, curvature = self.mean.diff(t), self.variance.diff(t) / 2
        total = self.with_body(self.body.diff(t))
        if slope != 0:
            total += slope * self.with_body(self.body.diff(self.variable))
        if curvature != 0:
            total += curvature * self.with_body(self.body.diff(self.variable, 2))
        return total

    def standardised(self) -> Any:
        """The same average over a standard variable: x = m + sqrt(v) g. Its derivatives carry
        1/sqrt(v).
        """
        shifted = self.mean + sp.sqrt(self.variance) * self.variable
        return Average(self.body.xreplace({self.variable: shifted}), self.variable, 0, 1)

    def _latex(self, printer: Any, exp: Any = None) -> str:
        law = (
            rf"{printer._print(self.variable)}\sim\mathcal"
            rf" N({printer._print(self.mean)},{printer._print(self.variance)})"
        )
        return latex_power(rf"\mathbb E_{{{law}}}\left[{printer._print(self.body)}\right]", exp)

    def _sympystr(self, printer: Any) -> str:
        law = ", ".join(map(printer._print, (self.mean, self.variance)))
        return f"E[{printer._print(self.body)}; {self.variable} ~ N({law})]"


def _sift(
    body: sp.Expr, x: sp.Symbol, mean: sp.Expr, variance: sp.Expr, focus: tuple[Any, ...]
) -> sp.Expr:
    """E[h(x) delta(a x + b)] = h(x0) N(x0; m, v)/|a| at x0 = -b/a, term by term.

    Derivatives of the delta are integrated by parts: E[h delta'(a x + b)] = -E[(h' - h (x - m)/v)
    delta(a x + b)]/a.
    """
    total = sp.S.Zero
    for term in sp.Add.make_args(sp.expand_mul(body)):
        deltas = [f for f in sp.Mul.make_args(term) if isinstance(f, sp.DiracDelta)]
        if not term.has(sp.DiracDelta):
            total += Average(term, x, mean, variance, *focus)
            continue
        slope = deltas[0].args[0].diff(x) if len(deltas) == 1 else sp.S.Zero
        if len(deltas) != 1 or slope == 0 or slope.has(x):
            raise ValueError(
                f"cannot integrate {term} over {x}: integrate the delta by parts first"
            )
        h = term / deltas[0]
        if len(deltas[0].args) > 1:
            lower = deltas[0].func(deltas[0].args[0], deltas[0].args[1] - 1)
            total -= Average(
                (h.diff(x) - h * (x - mean) / variance) * lower / slope, x, mean, variance, *focus
            )
            continue
        root = x - deltas[0].args[0] / slope
        root = sp.expand(root)
        density = sp.exp(-((root - mean) ** 2) / (2 * variance)) / sp.sqrt(2 * sp.pi * variance)
        total += h.subs(x, root) * density / sp.Abs(slope)
    return total


def by_parts(expr: sp.Expr) -> sp.Expr:
    """Gaussian integration by parts: E[(x - m) f(x)] -> v E[f'(x)] in every average that has this
    form.

    Parameters
    ----------
    expr : expression
        With averages of this form anywhere.

    Returns
    -------
    expression
        Equal to ``expr``.
    """

    def rule(average: Average) -> sp.Expr:
        x, deviation = average.variable, average.variable - average.mean
        quotient, remainder = (
            sp.div(sp.expand(average.body), deviation, x)
            if average.body.is_polynomial(x)
            else (None, 1)
        )
        if remainder != 0:
            quotient = sp.cancel(average.body / deviation)
            if sp.simplify(quotient * deviation - average.body) != 0 or quotient.subs(
                x, average.mean
            ).has(sp.zoo, sp.nan):
                return average
        return average.variance * average.with_body(sp.diff(quotient, x))

    return expr.replace(lambda e: isinstance(e, Average), rule)


class LineIntegral(Bound):
    """Integral of ``body`` over the real line; it is below 1e-13 outside ``lower``..``upper``, and
    smooth there unless pairs (centre, width) follow, as in ``Average``.
    """

    def _latex(self, printer: Any, exp: Any = None) -> str:
        inner = printer._print(self.body)
        return latex_power(
            rf"\int_{{-\infty}}^{{\infty}}\!d{printer._print(self.variable)}\left[{inner}\right]",
            exp,
        )

    def _sympystr(self, printer: Any) -> str:
        return f"int d{self.variable} [{printer._print(self.body)}]"


class MellinIntegral(Bound):
    """(1/2 pi i) int dz Gamma(z) body(z) along Re z = ``contour``; body(conj z) = conj body(z).

    ``period`` is the range of log-scales that the trapezoid in Im z must keep apart.
    """

    def _latex(self, printer: Any, exp: Any = None) -> str:
        z, c = printer._print(self.variable), printer._print(self.parameters[0])
        limits = rf"\int_{{{c}-i\infty}}^{{{c}+i\infty}}"
        return latex_power(
            rf"\frac1{{2\pi i}}{limits}\!d{z}\,\Gamma({z})\left[{printer._print(self.body)}\right]",
            exp,
        )

    def _sympystr(self, printer: Any) -> str:
        return f"mellin d{self.variable} [{printer._print(self.body)}]"


LOG_PRIOR = sp.IndexedBase("log_p", real=True)
"""log p_l of the tokens of a ``TokenAverage``."""


class TokenAverage(Bound):
    """E[body] over the tokens l = 1..L of a sequence; token 1 is planted, the others are iid.

    Parameters
    ----------
    body : expression in ``omega[l]`` for the token fields and in the common fields
    index, count : l and L
    common, planted, others : tuples of (field, mean, variance)
        Gaussian laws: of the fields shared by all tokens (the label y), of the planted token and
        of any other token (both may depend on the common fields). Token fields are ``IndexedBase``.
        A pair (centre, width) may follow the variance, see ``Average``.
    classes : tuples of (number of tokens, probability p)
        The planted token is one of a class, each of its tokens with probability p, and
        ``LOG_PRIOR[l]`` in the body is log p of token l. Without classes all tokens are alike: one
        class of L tokens, p = 1/L.

    Notes
    -----
    It is not differentiated as it stands: rewrite it first, by ``exchangeable.laplace`` (exact) or
    ``exchangeable.sampled`` (explicit tokens).
    """

    def __new__(
        cls,
        body: Any,
        index: sp.Symbol,
        count: Any,
        common: Any,
        planted: Any,
        others: Any,
        classes: Any = (),
    ) -> Any:
        laws = [
            sp.Tuple(*(sp.Tuple(*law) for law in group))
            for group in (common, planted, others, classes)
        ]
        return sp.Expr.__new__(cls, sp.sympify(body), index, sp.sympify(count), *laws)

    @property
    def classes(self) -> tuple[tuple[sp.Expr, sp.Expr], ...]:
        """(number of tokens, probability of each)."""
        count = self.parameters[0]
        return tuple((n, p) for n, p in self.parameters[4]) or ((count, 1 / count),)  # type: ignore[misc]

    @property
    def free_symbols(self) -> set[sp.Basic]:
        common, planted, others, _ = self.parameters[1:]
        hidden: set[sp.Basic] = {
            self.variable,
            *(law[0] for law in common),
        } | LOG_PRIOR.free_symbols
        hidden |= {s for law in (*planted, *others) for s in (law[0], *law[0].free_symbols)}
        laws = set().union(
            *(
                p.free_symbols
                for group in (common, planted, others)
                for law in group
                for p in law[1:]
            )
        )
        return {
            s
            for s in (self.body.free_symbols | laws | self.parameters[0].free_symbols) - hidden
            if not isinstance(s, sp.Indexed)
        }

    def _eval_derivative(self, t: sp.Symbol) -> Any:
        if t not in self.free_symbols:
            return sp.S.Zero
        raise TypeError(
            "a TokenAverage is rewritten (exchangeable.laplace or .sampled) before it is"
            " differentiated"
        )

    def _latex(self, printer: Any, exp: Any = None) -> str:
        fields = ",".join(
            printer._print(law[0])
            for group in (self.parameters[1], self.parameters[3])
            for law in group
        )
        return latex_power(rf"\mathbb E_{{{fields}}}\left[{printer._print(self.body)}\right]", exp)

    def _sympystr(self, printer: Any) -> str:
        return f"E_tokens[{printer._print(self.body)}]"


class Numerical(sp.Expr):
    """A real number that is computed beside the symbols; what it depends on it is not
    differentiated with respect to.
    """

    def refusal(self, t: sp.Symbol) -> str:
        """Why there is no derivative in ``t``."""
        return f"d({self})/d{t} is not known in symbols"

    def _eval_derivative(self, t: sp.Symbol) -> Any:
        if t not in self.free_symbols:
            return sp.S.Zero
        raise TypeError(self.refusal(t))

    def _eval_is_real(self) -> bool:
        return True


class Below(sp.Function):
    """1 where y < x, else 0, of two variables that are averaged over N(0, 1): the step is
    integrated to the accuracy of a smooth function.
    """

    nargs = 2

    def _eval_is_real(self) -> bool:
        return True


class SampleAverage(Bound):
    """E[body] over iid standard Gaussians: scalars ``common`` and vectors ``tokens`` indexed by
    ``l`` = 1..L.
    """

    def __new__(cls, body: Any, index: sp.Symbol, count: Any, common: Any, tokens: Any) -> Any:
        body = sp.sympify(body)
        if body.is_zero:
            return sp.S.Zero
        return sp.Expr.__new__(
            cls, body, index, sp.sympify(count), sp.Tuple(*common), sp.Tuple(*tokens)
        )

    @property
    def free_symbols(self) -> set[sp.Basic]:
        hidden = {self.variable, *self.parameters[1]} | {
            s for base in self.parameters[2] for s in (base, *base.free_symbols)
        }
        return {
            s
            for s in (self.body.free_symbols | self.parameters[0].free_symbols) - hidden
            if not isinstance(s, sp.Indexed)
        }


def latex_power(text: str, exp: Any) -> str:
    """LaTeX of a node to a power, as printers ask for it."""
    return text if exp is None else rf"\left({text}\right)^{{{exp}}}"
