"""What ``replica check`` does: run a simulation, print theory against simulation, exit 1 if they
disagree.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import typer
from rich.console import Console

from ..check import Asked, Report
from ..check.base import perform_experiment
from ..errors import SolveError
from ..jobs.options import JobOptions


def run_check(asked: Asked, options: Mapping[str, Any], as_json: bool, work: JobOptions) -> None:
    """One command line; options that are None take the experiment's own default."""
    try:
        report = perform_experiment(asked, options, work, _tell)
    except SolveError as problem:  # a failed solve, not a mistake of the user's
        _tell(str(problem))
        raise typer.Exit(1) from None
    _print_report(report, as_json)
    if not report.agrees:
        _tell(report.verdict)
        raise typer.Exit(1)


def _print_report(report: Report, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(report.to_dict(), indent=2))
        return
    Console().print(report.table())
    typer.echo("\n".join(report.notes()))
    typer.echo(report.verdict)


def _tell(text: str) -> None:
    typer.echo(f"replica: {text}", err=True)
