"""Rules for symbols, numbers, sums, products, powers, logarithms and conditions."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import sympy as sp

from equations.calculus.special_functions import Logistic

from .evaluate import Evaluation
from .rules import lowers


@lowers(sp.Symbol, sp.Indexed)
def symbol(evaluation: Evaluation, e: Any) -> Any:
    """What it stands for."""
    return evaluation.env[e]


@lowers(type(sp.I))
def imaginary_unit(evaluation: Evaluation, e: Any) -> complex:
    """sqrt(-1)."""
    return 1j


@lowers(type(sp.true), type(sp.false))
def truth(evaluation: Evaluation, e: Any) -> bool:
    """A condition that is decided."""
    return bool(e)


@lowers(sp.Integer)
def integer(evaluation: Evaluation, e: sp.Integer) -> float:
    """As a float: powers of integers overflow otherwise."""
    return float(int(e))


@lowers(sp.Number, sp.NumberSymbol)
def number(evaluation: Evaluation, e: sp.Expr) -> float:
    """To double precision."""
    return float(e)


@lowers(sp.Add)
def add(evaluation: Evaluation, e: sp.Add) -> Any:
    """A sum; e^x - 1, 1 - e^x, 1 - tanh^2 x and 1 - s(x) without cancellation."""
    pair = len(e.args) == 2
    exponentials = [a for a in e.args if isinstance(a, sp.exp)]
    if pair and -1 in e.args and exponentials:
        return jnp.expm1(evaluation.value(exponentials[0].args[0]))
    if pair and 1 in e.args and isinstance(e - 1, sp.Mul) and isinstance(1 - e, sp.exp):
        return -jnp.expm1(evaluation.value((1 - e).args[0]))
    small = _complement(e - 1) if pair and 1 in e.args else None
    if small is not None:
        return evaluation.value(small)
    total = evaluation.value(e.args[0])
    for term in e.args[1:]:
        total = total + evaluation.value(term)
    return total


def _complement(rest: Any) -> sp.Expr | None:
    """1 + ``rest`` as a product that is accurate where it is small, None if it is no such form."""
    if not isinstance(rest, sp.Mul) or len(rest.args) != 2 or rest.args[0] != -1:
        return None
    taken = rest.args[1]
    if isinstance(taken, Logistic):
        return Logistic(-taken.args[0])
    if isinstance(taken, sp.Pow) and taken.exp == 2 and isinstance(taken.base, sp.tanh):
        u = 2 * taken.base.args[0]
        return 4 * Logistic(u) * Logistic(-u)
    return None


@lowers(sp.Mul)
def multiply(evaluation: Evaluation, e: sp.Mul) -> Any:
    """A product, from left to right."""
    product = evaluation.value(e.args[0])
    for factor in e.args[1:]:
        product = product * evaluation.value(factor)
    return product


@lowers(sp.Pow)
def power(evaluation: Evaluation, e: sp.Pow) -> Any:
    """Whole and half powers without a logarithm."""
    base, exponent = e.args
    if isinstance(exponent, sp.Integer):
        n = int(exponent)
        return evaluation.value(base) ** n if n > 0 else 1 / evaluation.value(base) ** (-n)
    if isinstance(exponent, sp.Rational) and exponent.q == 2:
        root, n = square_root(evaluation.value(base)), int(exponent.p)
        return root**n if n > 0 else 1 / root ** (-n)
    return jnp.power(evaluation.value(base), evaluation.value(exponent))


def square_root(value: Any) -> Any:
    """The principal root; of a complex number in few operations, as XLA's own takes long to
    compile.
    """
    if not jnp.iscomplexobj(value):
        return jnp.sqrt(value)
    a, b = jnp.real(value), jnp.imag(value)
    longer, shorter = jnp.maximum(jnp.abs(a), jnp.abs(b)), jnp.minimum(jnp.abs(a), jnp.abs(b))
    ratio = shorter / jnp.where(longer > 0, longer, 1.0)  # squares would overflow
    large = jnp.sqrt((longer * jnp.sqrt(1 + ratio**2) + jnp.abs(a)) / 2)
    small = jnp.where(large > 0, b / (2 * large), 0.0)
    right = a >= 0
    real = jnp.where(right, large, jnp.abs(small))
    return real + 1j * jnp.where(right, small, jnp.copysign(large, b))


@lowers(sp.log)
def logarithm(evaluation: Evaluation, e: Any) -> Any:
    """log(1 + x) without cancellation."""
    (argument,) = e.args
    if isinstance(argument, sp.Add) and sp.S.One in argument.args:
        return jnp.log1p(evaluation.value(argument - 1))
    return jnp.log(evaluation.value(argument))


@lowers(sp.Piecewise)
def piecewise(evaluation: Evaluation, e: sp.Piecewise) -> Any:
    """The first branch whose condition holds; the last one is without condition."""
    *branches, last = e.args
    value = evaluation.value(last.args[0])
    for branch in reversed(branches):
        condition, inside = evaluation.value(branch.args[1]), evaluation.value(branch.args[0])
        value = jnp.where(condition, inside, value)
    return value
