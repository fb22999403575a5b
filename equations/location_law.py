"""Laws of the location: p_eps as exact numbers, tokens of equal probability together.

The order of the tokens carries nothing, so a law is a list of classes (number of tokens, probability of each); a token that is
never the location shows nothing of it and is left out. Source: theory.md section 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy as sp

from .lengths import ROUNDING

Classes = tuple[tuple[int, sp.Rational], ...]
"""(number of tokens, probability of each), probabilities falling."""


def read_location(value: Any) -> Classes:
    """A law from a list of probabilities, one per token, or from text such as "0.5,0.3,0.2"; "0.2x4" stands for four tokens of 0.2 each.

    Raises
    ------
    ValueError
        It cannot be read, or is no law; the message says what to write.
    """
    counts: dict[sp.Rational, int] = {}
    for count, probability in _entries(value):
        if probability < 0 or count < 1:
            raise ValueError(f"the location law has {count} tokens of probability {probability}: probabilities start at 0, numbers of tokens at 1")
        counts[probability] = counts.get(probability, 0) + count
    total = sum(count * p for p, count in counts.items())
    if abs(total - 1) > ROUNDING:
        raise ValueError(f"the location law sums to {float(total):.10g}: the probabilities of its tokens must sum to one")
    return tuple((counts[p], p / total) for p in sorted(counts, reverse=True))


def _entries(value: Any) -> list[tuple[int, sp.Rational]]:
    entries = value if isinstance(value, Sequence) and not isinstance(value, str) else str(value).split(",")
    try:
        return [_entry(str(entry)) for entry in entries]
    except (ValueError, TypeError, ZeroDivisionError):
        raise ValueError(f"cannot read the location law {value!r}: write one probability per token, such as 0.5,0.3,0.2 or 0.6,0.1x4") from None


def _entry(text: str) -> tuple[int, sp.Rational]:
    probability, times, count = text.partition("x")
    return int(count) if times else 1, sp.Rational(probability.strip())


def location_option(value: Any) -> str:
    """The canonical text of a law."""
    return ",".join(str(p) if count == 1 else f"{p}x{count}" for count, p in read_location(value))


def tokens(classes: Classes) -> int:
    """How many tokens a sequence has."""
    return sum(count for count, _ in classes)
