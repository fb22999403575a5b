"""Ranges of controls and overlaps."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equations import Quantity


@pytest.mark.parametrize(
    ("open_low", "open_high"), list(itertools.product((False, True), repeat=2)), ids=str
)
def test_ends_belong_to_a_range_unless_it_is_open(open_low: bool, open_high: bool) -> None:
    share = Quantity("rho", "r", 0, 1, open_low=open_low, open_high=open_high)
    assert share.contains(0.0) != open_low and share.contains(1.0) != open_high
    assert share.range_text() == f"0 {'<' if open_low else '<='} rho {'<' if open_high else '<='} 1"


@given(value=st.floats(allow_nan=True, allow_infinity=True))
def test_a_range_contains_what_lies_between_its_ends(value: float) -> None:
    share, count = Quantity("rho", "r", 0, 1), Quantity("L", "L", 1, integer=True)
    assert share.contains(value) == (0 <= value <= 1)
    assert not count.contains(0) and count.contains(7.0) and not count.contains(7.5)
