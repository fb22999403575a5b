"""``replica models`` and ``replica show``: what there is, and what one model says."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from equations import MODELS, ModelSpec

from ..errors import InputError
from ..show import chosen, document, entries, text
from .shared import Json, ModelName, Set, parsed


def models(as_json: Json = False) -> None:
    """List the models, their controls and options."""
    if as_json:
        typer.echo(json.dumps({name: _entry(family) for name, family in MODELS.items()}))
        return
    table = Table("model", "what", "controls", "options")
    for name, family in MODELS.items():
        model = family.build()
        options = "; ".join(f"{k} = {' | '.join(v)}" for k, v in family.options.items())
        table.add_row(name, model.title, ", ".join(q.name for q in model.controls), options)
    Console().print(table)


def _entry(family: ModelSpec) -> dict[str, Any]:
    """A model in the list, for JSON."""
    model = family.build()
    controls = [q.name for q in model.controls]
    return {"title": model.title, "controls": controls, "options": family.options}


def show(
    model: ModelName,
    settings: Set = None,
    as_json: Json = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print a LaTeX document.")] = False,
) -> None:
    """Print a model: setting, free energy, derived equations, sources.

    Example: replica show slr-bayes --latex > slr.tex
    """
    ready = chosen(model, parsed(settings))
    if latex and as_json:
        raise InputError("--latex and --json are two formats: give one of them")
    if as_json:
        typer.echo(json.dumps(entries(ready)))
    else:
        typer.echo(document(ready) if latex else text(ready))
