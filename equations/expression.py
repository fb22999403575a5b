r"""Real functions of one variable, written as text and read by a grammar of their own.

    expression = number | constant | chi | f(expression, ...) | (expression)
               | - expression | expression (+ - * / **) expression
               | Piecewise((expression, chi < number), ..., (expression, True))

Python's ``ast`` finds the structure; it is walked against the tables of
``real_functions`` and the result is
put together from SymPy's classes. Nothing is ever evaluated as code. Every step is bounded: length,
nesting, sizes of numbers and of exponents, and a part that has no finite real value at any of
``POINTS`` ends the reading before SymPy can meet it.
"""

from __future__ import annotations

import ast
import difflib
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import sympy as sp

from .numerals import real, shown
from .real_functions import (
    COMPARISONS,
    CONSTANTS,
    FUNCTIONS,
    LARGEST_EXPONENT,
    NOT_REAL,
    OPERATIONS,
    Function,
    Refused,
    within,
)

LONGEST = 2000
MOST_PARTS = 250
MOST_EXTREMES = 12
"""How often Max and Min may stand in one expression."""
DEEPEST = 40
LARGEST = 10**40
"""Numbers lie between this and its inverse."""
POINTS = (-30.0, -3.1, -1.7, -0.9, -0.35, 0.0, 0.1, 0.45, 0.8, 1.3, 2.3, 3.7, 30.0)
"""Where the variable is tried."""

Values = tuple[float, ...]
"""A part at each of ``POINTS``; NaN where it has no finite real value."""


@dataclass(frozen=True)
class Part:
    """A part of an expression."""

    expr: sp.Expr
    values: Values


_TOKEN = re.compile(
    r"(?P<space>[ \t]+)|(?P<name>[A-Za-z_][A-Za-z_0-9]*)"
    r"|(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<mark>\*\*|<=|>=|[-+*/(),<>])"
)
_SYMPY_REFUSES = (ArithmeticError, AttributeError, TypeError, ValueError, NotImplementedError)


def read(text: str, variable: sp.Symbol, what: str = "the expression") -> sp.Expr:
    """The expression that ``text`` spells; ``what`` is its name in messages.

    Raises
    ------
    ValueError
        It is no real function of ``variable``, or has not the grammar of this file; the message
        is one sentence.
    """
    try:
        return _read(text, variable).expr
    except Refused as problem:
        raise ValueError(f"{what} {shown(text)} {problem}") from None
    except SyntaxError as problem:
        place = f" near place {problem.offset}" if problem.offset else ""
        raise ValueError(
            f"cannot read {what} {shown(text)}{place}: write an expression in {variable}, such as"
            f" 1 + tanh({variable})"
        ) from None
    except (RecursionError, MemoryError):
        raise ValueError(f"{what} {shown(text)} is nested too deeply") from None


def _read(text: str, variable: sp.Symbol) -> Part:
    if len(text) > LONGEST:
        raise Refused(f"has {len(text)} characters: expressions end at {LONGEST}")
    text = text.strip(" \t")
    _check_tokens(text)
    _check_brackets(text)
    tree = ast.parse(text, mode="eval").body
    if sum(1 for _ in ast.walk(tree)) > 3 * MOST_PARTS:  # each has a context or an operator
        raise Refused(f"has too many parts: expressions end at about {MOST_PARTS}")
    if len(re.findall(r"(?i)\b(max|min|relu)\b", text)) > MOST_EXTREMES:
        raise Refused(f"has more than {MOST_EXTREMES} times Max or Min")
    return _Walk(text, variable).part(tree, 0)


def _check_tokens(text: str) -> None:
    place, before = 0, ""
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            hint = ": write ** for a power" if text[place] == "^" else ""
            raise Refused(
                f"cannot be read: {text[place]!a} at place {place + 1} is no part of it{hint}"
            )
        kind = str(found.lastgroup)
        if (before, kind) in (("number", "name"), ("number", "number")):
            raise Refused(
                f"cannot be read: {found.group()[:20]!r} at place {place + 1} follows a number:"
                " write * between them"
            )
        place, before = found.end(), kind


def _check_brackets(text: str) -> None:
    opened: list[int] = []
    for place, character in enumerate(text, 1):
        if character == "(":
            opened.append(place)
        elif character == ")":
            if not opened:
                raise Refused(f"cannot be read: the ) at place {place} closes nothing")
            opened.pop()
    if opened:
        raise Refused(f"cannot be read: the ( at place {opened[-1]} is not closed")


