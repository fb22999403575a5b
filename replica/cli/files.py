"""``replica info`` and ``replica export``: what is in a stored file, and its tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ..files import export, info
from .shared import Force, Json, say


def describe(file: Path, as_json: Json = False) -> None:
    """Say what is in a stored file, and which command made it.

    Example: replica info slr.h5
    """
    found = info.describe(file)
    say(json.dumps(found) if as_json else info.text(found))


def export_csv(
    file: Path,
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            help="CSV file; a file with variables of several shapes gives several.",
        ),
    ],
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a stored file as CSV: one row for each point, with its controls, values, errors and
    status.

    Example: replica export slr.h5 -o slr.csv
    """
    written = [str(name) for name in export.to_csv(file, output, force=force)]
    say(json.dumps({"files": written}) if as_json else "\n".join(written))
