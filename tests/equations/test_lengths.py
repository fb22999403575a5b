"""Length laws and activations written by a user: read exactly, or refused with a sentence."""

from __future__ import annotations

from typing import Any

import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from equations import MODELS
from equations.slr.activations import CHI, activation_of, expression_option, read_expression
from equations.slr.laws import is_law, law_option, read_law


@pytest.mark.parametrize(
    ("value", "law"),
    [
        ("1:0.2,4:0.8", ((1, sp.Rational(1, 5)), (4, sp.Rational(4, 5)))),
        ("1:1/3, 2:1/3, 3:1/3", tuple((n, sp.Rational(1, 3)) for n in (1, 2, 3))),
        ({4: 0.8, 1: 0.2}, ((1, sp.Rational(1, 5)), (4, sp.Rational(4, 5)))),
        ("3:1,2:0", ((3, sp.Integer(1)),)),
    ],
)
def test_laws_are_read_exactly(value: Any, law: Any) -> None:
    assert read_law(value) == law


def test_rounded_probabilities_of_a_dict_are_accepted_and_sum_to_one() -> None:
    law = read_law({n: 1 / 7 for n in range(1, 8)})
    assert sum(p for _, p in law) == 1


@given(st.lists(st.integers(1, 50), min_size=1, max_size=6, unique=True))
def test_canonical_text_is_read_back(lengths: list[int]) -> None:
    text = law_option({n: sp.Rational(1, len(lengths)) for n in lengths})
    assert (
        text is not None
        and law_option(text) == text
        and dict(read_law(text)).keys() == set(lengths)
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("1:0.2,4:0.7", "sums to 0.9: its probabilities must sum to one"),
        ("1:0.333,2:0.333,3:0.333", "sums to 0.999"),
        ("1:0.5,4:0.49999999", "sums to 0.99999999"),
        ("1:0.5,1:0.5", "twice"),
        ("0:1", "start at 1"),
        ("1:-0.5,2:1.5", "start at 1, probabilities at 0"),
        ("1.5:1", "cannot read"),
        ("1:x", "cannot read"),
        ("1:1/0", "cannot read"),
        ("1:2:3", "cannot read"),
        ({}, "sums to 0"),
    ],
)
def test_bad_laws(value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_law(value)


def test_a_number_is_not_a_law() -> None:
    assert not is_law("4") and not is_law(4) and law_option("4") is None


def test_expressions_and_names() -> None:
    assert expression_option("softmax") is None and expression_option("softmx") is None
    assert expression_option("1+tanh(chi)") == "tanh(chi) + 1"
    assert expression_option(sp.Symbol("chi") ** 2) == "chi**2"
    assert read_expression("softplus(chi)").has(CHI)
    x = sp.Symbol("x", real=True)
    assert activation_of("1+tanh(chi)", normalised=False).phi(x) == sp.tanh(x) + 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1+tanh(x)", "contains x"),
        ("foo(chi)", "contains foo"),
        ("1+", "cannot read"),
        ("2 + 1", "does not depend on chi"),
        ("chi > 0", "is not a number"),
        ("chi/0*", "cannot read"),
    ],
)
def test_bad_expressions(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        expression_option(text)


def test_normalised_belongs_to_expressions() -> None:
    with pytest.raises(ValueError, match="normalised goes with an expression"):
        MODELS["slr-erm"].build(activation="linear", normalised="true")


def test_a_model_with_a_length_law_has_no_control_L() -> None:
    model = MODELS["slr-erm"].build(L="1:1/2,3:1/2")
    assert "L" not in {q.name for q in model.controls} and model.options["L"] == "1:1/2,3:1/2"
