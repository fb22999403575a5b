"""The docstring of a model's file is read where ``show`` prints: each field once."""

from __future__ import annotations

from dataclasses import replace

import pytest

import replica
from equations import MODELS
from replica.models.docstrings import FIELDS, NOTES, notes_of, read_fields, sources_of

TEXT = """A model.

More on it.

Setting
    One line,
      indented further.

    A second paragraph.
Exact?
    Yes.
Prose that is no field
    and what belongs to it.
Limits
    q = 0.
"""


def test_fields_are_read_with_their_indentation() -> None:
    assert read_fields(TEXT) == {
        "Setting": "One line,\n  indented further.\n\nA second paragraph.",
        "Exact?": "Yes.",
        "Limits": "q = 0.",
    }
    assert read_fields("") == read_fields("Only prose: Setting and Limits.") == {}


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_model_has_the_fields_of_the_contract(name: str) -> None:
    fields = read_fields(MODELS[name].docstring)
    assert list(fields) == [field for field in FIELDS if field in fields]
    assert set(FIELDS) - set(fields) <= {"Equations"}
    assert all(fields.values())


@pytest.mark.parametrize("name", sorted(MODELS))
def test_what_a_model_does_not_note_comes_from_its_docstring(name: str) -> None:
    model = MODELS[name].build()
    fields = read_fields(MODELS[name].docstring)
    bare = replace(model, notes={}, sources=())
    assert notes_of(bare) == {field: fields[field] for field in NOTES}
    assert sources_of(bare) == (" ".join(fields["Source"].split()),)
    # The model's own words come first: they are of the options it was built with.
    assert notes_of(model) == notes_of(bare) | dict(model.notes)
    assert sources_of(model) == model.sources


def test_show_prints_each_field_once() -> None:
    text = replica.show("spiked-wigner")
    for title in (*NOTES, "Sources"):
        assert text.splitlines().count(title) == 1, title


def test_a_file_of_ones_own_may_have_the_fields_too(tmp_path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        '"""A channel.\n\nLimits\n    alpha -> 0: V = 1.\nSource\n    A book,\n    page 3.\n"""\n'
        "from replica import X, Y, Z, bayes_glm, normal\n\n\n"
        "def build():\n    return bayes_glm(normal(X), normal(Y, Z, 1), (), name='mine')\n",
        encoding="ascii",
    )
    text = replica.show(str(file))
    assert "\nLimits\n  alpha -> 0: V = 1.\n" in text
    assert "\nSources\n  A book, page 3.\n" in text
