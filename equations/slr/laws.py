"""Laws of the sequence length, p_L, and of the location, p_eps, as exact numbers.

Every channel average of a model with random length is sum_L p_L (...)_L, a sum over the law. The
order of the tokens carries nothing, so a law of the location is a list of classes (number of
tokens, probability of each); a token that is never the location shows nothing of it and is left
out. Source: theory.md section 1.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from typing import Any

import sympy as sp

from ..numerals import fraction, shown, whole

Law = tuple[tuple[int, sp.Rational], ...]
"""(length, probability), lengths rising."""
ROUNDING = 1e-9
"""By how much probabilities given as floating-point numbers may miss one."""
MOST_ENTRIES = 100_000
MOST_SUMMED = 100
"""Lengths over which a model sums exactly: each is a term of its equations, which are compiled."""
FINEST = 10**400
"""Largest common denominator of a law's probabilities; 1e-308 is among them."""


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
    law: dict[int, Fraction] = {}
    for length, probability in _pairs(value):
        if length in law:
            raise ValueError(f"the length law gives L = {length} twice: give each length once")
        if length < 1 or probability < 0:
            raise ValueError(
                f"the length law has L = {length} with probability {_words(probability)}: lengths"
                " start at 1, probabilities at 0"
            )
        law[length] = probability
    total = _total("length law", [(1, p) for p in law.values()], "its probabilities")
    return tuple((length, _rational(p / total)) for length, p in sorted(law.items()) if p > 0)


def _total(law: str, entries: Collection[tuple[int, Fraction]], what: str) -> Fraction:
    """sum count p, which is one but for rounding."""
    common = 1
    for _, p in entries:
        common = math.lcm(common, p.denominator)
        if common > 2 * FINEST:  # the canonical text of a law at the limit is within it, too
            raise ValueError(
                f"the {law} has too many different denominators: write its probabilities as"
                " decimals"
            )
    total = Fraction(sum(count * p.numerator * (common // p.denominator) for count, p in entries))
    total /= common
    if abs(total - 1) > ROUNDING:
        raise ValueError(f"the {law} sums to {_words(total)}: {what} must sum to one")
    if total != 1 and common > FINEST:
        raise ValueError(f"the {law} is not exact to {ROUNDING:g}: write fewer digits")
    return total


def _words(number: Fraction) -> str:
    try:
        return f"{float(number):.10g}"
    except OverflowError:
        return "more than 1e308"


def _rational(p: Fraction) -> sp.Rational:
    return sp.Rational(p.numerator, p.denominator)


def _pairs(value: Any) -> list[tuple[int, Fraction]]:
    entries = (
        value.items()
        if isinstance(value, Mapping)
        else [part.split(":") for part in _parts("length law", value)]
    )
    try:
        return [(whole(length), fraction(probability)) for length, probability in entries]
    except (ValueError, TypeError) as problem:
        raise ValueError(
            f"cannot read the length law {shown(value)}: write length:probability pairs, such as"
            f" 1:0.2,4:0.8{_reason(problem)}"
        ) from None


def _parts(law: str, value: Any) -> list[str]:
    text = str(value)
    if text.count(",") >= MOST_ENTRIES:
        raise ValueError(f"the {law} has more than {MOST_ENTRIES} entries")
    return text.split(",")


def _reason(problem: Exception) -> str:
    """What ``numerals`` said, where it says more than that the text is no number."""
    words = str(problem)
    return f" (a number in it {words})" if words.startswith("is too ") else ""


def law_option(value: Any) -> str | None:
    """The canonical text of a law; None for a fixed length."""
    return ",".join(f"{length}:{p}" for length, p in read_law(value)) if is_law(value) else None


def averaged(expr: sp.Expr, law: Law | None, length: sp.Symbol) -> sp.Expr:
    """sum_L p_L expr(L); ``expr`` itself without a law.

    Raises
    ------
    ValueError
        The law has more than ``MOST_SUMMED`` lengths.
    """
    if law is None:
        return expr
    if len(law) > MOST_SUMMED:
        raise ValueError(
            f"the length law has {len(law)} lengths: this model sums over each of them and takes"
            f" at most {MOST_SUMMED}, so put neighbouring ones together"
        )
    return sp.Add(*(p * expr.xreplace({length: sp.Integer(n)}) for n, p in law))


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
    counts: dict[Fraction, int] = {}
    for count, probability in _entries(value):
        if probability < 0 or count < 1:
            raise ValueError(
                f"the location law has {count} tokens of probability {_words(probability)}:"
                " probabilities start at 0, numbers of tokens at 1"
            )
        counts[probability] = counts.get(probability, 0) + count
    classes = [(count, p) for p, count in counts.items()]
    total = _total("location law", classes, "the probabilities of its tokens")
    return tuple((counts[p], _rational(p / total)) for p in sorted(counts, reverse=True))


def _entries(value: Any) -> list[tuple[int, Fraction]]:
    listed = isinstance(value, Sequence) and not isinstance(value, str)
    entries = value if listed else _parts("location law", value)
    try:
        return [_entry(str(entry)) for entry in entries]
    except (ValueError, TypeError) as problem:
        raise ValueError(
            f"cannot read the location law {shown(value)}: write one probability per token, such as"
            f" 0.5,0.3,0.2 or 0.6,0.1x4{_reason(problem)}"
        ) from None


def _entry(text: str) -> tuple[int, Fraction]:
    probability, times, count = text.partition("x")
    return whole(count) if times else 1, fraction(probability)


def location_option(value: Any) -> str:
    """The canonical text of a law."""
    return ",".join(str(p) if count == 1 else f"{p}x{count}" for count, p in read_location(value))


def tokens(classes: Classes) -> int:
    """How many tokens a sequence has."""
    return sum(count for count, _ in classes)
