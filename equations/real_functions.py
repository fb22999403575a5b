"""What an expression may contain: its functions, operators and constants, as SymPy and for floats.

SymPy computes some of them at once: 10**n, exp(n log 2) and gamma(n) are integers with about n
digits. What builds them here refuses an n that is too large; everything else stays symbolic.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import dataclass

import sympy as sp

from .calculus.special_functions import LogCosh, Logistic, Softplus

LARGEST_EXPONENT = 100
LARGEST_LOG_FACTOR = 1000
"""exp(n log 2) is the integer 2^n: of n."""
LARGEST_GAMMA = 30
"""gamma(n) is the integer (n - 1)!: of n."""
MOST_OF_MAX = 8
"""Arguments of Max and Min, which SymPy compares pair by pair."""


@dataclass(frozen=True)
class Function:
    """How a name becomes SymPy, what it is for floats, and how many arguments it takes."""

    build: Callable[..., sp.Expr]
    value: Callable[..., float]
    least: int = 1
    most: int = 1


class Refused(ValueError):
    """What is wrong, without the text that it is wrong with."""


def _absolute(x: sp.Expr) -> sp.Expr:
    # Where SymPy does not see that x is real, it would expand x conjugate(x).
    return sp.Abs(x) if x.is_extended_real else sp.Abs(x, evaluate=False)


def _exponential(x: sp.Expr) -> sp.Expr:
    if x.has(sp.log) and not within(x, LARGEST_LOG_FACTOR):
        raise Refused(f"has a factor above {LARGEST_LOG_FACTOR} of a logarithm in exp(...)")
    return sp.exp(x)


def _small(function: Callable[..., sp.Expr]) -> Callable[..., sp.Expr]:
    def build(x: sp.Expr) -> sp.Expr:
        if not within(x, LARGEST_GAMMA):
            raise Refused(f"has a number above {LARGEST_GAMMA} in {function.__name__}(...)")
        return function(x)

    return build


def _power(base: sp.Expr, exponent: sp.Expr) -> sp.Expr:
    if not within(exponent, LARGEST_EXPONENT):
        raise Refused(f"has an exponent that is too large: exponents end at {LARGEST_EXPONENT}")
    # E**x is exp(x), with the bounds of exp.
    return _exponential(exponent) if base is sp.E else base**exponent


def _extreme(function: type[sp.Max | sp.Min]) -> Callable[..., sp.Expr]:
    def build(*arguments: sp.Expr) -> sp.Expr:
        count = sum(len(a.args) if isinstance(a, function) else 1 for a in arguments)
        if count > MOST_OF_MAX:
            raise Refused(f"has {function.__name__} of more than {MOST_OF_MAX} numbers")
        return function(*arguments)

    return build


def _rational(top: sp.Expr, bottom: sp.Expr) -> sp.Expr:
    if not (top.is_Integer and bottom.is_Integer):
        raise Refused("has a Rational(...) of something else than two whole numbers")
    return top / bottom


def within(expr: sp.Expr, bound: int) -> bool:
    return all(_size(n) <= bound for n in expr.atoms(sp.Number))


def _size(n: sp.Number) -> float:
    if isinstance(n, sp.Rational):
        return max(abs(n.p), n.q)
    return abs(float(n)) if n.is_finite else math.inf


def _heaviside(x: float, at_zero: float = 0.5) -> float:
    return at_zero if x == 0 else float(x > 0)


def _sympy_value(function: Callable[..., sp.Expr]) -> Callable[[float], float]:
    return lambda x: float(function(sp.Float(x)))


FUNCTIONS = {
    "exp": Function(_exponential, math.exp),
    "log": Function(sp.log, math.log, 1, 2),
    "ln": Function(sp.log, math.log),
    "sqrt": Function(sp.sqrt, math.sqrt),
    "cbrt": Function(sp.cbrt, lambda x: math.pow(x, 1 / 3)),
    "root": Function(
        lambda x, n: _power(x, 1 / n), lambda x, n: math.pow(x, 1 / n), least=2, most=2
    ),
    "pow": Function(_power, math.pow, 2, 2),
    "sin": Function(sp.sin, math.sin),
    "cos": Function(sp.cos, math.cos),
    "tan": Function(sp.tan, math.tan),
    "asin": Function(sp.asin, math.asin),
    "acos": Function(sp.acos, math.acos),
    "atan": Function(sp.atan, math.atan),
    "sinh": Function(sp.sinh, math.sinh),
    "cosh": Function(sp.cosh, math.cosh),
    "tanh": Function(sp.tanh, math.tanh),
    "asinh": Function(sp.asinh, math.asinh),
    "acosh": Function(sp.acosh, math.acosh),
    "atanh": Function(sp.atanh, math.atanh),
    "sech": Function(sp.sech, lambda x: 1 / math.cosh(x)),
    "erf": Function(sp.erf, math.erf),
    "erfc": Function(sp.erfc, math.erfc),
    "erfinv": Function(sp.erfinv, _sympy_value(sp.erfinv)),
    "gamma": Function(_small(sp.gamma), math.gamma),
    "loggamma": Function(_small(sp.loggamma), math.lgamma),
    "digamma": Function(_small(sp.digamma), _sympy_value(sp.digamma)),
    "Abs": Function(_absolute, abs),
    "abs": Function(_absolute, abs),
    "sign": Function(sp.sign, lambda x: float((x > 0) - (x < 0))),
    "Heaviside": Function(sp.Heaviside, _heaviside, 1, 2),
    "Max": Function(_extreme(sp.Max), max, 1, MOST_OF_MAX),
    "max": Function(_extreme(sp.Max), max, 1, MOST_OF_MAX),
    "Min": Function(_extreme(sp.Min), min, 1, MOST_OF_MAX),
    "min": Function(_extreme(sp.Min), min, 1, MOST_OF_MAX),
    "relu": Function(lambda x: sp.Max(x, 0), lambda x: max(x, 0.0)),
    "softplus": Function(Softplus, lambda x: max(x, 0.0) + math.log1p(math.exp(-abs(x)))),
    "sigmoid": Function(Logistic, lambda x: (1 + math.tanh(x / 2)) / 2),
    "logcosh": Function(
        LogCosh, lambda x: abs(x) + math.log1p(math.exp(-2 * abs(x))) - math.log(2)
    ),
    "Rational": Function(_rational, lambda p, q: p / q, 2, 2),
}
for _printed, _name in (("Softplus", "softplus"), ("Logistic", "sigmoid"), ("LogCosh", "logcosh")):
    FUNCTIONS[_printed] = FUNCTIONS[_name]  # as SymPy prints it

CONSTANTS = {"pi": sp.pi, "E": sp.E, "EulerGamma": sp.EulerGamma}
NOT_REAL = {
    *("I", "j", "oo", "zoo", "nan", "inf", "NaN", "Infinity", "ComplexInfinity"),
    *("Sum", "Product", "Integral", "Derivative", "Limit", "DiracDelta"),
    *("re", "im", "arg", "conjugate", "exp_polar"),
}
"""What SymPy has, and no real function of one variable."""
OPERATIONS: dict[type[ast.operator], Function] = {
    ast.Add: Function(lambda a, b: a + b, lambda a, b: a + b),
    ast.Sub: Function(lambda a, b: a - b, lambda a, b: a - b),
    ast.Mult: Function(lambda a, b: a * b, lambda a, b: a * b),
    ast.Div: Function(lambda a, b: a / b, lambda a, b: a / b),
    ast.Pow: Function(_power, math.pow),
}
COMPARISONS: dict[type[ast.cmpop], Function] = {
    ast.Lt: Function(sp.Lt, lambda a, b: a < b),
    ast.LtE: Function(sp.Le, lambda a, b: a <= b),
    ast.Gt: Function(sp.Gt, lambda a, b: a > b),
    ast.GtE: Function(sp.Ge, lambda a, b: a >= b),
}
