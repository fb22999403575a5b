"""``replica info`` and ``replica export``: what is in a stored file, and its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..shared import (
    Force,
    Json,
)


def describe(file: Path, as_json: Json = False) -> None:
    """Say what is in a stored file, and which command made it.

    Example: replica info slr.h5
    """
    from ..files import print_description

    print_description(file, as_json)


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
    from ..files import export_tables

    export_tables(file, output, force, as_json)
