"""What a user typed as the value of a quantity: a number inside its range."""

from __future__ import annotations

import math
from typing import Any

from equations import Quantity
from equations.numerals import real, shown
from equations.slr.laws import is_law

from ..errors import InputError


def number(quantity: Quantity, value: Any) -> float:
    """A value of ``quantity`` as a float inside its range."""
    if is_law(value):
        raise InputError(
            f"{quantity.name} = {shown(value)} is a law: this model takes one number for"
            f" {quantity.name}"
        )
    try:
        result = real(value)
    except ValueError as problem:
        raise InputError(f"{quantity.name} = {shown(value)} {problem}") from None
    if not math.isfinite(result) and not (quantity.infinite and result == math.inf):
        raise InputError(
            f"{quantity.name} = {value} is not finite: it must be {quantity.range_text()}"
        )
    if not quantity.contains(result):
        hint = f" ({quantity.outside})" if quantity.outside else ""
        raise InputError(
            f"{quantity.name} = {result:g} is out of range: it must be"
            f" {quantity.range_text()}{hint}"
        )
    return result
