"""Rows of the table of benchmarks, the machine they were made on, and where they are kept."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from replica import versions

STORED = Path(__file__).with_name("results.json")
HEADER = (
    "| problem | seconds | error | instead | seconds | error | ratio"
    " |\n|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True)
class Row:
    """One problem: ours, and what one would do instead.

    Attributes
    ----------
    problem : str
    seconds, error : float
        Ours, measured; the largest error of a number, known or as estimated.
    instead : str
        The baseline, in words; empty if there is none.
    other_seconds, other_error : float or None
        Of the baseline, in the same run on the same machine.
    note : str
        What is not measured as it stands (an extrapolation).
    """

    problem: str
    seconds: float
    error: float | None
    instead: str = ""
    other_seconds: float | None = None
    other_error: float | None = None
    note: str = ""

    def line(self) -> str:
        ratio = "" if self.other_seconds is None else f"{self.other_seconds / self.seconds:.2g}"
        instead = f"{self.instead} ({self.note})" if self.note else self.instead
        numbers = (
            [_number(self.seconds), _error(self.error)],
            [_number(self.other_seconds), _error(self.other_error)],
        )
        return f"| {' | '.join([self.problem, *numbers[0], instead, *numbers[1], ratio])} |"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _error(value: float | None) -> str:
    return "" if value is None else f"{value:.0e}"


def machine(load: str) -> dict[str, Any]:
    """Where and with what."""
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": versions(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "load": load,
    }


def store(rows: Iterable[Row], about: dict[str, Any]) -> None:
    """Replace the stored table."""
    STORED.write_text(
        json.dumps({"machine": about, "rows": [asdict(row) for row in rows]}, indent=1) + "\n",
        encoding="utf-8",
    )


def stored() -> str:
    """The stored table as the README shows it."""
    kept = json.loads(STORED.read_text(encoding="utf-8"))
    about = kept["machine"]
    made = (
        f"{about['cores']} cores ({about['processor']}), Python {about['python']}, jax"
        f" {about['versions']['jax']}, {about['load']}"
    )
    lines = [Row(**row).line() for row in kept["rows"]]
    return "\n".join(
        [HEADER, *lines, "", f"Made by `python benchmarks/run.py`: {made}, {about['date'][:10]}."]
    )
