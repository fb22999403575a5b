"""Laws of the sequence length, p_L, and of the location, p_eps, as exact numbers.

Every channel average of a model with random length is sum_L p_L (...)_L, a sum over the law. The
order of the tokens carries nothing, so a law of the location is a list of classes (number of
tokens, probability of each); a token that is never the location shows nothing of it and is left
out. Source: theory.md section 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy as sp

Law = tuple[tuple[int, sp.Rational], ...]
"""(length, probability), lengths rising."""
ROUNDING = 1e-9
"""By how much probabilities given as floating-point numbers may miss one."""


def is_law(value: Any) -> bool:
    """Whether ``value`` is meant as a law, not as a number."""
    return isinstance(value, Mapping) or (isinstance(value, str) and ":" in value)


def read_law(value: Any) -> Law:
    """A law from a dict of probabilities or from text such as "1:0.2,4:0.8" or "1:1/3,2:1/3,3:1/3".

    Raises
    ------
    ValueError
        It cannot be read, or is no law; the message says what to write.
    """
    law: dict[int, sp.Rational] = {}
    for length, probability in _pairs(value):
        if length in law:
            raise ValueError(f"the length law gives L = {length} twice: give each length once")
        if length < 1 or probability < 0:
            raise ValueError(
                f"the length law has L = {length} with probability {probability}: lengths start at"
                " 1, probabilities at 0"
            )
        law[length] = probability
    total = sum(law.values())
    if abs(total - 1) > ROUNDING:
        raise ValueError(
            f"the length law sums to {float(total):.10g}: its probabilities must sum to one"
        )
    return tuple((length, p / total) for length, p in sorted(law.items()) if p > 0)


def _pairs(value: Any) -> list[tuple[int, sp.Rational]]:
    entries = (
        value.items()
        if isinstance(value, Mapping)
        else [part.split(":") for part in str(value).split(",")]
    )
    try:
        return [
            (_whole(length), sp.Rational(str(probability).strip()))
            for length, probability in entries
        ]
    except (ValueError, TypeError, ZeroDivisionError):
        raise ValueError(
            f"cannot read the length law {value!r}: write length:probability pairs, such as"
            " 1:0.2,4:0.8"
        ) from None


def _whole(length: Any) -> int:
    number = float(length)
    if number != int(number):
        raise ValueError(length)
    return int(number)


def law_option(value: Any) -> str | None:
    """The canonical text of a law; None for a fixed length."""
    return ",".join(f"{length}:{p}" for length, p in read_law(value)) if is_law(value) else None


def averaged(expr: sp.Expr, law: Law | None, length: sp.Symbol) -> sp.Expr:
    """sum_L p_L expr(L); ``expr`` itself without a law."""
    return (
        expr
        if law is None
        else sp.Add(*(p * expr.xreplace({length: sp.Integer(n)}) for n, p in law))
    )


def at_longest(expr: sp.Expr, law: Law | None, length: sp.Symbol) -> sp.Expr:
    """``expr`` at the largest length of the law: what sizes of node sets and ranges of integrals
    need.
    """
    return (
        sp.sympify(expr)
        if law is None
        else sp.sympify(expr).xreplace({length: sp.Integer(law[-1][0])})
    )


# the location ------------------------------------------------------------------------------------

Classes = tuple[tuple[int, sp.Rational], ...]
"""(number of tokens, probability of each), probabilities falling."""


def read_location(value: Any) -> Classes:
    """A law from a list of probabilities, one per token, or from text such as "0.5,0.3,0.2";
    "0.2x4" stands for four tokens of 0.2 each.

    Raises
    ------
    ValueError
        It cannot be read, or is no law; the message says what to write.
    """
    counts: dict[sp.Rational, int] = {}
    for count, probability in _entries(value):
        if probability < 0 or count < 1:
            raise ValueError(
                f"the location law has {count} tokens of probability {probability}: probabilities"
                " start at 0, numbers of tokens at 1"
            )
        counts[probability] = counts.get(probability, 0) + count
    total = sum(count * p for p, count in counts.items())
    if abs(total - 1) > ROUNDING:
        raise ValueError(
            f"the location law sums to {float(total):.10g}: the probabilities of its tokens must"
            " sum to one"
        )
    return tuple((counts[p], p / total) for p in sorted(counts, reverse=True))


def _entries(value: Any) -> list[tuple[int, sp.Rational]]:
    entries = (
        value
        if isinstance(value, Sequence) and not isinstance(value, str)
        else str(value).split(",")
    )
    try:
        return [_entry(str(entry)) for entry in entries]
    except (ValueError, TypeError, ZeroDivisionError):
        raise ValueError(
            f"cannot read the location law {value!r}: write one probability per token, such as"
            " 0.5,0.3,0.2 or 0.6,0.1x4"
        ) from None


def _entry(text: str) -> tuple[int, sp.Rational]:
    probability, times, count = text.partition("x")
    return int(count) if times else 1, sp.Rational(probability.strip())


def location_option(value: Any) -> str:
    """The canonical text of a law."""
    return ",".join(str(p) if count == 1 else f"{p}x{count}" for count, p in read_location(value))


def tokens(classes: Classes) -> int:
    """How many tokens a sequence has."""
    return sum(count for count, _ in classes)
