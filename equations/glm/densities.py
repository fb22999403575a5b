"""What a user writes as a SymPy density: a prior P(x) and a channel P(y|z), read into the pieces
that have closed forms.

A prior is a sum of weights times DiracDelta(x - a) and Gaussian densities; ``normal`` writes the
latter. A channel is one of

    expression in y and z         density of a continuous label
    {value: expression in z}      probabilities of the values of a discrete label
    Eq(y, f(z))                   a label without noise
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import sympy as sp

from ..calculus.discontinuities import all_breakpoints, vanishing
from ..calculus.special_functions import Logistic, plain
from ..model import ModelError

X, Y, Z = (sp.Symbol(name, real=True) for name in "xyz")
Channel = Any
"""An expression, a mapping or an Eq, as above."""


class Component(NamedTuple):
    """weight * N(mean, variance) of a mixture; variance 0 is a point mass."""

    weight: sp.Expr
    mean: sp.Expr
    variance: sp.Expr


def normal(x: Any, mean: Any = 0, variance: Any = 1) -> sp.Expr:
    """The Gaussian density of ``x``.

    Parameters
    ----------
    x, mean, variance : expression
        Its variable, its mean and its variance.

    Returns
    -------
    expression
        The density.
    """
    mean, variance = sp.sympify(mean), sp.sympify(variance)
    return sp.exp(-((x - mean) ** 2) / (2 * variance)) / sp.sqrt(2 * sp.pi * variance)


def own(expr: Any, *symbols: sp.Symbol) -> Any:
    """``expr`` with the user's x, y, z (whatever their assumptions) as ours."""
    names = {s.name: s for s in symbols}
    expr = sp.sympify(expr)
    return expr.xreplace({s: names[s.name] for s in expr.free_symbols if s.name in names})


def components(prior: Any) -> tuple[Component, ...]:
    """The components of a prior P(x), whose weights must add up to 1."""
    terms = sp.Add.make_args(sp.expand_mul(own(prior, X)))
    found: dict[tuple[sp.Expr, sp.Expr], sp.Expr] = {}
    for term in terms:
        weight, *law = _component(term)
        found[tuple(law)] = found.get(tuple(law), sp.S.Zero) + weight
    total = sp.simplify(sp.Add(*found.values()))
    if total != 1:
        raise ModelError(f"the prior {prior} has the total weight {total}: it must be 1")
    return tuple(Component(sp.simplify(weight), *law) for law, weight in found.items())


def _component(term: sp.Expr) -> Component:
    refused = ModelError(
        f"cannot read the term {term} of the prior: write weight*DiracDelta(x - a) or"
        " weight*normal(x, mean, variance)"
    )
    weight, rest = term.as_independent(X, as_Add=False)
    if isinstance(rest, sp.DiracDelta) and len(rest.args) == 1:
        slope = sp.diff(rest.args[0], X)
        if slope == 0 or slope.has(X):
            raise refused
        return Component(weight / sp.Abs(slope), sp.expand(X - rest.args[0] / slope), sp.S.Zero)
    exponent = sp.Add(*(f.args[0] for f in sp.Mul.make_args(rest) if isinstance(f, sp.exp)))
    if (
        sp.simplify(rest / sp.exp(exponent)) != 1
        or not exponent.is_polynomial(X)
        or sp.degree(exponent, X) != 2
    ):
        raise refused
    a, b, c = (sp.Poly(sp.expand(exponent), X).coeff_monomial(X**k) for k in (2, 1, 0))
    mean, variance = sp.simplify(-b / (2 * a)), sp.simplify(-1 / (2 * a))
    if variance.is_nonpositive:
        raise refused
    return Component(
        sp.simplify(weight * sp.sqrt(2 * sp.pi * variance) * sp.exp(c - b**2 / (4 * a))),
        mean,
        variance,
    )


def moments(prior: tuple[Component, ...]) -> tuple[sp.Expr, sp.Expr]:
    """E[x] and E[x^2]."""
    mean = sp.Add(*(c.weight * c.mean for c in prior))
    return sp.simplify(mean), sp.simplify(
        sp.Add(*(c.weight * (c.mean**2 + c.variance) for c in prior))
    )


# channels ---------------------------------------------------------------------------------------


class Piece(NamedTuple):
    """A constant value on an interval of z."""

    low: sp.Expr
    high: sp.Expr
    value: sp.Expr


def steps(f: sp.Expr) -> tuple[Piece, ...] | None:
    """The pieces of a function that is constant in z between its jumps; None if it is something
    else.
    """
    f = sp.sympify(f)
    if _varies(f):
        return None
    pieces: list[Piece] = []
    for low, high, point in intervals(f):
        value = sp.simplify(f.subs(Z, point).doit())
        if pieces and pieces[-1].value == value:  # no jump after all
            pieces[-1] = pieces[-1]._replace(high=high)
        else:
            pieces.append(Piece(low, high, value))
    return tuple(pieces)


