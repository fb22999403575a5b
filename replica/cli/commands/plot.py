"""``replica plot``: stored files as a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..shared import (
    Force,
    Json,
)


def plot(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="A stored sweep; several of them go on one axis, checks on them as dots."
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="PNG, PDF or SVG file.")],
    y: Annotated[str, typer.Option("-y", "--y", help="Variable to draw.")] = "risk",
    force: Force = False,
    style: Annotated[
        str, typer.Option(help="default, or paper: one column of a two-column paper.")
    ] = "default",
    as_json: Json = False,
) -> None:
    """Draw a stored sweep (several on one axis), phase diagram, curve of fixed points, or check.

    Example: replica plot slr.h5 -o slr.png

    Example: replica plot bayes.h5 softmax.h5 linear.h5 -o risks.png

    Example: replica plot slr.h5 check.h5 -o both.png

    Example: replica plot phase.h5 -o phase.pdf --style paper
    """
    from ..plot import draw_files

    draw_files(files, output, y, force, style, as_json)