class _Walk:
    """From the syntax tree of one text to its parts."""

    def __init__(self, text: str, variable: sp.Symbol) -> None:
        self.text, self.variable = text, variable

    def part(self, node: ast.expr, depth: int) -> Part:
        if depth > DEEPEST:
            raise Refused(f"is nested too deeply: expressions end at depth {DEEPEST}")
        if isinstance(node, ast.Constant):
            return self._number(node)
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, ast.UnaryOp):
            return self._signed(node, depth)
        if isinstance(node, ast.BinOp):
            return self._chain(node, depth)
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        if isinstance(node, ast.Compare):
            raise Refused("is not a number: a comparison belongs into Piecewise or Heaviside")
        raise self._foreign(node)

    def _foreign(self, node: ast.AST) -> Refused:
        kind = type(node).__name__
        hint = ": use Piecewise, Max or Heaviside" if kind == "IfExp" else ""
        return Refused(
            f"cannot be read: {self._words(node)} is no arithmetic in {self.variable} ({kind})"
            f"{hint}"
        )

    def _words(self, node: ast.AST) -> str:
        return shown(ast.get_source_segment(self.text, node) or self.text, 40)

    def _number(self, node: ast.Constant) -> Part:
        words = ast.get_source_segment(self.text, node) or ""
        if isinstance(node.value, bool) or not isinstance(node.value, int | float):
            raise self._foreign(node)
        try:
            value = real(words)
        except ValueError as problem:
            raise Refused(f"has a number that {problem}") from None
        # The class that SymPy gives it: decimals keep their digits.
        expr = sp.Integer(words) if words.isdigit() else sp.Float(words)
        return self._checked(node, expr, (value,) * len(POINTS))

    def _name(self, name: str) -> Part:
        if name == self.variable.name:
            return Part(self.variable, POINTS)
        if name in CONSTANTS:
            constant = CONSTANTS[name]
            return Part(constant, (float(constant),) * len(POINTS))
        if name in NOT_REAL:
            raise Refused(f"is not a real function of {self.variable}: it contains {name}")
        if name in FUNCTIONS:
            raise Refused(f"contains {name} without its argument: write {name}({self.variable})")
        raise Refused(
            f"contains {name[:40]}: write it in {self.variable} alone (beta and offset are"
            " controls)"
        )

    def _signed(self, node: ast.UnaryOp, depth: int) -> Part:
        if not isinstance(node.op, ast.UAdd | ast.USub):
            raise self._foreign(node)
        inside = self.part(node.operand, depth + 1)
        if isinstance(node.op, ast.UAdd):
            return inside
        return Part(-inside.expr, tuple(-v for v in inside.values))

    def _chain(self, node: ast.BinOp, depth: int) -> Part:
        """a + b + c, which Python nests to the left, without nesting."""
        steps: list[ast.BinOp] = []
        first: ast.expr = node
        while isinstance(first, ast.BinOp):
            steps.append(first)
            first = first.left
        total = self.part(first, depth + 1)
        for step in reversed(steps):
            if type(step.op) not in OPERATIONS:
                raise self._foreign(step)
            right = self.part(step.right, depth + 1)
            total = self._applied(step, OPERATIONS[type(step.op)], [total, right])
        return total

    def _call(self, node: ast.Call, depth: int) -> Part:
        if not isinstance(node.func, ast.Name) or node.keywords:
            raise self._foreign(node)
        name = node.func.id
        if name == "Piecewise":
            return self._piecewise(node, depth)
        if name in NOT_REAL:
            raise Refused(f"is not a real function of {self.variable}: it contains {name}")
        if name not in FUNCTIONS:
            near = difflib.get_close_matches(name[:40], FUNCTIONS, n=2)
            hint = f"did you mean {' or '.join(near)}?" if near else _known()
            raise Refused(f"contains {name[:40]}, which is no function here: {hint}")
        function = FUNCTIONS[name]
        if not function.least <= len(node.args) <= function.most:
            raise Refused(f"has {name} with {len(node.args)} arguments")
        return self._applied(node, function, [self.part(a, depth + 1) for a in node.args])

    def _piecewise(self, node: ast.Call, depth: int) -> Part:
        pieces, values, open_at = [], [math.nan] * len(POINTS), set(range(len(POINTS)))
        for piece in node.args:
            if not isinstance(piece, ast.Tuple) or len(piece.elts) != 2:
                raise Refused("has a Piecewise whose pieces are not (value, condition)")
            value, (condition, where) = (
                self.part(piece.elts[0], depth + 1),
                self._condition(piece.elts[1], depth + 1),
            )
            pieces.append((value.expr, condition))
            for i in [i for i in open_at if where[i]]:
                values[i] = value.values[i]
                open_at.remove(i)
        if not pieces or pieces[-1][1] is not sp.true:
            raise Refused("has a Piecewise that is not total: end it with (value, True)")
        return self._checked(node, _built(sp.Piecewise, *pieces), tuple(values))

    def _condition(self, node: ast.expr, depth: int) -> tuple[sp.Basic, tuple[bool, ...]]:
        if isinstance(node, ast.Constant) and node.value is True:
            return sp.true, (True,) * len(POINTS)
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            raise self._foreign(node)
        if type(node.ops[0]) not in COMPARISONS:
            raise self._foreign(node)
        sides = [self.part(side, depth) for side in (node.left, node.comparators[0])]
        alone = [side.expr == self.variable for side in sides]
        free = [self.variable in side.expr.free_symbols for side in sides]
        if not any(alone) or all(free):
            raise Refused(f"has a condition that does not compare {self.variable} with a number")
        relation = COMPARISONS[type(node.ops[0])]
        pairs = zip(sides[0].values, sides[1].values, strict=True)
        return relation.build(*(s.expr for s in sides)), tuple(
            bool(relation.value(a, b)) for a, b in pairs
        )

    def _applied(self, node: ast.expr, function: Function, parts: list[Part]) -> Part:
        rows = zip(*(p.values for p in parts), strict=True)
        values = tuple(_at(function.value, row) for row in rows)
        self._finite(node, values)  # before SymPy meets it
        return self._checked(node, _built(function.build, *(p.expr for p in parts)), values)

    def _finite(self, node: ast.expr, values: Values) -> None:
        if all(math.isnan(v) for v in values):
            raise Refused(
                f"is not a real function of {self.variable}: {self._words(node)} has no finite real"
                f" value (tried from {POINTS[0]:g} to {POINTS[-1]:g})"
            )

    def _checked(self, node: ast.expr, expr: sp.Expr, values: Values) -> Part:
        """The part, if its numbers and exponents are within bounds and it is real."""
        self._finite(node, values)
        if expr.has(sp.I, sp.zoo, sp.oo, -sp.oo, sp.nan):
            raise Refused(f"is not a real function of {self.variable}: {self._words(node)}")
        if not expr.free_symbols and not all(_moderate(v) for v in values):
            raise Refused(
                f"has a number that is too large or too small, {self._words(node)}: numbers end at"
                " 1e40 and 1e-40"
            )
        if not within(expr, LARGEST):
            raise Refused(f"has a number that is too large: numbers end at {LARGEST:.0e}")
        if not all(within(p.exp, LARGEST_EXPONENT) for p in _powers(expr)):
            raise Refused(f"has an exponent that is too large: exponents end at {LARGEST_EXPONENT}")
        return Part(expr, values)


def _known() -> str:
    return f"known: {', '.join(FUNCTIONS)}"


def _moderate(value: float) -> bool:
    return value == 0 or math.isnan(value) or 1 / LARGEST <= abs(value) <= LARGEST


def _powers(expr: sp.Expr) -> Iterator[sp.Pow]:
    return (p for p in expr.atoms(sp.Pow) if p.base is not sp.E)


def _built(build: Callable[..., sp.Expr], *arguments: object) -> sp.Expr:
    try:
        return build(*arguments)
    except Refused:
        raise
    except _SYMPY_REFUSES as problem:
        words = str(problem).partition("\n")[0]
        raise Refused(f"cannot be read: {words[:80]}") from None


def _at(function: Callable[..., float], arguments: Values) -> float:
    """``function`` of floats; NaN where it is no finite real number."""
    if any(math.isnan(a) for a in arguments):
        return math.nan
    try:
        value = function(*arguments)
    except (ValueError, ArithmeticError, TypeError):
        return math.nan
    return value if math.isfinite(value) else math.nan