def intervals(f: sp.Expr) -> list[tuple[sp.Expr, sp.Expr, sp.Expr]]:
    """Between the places where a function jumps or bends in z: both ends, and a point inside."""
    try:
        places = all_breakpoints(f, Z)
    except ValueError as problem:
        raise ModelError(str(problem)) from None
    ends = ordered(places, f)
    inside = [(a + b) / 2 for a, b in pairwise(ends)]
    points = [ends[0] - 1, *inside, ends[-1] + 1] if ends else [sp.S.Zero]
    return list(zip([-sp.oo, *ends], [*ends, sp.oo], points, strict=True))


def is_bent(node: sp.Basic) -> bool:
    """Whether a node jumps or bends in z."""
    condition = vanishing(node)
    return condition is not None and Z in condition.free_symbols


def mirrored(p: sp.Expr, other: sp.Expr) -> bool:
    """Whether p(-z) = other(z), as is the case for the two values of a sign."""
    pieces, others = steps(p), steps(other)
    if pieces is None or others is None:
        return pieces is others and sp.expand(p.subs(Z, -Z) - other) == 0
    return (
        tuple(Piece(-piece.high, -piece.low, piece.value) for piece in reversed(pieces)) == others
    )


def _varies(node: sp.Basic) -> bool:
    """Whether z occurs outside of what decides jumps."""
    return node == Z or (
        (vanishing(node) is None or isinstance(node, sp.Abs | sp.Max | sp.Min))
        and any(map(_varies, node.args))
    )


def ordered(jumps: tuple[sp.Expr, ...], f: sp.Expr) -> list[sp.Expr]:
    """Places of jumps or bends, sorted; symbols must leave no doubt."""
    result: list[sp.Expr] = []
    for jump in jumps:
        larger = [sp.simplify(jump - other).is_positive for other in result]
        if None in larger:
            names = ", ".join(map(str, jumps))
            mended = (
                "it changes with y, which cannot be averaged over"
                if any(Y in place.free_symbols for place in jumps)
                else "declare their controls positive (low=0, open_low=True)"
            )
            raise ModelError(f"cannot tell the order of the jumps {names} of {f}: {mended}")
        result.insert(sum(map(bool, larger)), jump)
    return result


def probabilities(channel: Channel) -> dict[sp.Expr, sp.Expr] | None:
    """P(y = value | z) of a discrete label, or None for a continuous one."""
    if isinstance(channel, sp.Eq):
        pieces = steps(_function(channel))
        if pieces is None:
            return None
        return {
            value: _indicator(pieces, value) for value in dict.fromkeys(p.value for p in pieces)
        }
    if not isinstance(channel, Mapping):
        return None
    table = {sp.sympify(value): own(p, Z) for value, p in channel.items()}
    if len(table) < 2:
        raise ModelError(
            "a discrete channel needs at least two values: write {value: probability, ...}"
        )
    for p in table.values():
        if Y in own(p, Y).free_symbols:
            raise ModelError(
                f"the probability {p} of a value must not contain y: the value is its key"
            )
    return _certain(table)


def _certain(table: dict[sp.Expr, sp.Expr]) -> dict[sp.Expr, sp.Expr]:
    """The table, if its probabilities add up to 1 (tried at a few z, with the controls at 1/2)."""
    total = sp.Add(*table.values())
    for z in PLACES:
        value = total.subs(Z, z)
        number = sp.N(plain(value).subs({s: sp.Rational(1, 2) for s in value.free_symbols}))
        if not number.is_number or abs(number - 1) > 1e-9:
            raise ModelError(
                f"the probabilities of the channel add up to {total}: at z = {z} that is"
                f" {sp.N(number, 4)}, not 1"
            )
    return {value: stable_logistic(p) for value, p in table.items()}


PLACES = sp.Rational(-7, 5), sp.Rational(-1, 7), sp.Rational(3, 11), sp.Rational(9, 4)
"""Values of z at which it is tried whether probabilities add up to one."""
MISSING = 1e-9
"""Probability that may be missing on average over z."""
GRID = tuple((k + 0.37) / 4 for k in range(-25, 25))
"""Where that is tried, in deviations of z."""
OFF = 1e-3
"""A total that is further from one is wrong; one may be cut off a little by ``support``."""
DIGITS = 4
"""To which a total is integrated."""


