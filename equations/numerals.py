"""Numbers written as text, read strictly: ASCII decimals of bounded length and size, nothing else.

``float`` and ``int`` also take 1_5 (as 15), digits of other scripts, and 1e400 (as infinity), and a
rational number of 1e1000000000 is never finished. What cannot be read is a ValueError whose text
follows "X = '...'", such as "is not a number".
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

LONGEST = 60
"""Characters of a decimal."""
LARGEST_WHOLE = 10**15
"""Every whole number up to here is a float."""
MOST_DIGITS = 420
"""Of the numerator and the denominator of a fraction: enough for what 1e-308 implies."""

_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_WORD = re.compile(r"[+-]?(?:inf|infinity|nan)", re.IGNORECASE)
_NOT_A_NUMBER = "is not a number"


def shown(text: Any, most: int = 80) -> str:
    """``repr`` for a message: printable, and not longer than a line."""
    words = str(text)
    return repr(words) if len(words) <= most else f"{words[:most]!r}..."


def real(value: Any) -> float:
    """A float from text (``inf`` and ``nan`` are words) or from a number.

    Raises
    ------
    ValueError
        It is no number, or none that a float can hold.
    """
    if not isinstance(value, str):
        return _float(value)
    text = value.strip(" \t")
    if _WORD.fullmatch(text):
        return float(text)
    result = float(_decimal(text))
    if math.isinf(result):
        raise ValueError("is too large: numbers end at 1e308")
    if result == 0 and re.search("[1-9]", re.split("[eE]", text)[0]):
        raise ValueError("is too small: write 0, or at least 1e-308")
    return result


def _float(value: Any) -> float:
    try:
        if isinstance(value, bytes | bytearray):
            raise TypeError
        return float(value)
    except OverflowError:
        raise ValueError("is too large: numbers end at 1e308") from None
    except (TypeError, ValueError):
        raise ValueError(_NOT_A_NUMBER) from None


def _decimal(text: str) -> str:
    if len(text) > LONGEST:
        raise ValueError(f"is longer than {LONGEST} characters: that is no number")
    if not _DECIMAL.fullmatch(text):
        raise ValueError(_NOT_A_NUMBER)
    return text


def fraction(value: Any) -> Fraction:
    """An exact number from what ``value`` prints as: 0.2, 1e-3, 1/3."""
    top, slash, bottom = str(value).partition("/")
    if not slash:
        return _exact(top.strip(" \t"))
    below = _exact(bottom.strip(" \t"))
    if below == 0:
        raise ValueError("divides by zero")
    return _exact(top.strip(" \t")) / below


def _exact(text: str) -> Fraction:
    if len(text) <= MOST_DIGITS and _INTEGER.fullmatch(text):
        return Fraction(int(text))
    real(_decimal(text))  # bounds the exponent
    return Fraction(text)


def whole(value: Any) -> int:
    """A whole number, such as 4, "4", "4.0" or "1e3"."""
    number = _exact(value.strip(" \t")) if isinstance(value, str) else real(value)
    if not math.isfinite(number) or number != int(number):
        raise ValueError("is not a whole number")
    if abs(number) > LARGEST_WHOLE:
        raise ValueError(f"is too large: whole numbers end at {LARGEST_WHOLE:.0e}")
    return int(number)
