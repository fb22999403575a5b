"""What ``replica models`` does."""

from __future__ import annotations

import json
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from equations import MODELS, ModelSpec


def print_models(as_json: bool) -> None:
    """All models, as a table or as JSON."""
    if as_json:
        typer.echo(json.dumps({name: _entry(family) for name, family in MODELS.items()}))
        return
    table = Table("model", "what", "controls", "options")
    for name, family in MODELS.items():
        title, controls = family.listing()
        options = "; ".join(f"{k} = {' | '.join(v)}" for k, v in family.options.items())
        table.add_row(name, title, ", ".join(q.name for q in controls), options)
    Console().print(table)


def _entry(family: ModelSpec) -> dict[str, Any]:
    """A model in the list, for JSON."""
    title, controls = family.listing()
    return {"title": title, "controls": [q.name for q in controls], "options": family.options}
