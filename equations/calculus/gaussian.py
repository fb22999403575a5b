"""Algebra of Gaussian laws: tilting, conditioning, and the average of an exponential of a
quadratic.
"""

from __future__ import annotations

import sympy as sp

from .averages import Average

Law = tuple[sp.Expr, sp.Expr]
"""(mean, variance) of a Gaussian variable."""


def tilt(law: Law, slope: sp.Expr) -> tuple[sp.Expr, Law]:
    """E_{N(m,v)}[e^{slope x} f(x)] = e^{c} E_{N(m',v)}[f(x)]: returns c and the tilted law."""
    mean, variance = law
    return slope * mean + slope**2 * variance / 2, (mean + slope * variance, variance)


def condition(law: Law, observed: sp.Expr, noise: sp.Expr) -> tuple[Law, Law]:
    """y = x + sqrt(noise) g with x ~ law: returns the law of x given y = ``observed`` and that of
    y.
    """
    mean, variance = law
    total = variance + noise
    given = (mean + variance * (observed - mean) / total, variance * noise / total)
    return (sp.cancel(given[0]), sp.cancel(given[1])), (mean, total)


def exponential_average(
    exponent: sp.Expr, x: sp.Symbol, mean: sp.Expr, variance: sp.Expr
) -> sp.Expr | None:
    """E[exp(exponent)] in closed form, or None if the exponent is not a polynomial of degree <= 2
    in x.

    A (x - x0)^2 + C averages to (1 - 2 A v)^(-1/2) exp(A (m - x0)^2/(1 - 2 A v) + C). Completing
    the square first keeps the large terms of a narrow channel (A ~ 1/V) from cancelling in floating
    point.
    """
    poly = sp.Poly(sp.expand(exponent), x) if exponent.is_polynomial(x) else None
    if poly is None or poly.degree() > 2:
        return None
    a, b, c = (poly.coeff_monomial(x**k) for k in (2, 1, 0))
    if a == 0:
        shift, _ = tilt((mean, variance), b)
        return sp.exp(sp.expand(shift + c))
    centre = sp.cancel(-b / (2 * a))
    constant = sp.cancel(c - b**2 / (4 * a))
    width = 1 - sp.cancel(2 * a * variance)
    if width.is_nonpositive:
        raise ValueError(f"E[exp({exponent})] over {x} ~ N({mean}, {variance}) diverges")
    return sp.exp(a * sp.factor(mean - centre) ** 2 / width + constant) / sp.sqrt(width)


def polynomial_average(poly: sp.Poly, mean: sp.Expr, variance: sp.Expr) -> sp.Expr:
    """E[p(x)], x ~ N(m, v): the n-th moment is the n-th derivative of e^{t m + t^2 v/2} at t = 0,
    by its recursion.
    """
    moments = [sp.S.One, mean]
    for n in range(1, poly.degree()):
        moments.append(mean * moments[n] + n * variance * moments[n - 1])
    return sp.Add(*(coefficient * moments[n] for (n,), coefficient in poly.terms()))


def close(expr: sp.Expr) -> sp.Expr:
    """Replace Gaussian averages by their closed form, innermost first.

    Closed are the exponential of a quadratic, a polynomial, and a polynomial times the exponential
    of a linear function.
    """

    def rule(average: Average) -> sp.Expr:
        x, law = average.variable, (average.mean, average.variance)
        factor, rest = average.body.as_independent(x, as_Add=False)
        if isinstance(rest, sp.exp):
            closed = exponential_average(rest.args[0], x, *law)
            return average if closed is None else factor * closed
        growing = [f for f in sp.Mul.make_args(rest) if isinstance(f, sp.exp)]
        exponent = sp.expand(sum(f.args[0] for f in growing))
        others = rest / sp.Mul(*growing)
        if (
            not others.is_polynomial(x)
            or not exponent.is_polynomial(x)
            or sp.degree(exponent, x) > 1
        ):
            return average
        slope = exponent.coeff(x, 1)
        shift, tilted = tilt(law, slope)
        return (
            factor
            * sp.exp(sp.expand(shift + exponent.coeff(x, 0)))
            * polynomial_average(sp.Poly(others, x), *tilted)
        )

    return expr.replace(lambda e: isinstance(e, Average), rule)


Fields = dict[sp.Symbol, tuple[sp.Expr, dict[sp.Symbol, sp.Expr]]]
"""Jointly Gaussian variables: mean, and covariances with itself and with others."""


def contract(body: sp.Expr, fields: Fields) -> sp.Expr:
    """E[body] over fields that enter it polynomially, given the others: E[z X] = E[z] E[X] + sum_b
    Cov(z, b) E[dX/db] (Stein), one after the other.

    What is left is a function of the variables b that are not among ``fields``, to be averaged over
    their own law. Nothing is divided by a variance.
    """
    for z, (mean, covariances) in fields.items():
        while body.has(z):
            rest = sp.expand_mul(body)
            constant, quotient = sp.S.Zero, sp.S.Zero
            for term in sp.Add.make_args(rest):
                if term.has(z):
                    quotient += term / z
                else:
                    constant += term
            body = (
                constant
                + mean * quotient
                + sp.Add(*(c * quotient.diff(b) for b, c in covariances.items()))
            )
    return body
