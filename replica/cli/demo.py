"""What ``replica demo`` does."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from ..demo import write_demo
from .shared import command_line


def make_demo(folder: Path, as_json: bool) -> None:
    """Write the demonstration, and say what was written."""
    written = write_demo(folder, command_line(), quiet=as_json)
    if as_json:
        typer.echo(json.dumps({"files": [str(name) for name in written]}))
