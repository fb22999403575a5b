"""``replica demo``: what the package computes, as one file and one figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ..demo import write_demo
from .shared import Json, command_line


def demo(
    folder: Annotated[Path, typer.Option(help="Where to write demo.h5 and demo.png.")] = Path(
        "results"
    ),
    as_json: Json = False,
) -> None:
    """Population risk against nu, and the Bayes risk with its hard phase against alpha."""
    written = write_demo(folder, command_line(), quiet=as_json)
    if as_json:
        typer.echo(json.dumps({"files": [str(name) for name in written]}))
