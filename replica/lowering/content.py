"""What a thing is, as a text that is the same in every process: the name under which what was made
of it is found again.

Everything that matters is in the text, so that two things of one text are interchangeable: of an
expression its tree, of a record its fields, of a function of this package its name (the sources of
the package are part of the name elsewhere) and all that it encloses. Whatever else it meets, such
as a node or a rule of a user's own, may be another one next time: it has no text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import FunctionType
from typing import Any

import sympy as sp

from .rules import rule_of

OWN = ("equations", "solvers", "replica")
"""This package, whose sources are known."""
KNOWN = (*OWN, "sympy")
"""And of what the version is known."""
PLAIN = (str, int, float, bool, complex, type(None))


class NoContentError(ValueError):
    """What was met is not the same in every process, as far as one can tell."""


def text_of(thing: Any) -> str:
    """All of what ``thing`` is.

    Parameters
    ----------
    thing : object
        Plain values, tuples, lists, sets, mappings, records, SymPy expressions, and functions and
        classes of this package.

    Returns
    -------
    str

    Raises
    ------
    NoContentError
        There is something else in it.
    """
    if isinstance(thing, PLAIN):
        return repr(thing)
    if isinstance(thing, sp.Basic | sp.MatrixBase):
        return _of_expression(thing)
    if isinstance(thing, Mapping):
        return _joined("mapping", sorted(_joined("", pair) for pair in thing.items()))
    if isinstance(thing, tuple | list):
        return _joined(type(thing).__name__, thing)
    if isinstance(thing, set | frozenset):
        return _joined("set", sorted(map(text_of, thing)))
    if isinstance(thing, type):
        return _own_name(thing)
    if isinstance(thing, FunctionType):
        return _of_function(thing)
    if is_dataclass(thing):
        values = [getattr(thing, f.name) for f in fields(thing)]
        return _joined(_own_name(type(thing)), values)
    raise NoContentError(f"{type(thing).__name__} is no plain value")


def _joined(kind: str, parts: Any) -> str:
    texts = [text_of(part) for part in parts]
    return f"{kind}({','.join(f'{len(text)}:{text}' for text in texts)})"


def _of_expression(expr: Any) -> str:
    """The tree, if every node of it and every rule that evaluates one is known."""
    nodes = list(expr) if isinstance(expr, sp.MatrixBase) else [expr]
    kinds = {type(part) for node in nodes for part in sp.preorder_traversal(node)}
    for kind in kinds:
        if issubclass(kind, sp.Dummy) or _root(kind) not in KNOWN:
            raise NoContentError(f"{kind.__name__} is no node of this package")
        rule = rule_of(kind)
        if rule is not None and _root(rule) not in OWN:
            raise NoContentError(f"{kind.__name__} is evaluated by a rule of the user's own")
    return sp.srepr(expr)


def _of_function(function: FunctionType) -> str:
    """Its name, its defaults and what it encloses."""
    enclosed = [cell.cell_contents for cell in function.__closure__ or ()]
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()]
    line = function.__code__.co_firstlineno  # tells the lambdas of one function apart
    return _joined(f"{_own_name(function)}:{line}", [enclosed, defaults])


def _own_name(thing: Any) -> str:
    if _root(thing) not in KNOWN:
        raise NoContentError(f"{thing.__qualname__} is not of this package")
    return f"{thing.__module__}.{thing.__qualname__}"


def _root(thing: Any) -> str:
    return (getattr(thing, "__module__", None) or "").partition(".")[0]