def require_certain(table: dict[sp.Expr, sp.Expr], second: sp.Expr) -> None:
    """Refuse probabilities that do not add up to one wherever z ~ N(0, ``second``) may be, with the
    controls at 1/2: a sum over counts that is broken off too early.
    """
    total = plain(sp.Add(*table.values()))
    half = {s: sp.Rational(1, 2) for s in total.free_symbols | second.free_symbols if s != Z}
    at, deviation = sp.lambdify(Z, total.subs(half), "mpmath"), sp.sqrt(second.subs(half))
    places = [float(deviation * g) for g in GRID]
    totals = [float(at(place)) for place in places]
    weights = [math.exp(-(g**2) / 2) / 4 / math.sqrt(2 * math.pi) for g in GRID]
    missing = [w * abs(1 - t) for w, t in zip(weights, totals, strict=True)]
    if not sum(missing) <= MISSING:
        worst = missing.index(max(missing))
        raise ModelError(
            f"the probabilities of the channel add up to {totals[worst]:.6g} at z ="
            f" {places[worst]:.3g}, not to 1 ({sum(missing):.1g} is missing on average): write more"
            " of its values"
        )


def require_total(density: sp.Expr, support: tuple[Any, Any] | None) -> None:
    """Refuse a density P(y|z) whose integral over y is not one, with the controls at 1/2 and at two
    values of z, of which each takes half a second.
    """
    controls = {s: sp.Rational(1, 2) for s in density.free_symbols - {Y, Z}}
    low, high = (sp.sympify(end).subs(controls) for end in support or (-sp.oo, sp.oo))
    for z in PLACES[::2]:
        there = plain(density.subs(controls).subs(Z, z))
        try:
            bends = all_breakpoints(there, Y)
        except ValueError:  # integrated without them, to an accuracy that is known
            bends = ()
        inside = {*bends, *_peaks(there), z}
        edges = [low, *sorted(e for e in inside if e.is_number and low < e < high), high]
        parts = [sp.Integral(there, (Y, a, b)) for a, b in pairwise(edges)]
        try:
            total = sum(part.evalf(DIGITS, strict=True) for part in parts)
        except sp.PrecisionExhausted:  # nothing is known
            continue
        if abs(total - 1) > OFF:
            raise ModelError(
                f"the density {density} of the label has the total {float(total):.4g} at z ="
                f" {sp.N(z, 4)}: over y it must integrate to one"
            )


def _peaks(density: sp.Expr) -> list[sp.Expr]:
    """Where the Gaussians in a density of y lie: centres, and ten widths on either side."""
    places = []
    for bell in density.atoms(sp.exp):
        curve = sp.Poly(bell.args[0], Y) if bell.args[0].is_polynomial(Y) else None
        if curve is not None and curve.degree() == 2 and curve.LC() < 0:
            a, b, _ = curve.all_coeffs()
            places += [-b / (2 * a) + k * sp.sqrt(-1 / (2 * a)) for k in (-10, 0, 10)]
    return places


def stable_logistic(expr: sp.Expr) -> sp.Expr:
    """1/(1 + e^u) and e^u/(1 + e^u) as the logistic functions they are: nothing overflows."""
    written: Any = expr.replace(lambda e: _odds(e) is not None, lambda e: Logistic(-_odds(e)))  # type: ignore[operator]
    return written.replace(lambda e: isinstance(e, sp.Mul), _cancelled)


def _odds(e: Any) -> sp.Expr | None:
    """u of 1/(1 + e^u)."""
    if not (
        isinstance(e, sp.Pow)
        and e.exp == -1
        and isinstance(e.base, sp.Add)
        and len(e.base.args) == 2
        and sp.S.One in e.base.args
    ):
        return None
    other = e.base - 1
    return other.args[0] if isinstance(other, sp.exp) else None


def _cancelled(product: sp.Mul) -> sp.Expr:
    """e^u s(-u) = s(u)."""
    for a in product.args:
        for b in product.args:
            if (
                isinstance(a, sp.exp)
                and isinstance(b, Logistic)
                and sp.simplify(a.args[0] + b.args[0]) == 0
            ):
                return product / a / b * Logistic(a.args[0])
    return product


def _indicator(pieces: tuple[Piece, ...], value: sp.Expr) -> sp.Expr:
    """1 where the pieces have the value, as Heaviside functions of z."""
    total = sp.S.Zero
    for piece in pieces:
        if piece.value == value:
            total += (sp.Heaviside(Z - piece.low) if piece.low != -sp.oo else 1) - (
                sp.Heaviside(Z - piece.high) if piece.high != sp.oo else 0
            )
    return total


def _function(channel: sp.Eq) -> sp.Expr:
    """f of Eq(y, f(z))."""
    sides = [own(side, Y, Z) for side in channel.args]
    if Y not in sides:
        raise ModelError(f"cannot read {channel}: write Eq(y, f(z))")
    f = sides[1] if sides[0] == Y else sides[0]
    if f.has(Y):
        raise ModelError(f"cannot read {channel}: f must depend on z alone")
    return f


def deterministic(channel: Channel) -> sp.Expr | None:
    """f of a channel Eq(y, f(z)), None for another one."""
    return _function(channel) if isinstance(channel, sp.Eq) else None
