r"""Averages over exchangeable tokens, exactly and at a cost that does not grow with L.

Tokens l >= 2 are iid given the common fields y, token 1 is planted. With F_a(s, y) = E[exp(-e^s
phi_a) | y] for the planted (a = 1) and any other (a = 0) token, and S = sum_l phi_l, phi = e^g:

    E log S        =  int ds { exp(-e^s) - E_y[ F_1 F_0^{L-1} ] }
    E[h_1 / S^n]   =  int ds e^{n s}/Gamma(n) E_y{ E[h_1 e^{-e^s phi_1}] F_0^{L-1} }
    E[sum_l h_l / S^n]  adds  (L-1) e^{n s}/Gamma(n) E_y{ F_1 E[h_0 e^{-e^s phi_0}] F_0^{L-2} }

Tokens of several classes, phi carrying their probability p: F_0^{L-1} becomes prod_c F_{0,c}^{n_c},
less the planted token, and the class of the planted token is summed with its probability n_c p_c.
The cost grows with the number of classes, not of tokens.

``laplace`` applies these rules; ``mellin`` then does the token averages of a g quadratic in
Gaussian fields in closed form, through  exp(p u - e^u) = [p = 0] + (1/2 pi i) int dz Gamma(z) (z)_p
e^{-z u} on -1 < Re z < 0; ``sampled`` is the second, independent route: explicit tokens for
quasi-Monte Carlo.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sympy as sp

from .averages import LOG_PRIOR, Average, LineIntegral, MellinIntegral, SampleAverage, TokenAverage
from .gaussian import close
from .special_functions import LogSumExp, UnitPower

LOG_TIME = sp.Symbol("s", real=True)
MELLIN = sp.Symbol("z_M")
CONTOUR = sp.Rational(-1, 4)


@dataclass(frozen=True)
class LogTime:
    """Where the integrals in s = log t live.

    Attributes
    ----------
    largest : expression
        log S (S = sum of the exponentials of all tokens) exceeded with probability below 1e-14.
    upper : expression
        s beyond which E[e^{-e^s S}] is below 1e-14: minus the smallest log S met, and 4 more.
    """

    largest: Any
    upper: Any

    @property
    def lower(self) -> sp.Expr:
        """1 - E[e^{-e^s S}] < 1e-14 below it."""
        return -32 - sp.sympify(self.largest)

    @property
    def period(self) -> sp.Expr:
        """Period in s of a Mellin integral made a sum of steps 2 pi/period in Im z.

        Its images are e^{-period/4} and, from the left, e^{period/4} (1 - F(s - period)): both
        below 1e-12 (112 = 4 * 28) over lower..upper.
        """
        return sp.Max(112, sp.Rational(4, 3) * (sp.sympify(self.upper) - self.lower))

    @property
    def nodes(self) -> dict[str, sp.Expr]:
        """Sizes of the rules: trapezoid steps of 0.4 in s (error e^{-pi^2/0.4}) and of 2 pi/period
        up to Im z = 20.
        """
        return {
            "line": (sp.sympify(self.upper) - self.lower) / sp.Rational(2, 5),
            "mellin": 10 * self.period / sp.pi,
        }


class NotExchangeable(ValueError):
    """The body of a token average has no form that the Laplace rule knows."""


def laplace(expr: sp.Expr, window: LogTime) -> sp.Expr:
    """Rewrite each ``TokenAverage`` in ``expr`` as nested averages.

    Parameters
    ----------
    expr : expression
    window : LogTime
        Range of s = log t that matters.
    """
    return expr.replace(lambda e: isinstance(e, TokenAverage), lambda node: _laplace(node, window))


def _laplace(node: TokenAverage, window: LogTime) -> sp.Expr:
    index = node.variable
    common, planted, others = node.parameters[1:4]

    def token(h: sp.Expr, law: sp.Tuple, p: sp.Expr) -> sp.Expr:
        fields = {sp.Indexed(f, index): _field(f) for f, *_ in law}
        body = h.xreplace(fields).xreplace({LOG_PRIOR[index]: sp.log(p)})
        if body.has(sp.Indexed) or index in body.free_symbols:
            raise NotExchangeable(f"{h} depends on more than the fields of one token")
        for f, mean, variance, *focus in law:
            body = Average(body, _field(f), mean, variance, *focus)
        return body

    def over_common(body: sp.Expr) -> sp.Expr:
        for y, mean, variance in common:
            body = Average(body, y, mean, variance)
        return body

    def mixed(body: Callable[[int], sp.Expr]) -> sp.Expr:
        """The mean of ``body`` over the class of the planted token."""
        return sp.Add(*(n * p * over_common(body(c)) for c, (n, p) in enumerate(node.classes)))

    def survive(phi: sp.Expr, law: sp.Tuple) -> list[sp.Expr]:
        return [token(damped(phi), law, p) for _, p in node.classes]

    if isinstance(node.body, LogSumExp):
        _same_range(node, node.body.args[1:])
        first, rest = (survive(sp.exp(node.body.args[0]), law) for law in (planted, others))
        body = sp.exp(-sp.exp(LOG_TIME)) - mixed(lambda c: first[c] * _all_but(node, rest, c))
        return LineIntegral(body, LOG_TIME, window.lower, window.upper)

    for total in node.body.atoms(sp.Sum):
        _same_range(
            node, *((i, high) if low == 1 else (i, high, low) for i, low, high in total.limits)
        )
    marked, summed, phi, n = _ratio(node.body, index)
    first, rest = (survive(phi, law) for law in (planted, others))
    seen = [token(damped(phi, marked + summed, n), planted, p) for _, p in node.classes]
    other = (
        [token(damped(phi, summed, n), others, p) for _, p in node.classes] if summed != 0 else []
    )

    def weighed(c: int) -> sp.Expr:
        shares = (
            (size - int(c == d)) * first[c] * other[d] * _all_but(node, rest, c, d)
            for d, (size, _) in enumerate(node.classes[: len(other)])
        )
        return sp.Add(seen[c] * _all_but(node, rest, c), *shares)

    return LineIntegral(mixed(weighed) / sp.gamma(n), LOG_TIME, window.lower, window.upper)


def _all_but(node: TokenAverage, survive: list[sp.Expr], *taken: int) -> sp.Expr:
    """prod_c F_c^{n_c} without one token of each class in ``taken``."""
    left = [
        (f, n - taken.count(c))
        for c, (f, (n, _)) in enumerate(zip(survive, node.classes, strict=True))
    ]
    return sp.Mul(*(UnitPower(f, n) for f, n in left if n != 0))


def _same_range(node: TokenAverage, *limits: tuple[sp.Basic, ...]) -> None:
    """Refuse a sum that does not run over all tokens 1..L."""
    if len(limits) != 1 or tuple(limits[0]) != (node.variable, node.parameters[0]):
        raise NotExchangeable(
            f"a sum in {node.body} does not run over {node.variable} = 1..{node.parameters[0]}"
        )


def damped(phi: sp.Expr, h: sp.Expr = sp.S.One, n: int = 0) -> sp.Expr:
    """e^{n s} h exp(-e^s phi), with the exponents of exponential h and phi joined (nothing
    overflows).
    """
    damping = sp.exp(LOG_TIME + phi.args[0]) if isinstance(phi, sp.exp) else sp.exp(LOG_TIME) * phi
    if isinstance(h, sp.exp):
        return sp.exp(n * LOG_TIME + h.args[0] - damping)
    return h * sp.exp(n * LOG_TIME - damping)


def _field(base: sp.IndexedBase) -> sp.Symbol:
    return sp.Symbol(str(base), real=True)


def _ratio(body: sp.Expr, index: sp.Symbol) -> tuple[sp.Expr, sp.Expr, sp.Expr, int]:
    """Split h_1/S^n and (sum_l h_l)/S^n into (h of the planted token, summed h, phi, n)."""
    numerator, denominator = [], []
    for factor in sp.Mul.make_args(body):
        base, power = factor.as_base_exp()
        if isinstance(base, sp.Sum) and power.is_negative:
            denominator.append((base, -power))
        else:
            numerator.append(factor)
    if len(denominator) != 1 or not denominator[0][1].is_Integer:
        raise NotExchangeable(f"no Laplace rule for the token average of {body}")
    phi, n = denominator[0][0].function, int(denominator[0][1])
    sums = [f for f in numerator if isinstance(f, sp.Sum)]
    rest = sp.Mul(*(f for f in numerator if not isinstance(f, sp.Sum)))
    free = rest.replace(
        lambda e: isinstance(e, sp.Indexed) and e.indices == (1,), lambda e: sp.S.One
    )
    if (
        len(sums) > 1
        or rest.has(sp.Sum, LogSumExp)
        or free.has(sp.Indexed)
        or (sums and rest.has(sp.Indexed))
    ):
        raise NotExchangeable(f"no Laplace rule for the token average of {body}")
    if sums:
        return sp.S.Zero, rest * sums[0].function, phi, n
    return (
        rest.replace(
            lambda e: isinstance(e, sp.Indexed) and e.indices == (1,), lambda e: e.base[index]
        ),
        sp.S.Zero,
        phi,
        n,
    )


def mellin(expr: sp.Expr, window: LogTime) -> sp.Expr:
    """Do the token averages of exp(p u - e^u), u = s + g, in closed form where g is quadratic in
    the fields.
    """

    def rule(tower: Average) -> sp.Expr:
        fields, body = [], tower
        while isinstance(body, Average):
            fields.append(body)
            body = body.body
        matched = _double_exponential(body)
        if matched is None:
            return tower
        u, p, factor = matched
        closed = factor * sp.exp(-MELLIN * u)
        for field in reversed(fields):
            closed = field.with_body(closed)
        closed = close(closed)
        if closed.has(Average):
            return tower
        transform = MellinIntegral(sp.rf(MELLIN, p) * closed, MELLIN, CONTOUR, window.period)
        return transform if p else factor + transform

    def top_down(node: sp.Basic) -> sp.Basic:
        replaced = rule(node) if isinstance(node, Average) else node
        if replaced is not node or not node.args:
            return replaced
        return node.func(*(top_down(a) for a in node.args))

    return top_down(expr)  # type: ignore[return-value]


def _double_exponential(body: sp.Expr) -> tuple[sp.Expr, int, sp.Expr] | None:
    """Match factor * exp(p u - exp(u)), p = 0, 1, 2, ..., with a factor free of the fields in u
    (SymPy writes e^{log c + x} as c e^x).
    """
    factor, exponent = sp.S.One, body
    for part in sp.Mul.make_args(body):
        if isinstance(part, sp.exp) and part.args[0].has(sp.exp):
            exponent = part.args[0]
        else:
            factor *= part
    towers = [
        t
        for t in sp.Add.make_args(exponent)
        if isinstance((-t).as_coeff_Mul()[1], sp.exp) and (-t).as_coeff_Mul()[0] > 0
    ]
    if exponent is body or len(towers) != 1:
        return None
    coefficient, tower = (-towers[0]).as_coeff_Mul()
    u = tower.args[0] + sp.log(coefficient)
    rest = sp.expand(exponent - towers[0])
    for p in range(4):
        remainder = sp.expand(rest - p * u)
        if not remainder.free_symbols & u.free_symbols and not factor.free_symbols & u.free_symbols:
            return u, p, factor * sp.exp(remainder)
    return None


def sampled(expr: sp.Expr) -> sp.Expr:
    """Rewrite each ``TokenAverage`` with explicit tokens: fields = mean + sqrt(variance) * standard
    Gaussians.
    """
    return expr.replace(lambda e: isinstance(e, TokenAverage), _sampled)


def _sampled(node: TokenAverage) -> sp.Expr:
    return sp.Add(*(n * p * _explicit(node, c) for c, (n, p) in enumerate(node.classes)))


def _explicit(node: TokenAverage, planted_class: int) -> sp.Expr:
    """The tokens one by one, the planted one, of its class, first."""
    index, count = node.variable, node.parameters[0]
    common, planted, others = node.parameters[1:4]
    shared: dict[Any, sp.Expr] = {}
    for y, mean, variance in common:
        shared[y] = mean + sp.sqrt(variance) * sp.Symbol(f"xi_{y}", real=True)
    first = sp.KroneckerDelta(index, 1)
    fields: dict[Any, sp.Expr] = {}
    bases = []
    for (f, m1, v1, *_), (_, m0, v0, *_) in zip(planted, others, strict=True):
        noise = sp.IndexedBase(f"xi_{f}")
        bases.append(noise)
        mean, deviation = (
            (a * first + b * (1 - first)).xreplace(shared)
            for a, b in ((m1, m0), (sp.sqrt(v1), sp.sqrt(v0)))
        )
        for at in (index, sp.Integer(1)):
            fields[sp.Indexed(f, at)] = (mean + deviation * noise[index]).subs(index, at)
    own = sp.log(node.classes[planted_class][1])
    fields |= {LOG_PRIOR[1]: own, LOG_PRIOR[index]: _by_place(node, planted_class, own)}
    body = node.body.xreplace(fields).xreplace(shared)
    return SampleAverage(
        body, index, count, [sp.Symbol(f"xi_{y}", real=True) for y, _, _ in common], bases
    )


def _by_place(node: TokenAverage, planted_class: int, own: sp.Expr) -> sp.Expr:
    """log p of the token at a place: the planted one, then the others class by class, as steps
    (SymPy would fold a Piecewise through the sum).
    """
    value, before, end = own, own, sp.S.One
    for c, (n, p) in enumerate(node.classes):
        value += (sp.log(p) - before) * sp.Heaviside(node.variable - end - sp.S.Half)
        before, end = sp.log(p), end + n - int(c == planted_class)
    return value
