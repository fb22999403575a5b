"""What ``replica info`` and ``replica export`` do."""

from __future__ import annotations

import json
from pathlib import Path

from .shared import say


def print_description(file: Path, as_json: bool) -> None:
    """What is in a file, as text or JSON."""
    from ..files import info

    found = info.describe(file)
    say(json.dumps(found) if as_json else info.text(found))


def export_tables(file: Path, output: Path, force: bool, as_json: bool) -> None:
    """The tables of a file as CSV, and the names of what was written."""
    from ..files import export

    written = [str(name) for name in export.to_csv(file, output, force=force)]
    say(json.dumps({"files": written}) if as_json else "\n".join(written))
