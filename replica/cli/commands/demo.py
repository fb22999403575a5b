"""``replica demo``: what the package computes, as one file and one figure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..shared import (
    Json,
)


def demo(
    folder: Annotated[Path, typer.Option(help="Where to write demo.h5 and demo.png.")] = Path(
        "results"
    ),
    as_json: Json = False,
) -> None:
    """Population risk against nu, and the Bayes risk with its hard phase against alpha."""
    from ..demo import make_demo

    make_demo(folder, as_json)
