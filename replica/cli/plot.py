"""What ``replica plot`` does."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from ..files import store
from ..plots.base import check_style, drawn_as, save_figure
from ..plots.figures import figure_of_all


def draw_files(
    files: list[Path], output: Path, y: str, force: bool, style: str, as_json: bool
) -> None:
    """Load, draw, write, and say what was written."""
    check_style(style)
    datasets = []
    for file in files:
        datasets.append(store.load(file))
        if not datasets[-1].attrs.get("complete", True):
            typer.echo(f"replica: {file} is unfinished: continue it with --resume", err=True)
    with drawn_as(style):
        save_figure(figure_of_all(datasets, y), output, force)
    typer.echo(
        json.dumps({"figure": str(output), "files": [str(f) for f in files]})
        if as_json
        else str(output)
    )
