"""``replica models`` and ``replica show``: what there is, and what one model says."""

from __future__ import annotations

from typing import Annotated

import typer

from ..shared import (
    Json,
    ModelName,
    Set,
    parsed,
)


def models(as_json: Json = False) -> None:
    """List the models, their controls and options."""
    from ..models import print_models

    print_models(as_json)


def show(
    model: ModelName,
    settings: Set = None,
    as_json: Json = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print a LaTeX document.")] = False,
) -> None:
    """Print a model: setting, free energy, derived equations, sources.

    Example: replica show slr-bayes --latex > slr.tex
    """
    from ..show import print_model

    print_model(model, parsed(settings), as_json, latex)
