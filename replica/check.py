"""Theory against simulation: a table of means, standard errors and z-scores with one verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from rich.table import Table

LIMIT = 4.0
"""|z| above which theory and simulation disagree."""
COLUMNS = ("theory", "theory_error", "mean", "standard_error", "z")


@dataclass(frozen=True)
class Comparison:
    """One quantity: theory and the error of the theory, mean over independent trials and its standard error.

    z = (mean - theory)/sqrt(standard_error^2 + theory_error^2).
    """

    name: str
    theory: float
    mean: float
    standard_error: float
    theory_error: float = 0.0

    @property
    def z(self) -> float:
        gap, spread = self.mean - self.theory, float(np.hypot(self.standard_error, self.theory_error))
        if spread > 0:
            return gap / spread
        return 0.0 if gap == 0 else float(np.copysign(np.inf, gap)) if np.isfinite(gap) else float("nan")

    def agrees(self, limit: float = LIMIT) -> bool:
        """|z| <= limit; False for NaN."""
        return abs(self.z) <= limit


def compare(name: str, samples: Any, theory: Any, theory_error: float = 0.0) -> Comparison:
    """Independent samples against a number, or against one theoretical value per sample (paired: the standard error is that of the difference)."""
    samples = np.asarray(samples, dtype=float)
    expected = np.broadcast_to(np.asarray(theory, dtype=float), samples.shape)
    error = float(np.std(samples - expected, ddof=1) / np.sqrt(samples.size)) if samples.size > 1 else float("nan")
    return Comparison(name, float(expected.mean()), float(samples.mean()), error, float(theory_error))


def compare_share(name: str, hits: Any, theory: float) -> Comparison:
    """The share of trials in which something happens against its probability.

    The standard error is the binomial one at the theoretical probability, at least that of half a trial: at probability 0 or 1 it would be zero.
    """
    hits = np.asarray(hits, dtype=float)
    error = max(np.sqrt(theory * (1 - theory) / hits.size), 0.5 / hits.size)
    return Comparison(name, float(theory), float(hits.mean()), float(error))


@dataclass(frozen=True)
class Report:
    """The comparisons of one run, what was run, and reference values that take no part in the verdict."""

    model: str
    settings: dict[str, Any]
    comparisons: tuple[Comparison, ...]
    references: dict[str, float]
    limit: float = LIMIT

    @property
    def agrees(self) -> bool:
        return bool(self.comparisons) and all(c.agrees(self.limit) for c in self.comparisons)

    @property
    def verdict(self) -> str:
        """One sentence."""
        wrong = [c.name for c in self.comparisons if not c.agrees(self.limit)]
        if not wrong and self.comparisons:
            return f"theory and simulation agree: all |z| <= {self.limit:g}"
        return f"theory and simulation disagree (|z| > {self.limit:g}): {', '.join(wrong) or 'nothing was compared'}"

    def to_dict(self) -> dict[str, Any]:
        """The JSON object that ``replica check --json`` prints (infinite or undefined numbers as null)."""

        def number(value: float) -> float | None:
            return value if np.isfinite(value) else None

        rows = [{"name": c.name} | {column: number(getattr(c, column)) for column in COLUMNS} for c in self.comparisons]
        references = {k: number(v) for k, v in self.references.items()}
        summary = {"limit": self.limit, "agrees": self.agrees, "verdict": self.verdict}
        return {"model": self.model, "settings": self.settings, "comparisons": rows, "references": references} | summary

    def table(self) -> Table:
        """For the terminal."""
        table = Table("", "theory", "(error)", "simulation", "(s.e.)", "z", title=f"{self.model}: theory against simulation")
        for c in self.comparisons:
            table.add_row(c.name, f"{c.theory:.6g}", f"{c.theory_error:.1g}", f"{c.mean:.6g}", f"{c.standard_error:.2g}", f"{c.z:+.2f}")
        for name, value in self.references.items():
            table.add_row(name, f"{value:.6g}", "", "", "", "")
        return table

    def to_dataset(self) -> xr.Dataset:
        """The comparisons along a dimension ``comparison``, to be merged with the trajectories and stored."""
        variables = {name: ("comparison", [getattr(c, name) for c in self.comparisons]) for name in COLUMNS}
        attrs = {"kind": "check", "model": self.model, "limit": self.limit, "agrees": self.agrees, "settings": self.settings}
        return xr.Dataset(variables, {"comparison": [c.name for c in self.comparisons]}, attrs | {"references": self.references})
