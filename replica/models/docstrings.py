"""What the docstring of a model's file says: fields, each a line of its own with an indented text
below.

    Exact?
        Nishimori (Bayes-optimal).
    Limits
        alpha -> 0: q = 0.
"""

from __future__ import annotations

import ast
import inspect
import textwrap

from equations import MODELS, Model

FIELDS = (
    "Setting",
    "Overlaps",
    "Controls",
    "Free energy",
    "Equations",
    "Observables",
    "Exact?",
    "Accuracy",
    "Limits",
    "Source",
)
"""The fields of the contract, in their order (CONTRIBUTING.md)."""
NOTES = ("Exact?", "Accuracy", "Limits")


def read_fields(docstring: str) -> dict[str, str]:
    """Field -> its text, in the order of the docstring; what is no field is left out."""
    found: dict[str, list[str]] = {}
    field = ""
    for line in inspect.cleandoc(docstring).splitlines():
        if line in FIELDS:
            field = line
            found[field] = []
        elif line and not line[0].isspace():
            field = ""  # prose of its own ends a field
        elif field:
            found[field].append(line)
    return {name: textwrap.dedent("\n".join(lines)).strip() for name, lines in found.items()}


def docstring_of(model: Model) -> str:
    """Of the file that the model comes from; empty if there is none."""
    if model.source is not None:
        return ast.get_docstring(ast.parse(model.source.text)) or ""
    return MODELS[model.name].docstring if model.name in MODELS else ""


def notes_of(model: Model) -> dict[str, str]:
    """What the model notes of itself with its options, and of the docstring what it leaves out."""
    fields = read_fields(docstring_of(model))
    said = {name: fields[name] for name in NOTES if name in fields}
    return dict(model.notes) | {n: text for n, text in said.items() if n not in model.notes}


def sources_of(model: Model) -> tuple[str, ...]:
    """Where it comes from: the model's own list, or the field of the docstring."""
    source = read_fields(docstring_of(model)).get("Source")
    if model.sources or not source:
        return model.sources
    return (" ".join(source.split()),)
