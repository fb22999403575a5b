"""Theory against simulation: a table of means, standard errors and z-scores with one verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr
from rich.table import Table

from equations import Model

from ..theories import Branch, theory_of

LIMIT = 4.0
"""|z| above which theory and simulation disagree."""
COLUMNS = (
    "theory",
    "theory_error",
    "mean",
    "standard_error",
    "extrapolated",
    "extrapolated_error",
    "residual",
    "z",
)
NAN = float("nan")


@dataclass(frozen=True)
class Comparison:
    """One quantity: theory and the error of the theory, mean over independent trials and its
    standard error.

    z = (value - theory)/sqrt(error^2 + theory_error^2) with the value extrapolated to D = infinity
    and its error where there is one, else the mean and its standard error. ``sizes`` lists (D,
    mean, standard error), the largest D being that of ``mean``. What was measured without an error
    cannot be ``classify``.
    """

    name: str
    theory: float
    mean: float
    standard_error: float
    theory_error: float = 0.0
    extrapolated: float = NAN
    extrapolated_error: float = NAN
    sizes: tuple[tuple[float, float, float], ...] = ()
    classify: bool = True

    @property
    def final(self) -> tuple[float, float]:
        """What is held against the theory, and its error."""
        if len(self.sizes) < 2:
            return self.mean, self.standard_error
        return self.extrapolated, self.extrapolated_error

    @property
    def residual(self) -> float:
        """Simulation minus theory."""
        return self.final[0] - self.theory

    @property
    def z(self) -> float:
        gap, spread = self.residual, float(np.hypot(self.final[1], self.theory_error))
        if spread > 0 or np.isnan(spread):
            return gap / spread
        # Without any spread a gap is infinitely significant, and no gap is agreement.
        if not np.isfinite(gap):
            return NAN
        return 0.0 if gap == 0 else float(np.copysign(np.inf, gap))

    def agrees(self, limit: float = LIMIT) -> bool:
        """|z| <= limit; False for NaN. Without an error anything finite."""
        if not self.classify:
            return bool(np.isfinite(self.residual))
        return abs(self.z) <= limit


def standard_error_of(model: Model, branch: Branch, name: str) -> float:
    """One standard error of the theory, which z adds to that of the simulation; the whole error
    where it is a bound.
    """
    return branch.error[name] / theory_of(model).error_in_sigmas


def compare(name: str, samples: Any, theory: Any, theory_error: float = 0.0) -> Comparison:
    """Independent samples against a number, or against one theoretical value per sample (paired:
    the standard error is that of the difference).
    """
    samples = np.asarray(samples, dtype=float)
    expected = np.broadcast_to(np.asarray(theory, dtype=float), samples.shape)
    error = NAN
    if samples.size > 1:
        error = float(np.std(samples - expected, ddof=1) / np.sqrt(samples.size))
    return Comparison(
        name, float(expected.mean()), float(samples.mean()), error, float(theory_error)
    )


def compare_sizes(
    name: str, samples: Mapping[int, Any], theory: float, theory_error: float = 0.0
) -> Comparison:
    """Independent samples at several sizes D against the number expected at D = infinity: mean(D) =
    a + b/D, weighted by the standard errors.

    With one size there is no extrapolation, and z holds its mean against the theory, finite-size
    effect included.
    """
    rows = []
    for d, values in sorted(samples.items()):
        at_size = compare(name, values, 0.0)
        rows.append((d, at_size.mean, at_size.standard_error))
    value, error = intercept(*np.array(rows).T) if len(rows) > 1 else (NAN, NAN)
    _, mean, standard_error = rows[-1]
    return Comparison(
        name, float(theory), mean, standard_error, float(theory_error), value, error, tuple(rows)
    )


def intercept(size: np.ndarray, mean: np.ndarray, error: np.ndarray) -> tuple[float, float]:
    """a of mean = a + b/size and its standard error, by weighted least squares (unweighted where
    nothing varies).
    """
    if np.all(error == 0):
        return intercept(size, mean, np.ones_like(mean))[0], 0.0
    if not np.all(error > 0):  # NaN too
        return NAN, NAN
    design = np.stack([np.ones_like(size), 1 / size], axis=1) / error[:, None]
    covariance = np.linalg.inv(design.T @ design)
    return float((covariance @ design.T @ (mean / error))[0]), float(np.sqrt(covariance[0, 0]))


def compare_share(name: str, hits: Any, theory: float) -> Comparison:
    """The share of trials in which something happens against its probability.

    The standard error is the binomial one at the theoretical probability, at least that of half a
    trial: at probability 0 or 1 it would be zero.
    """
    hits = np.asarray(hits, dtype=float)
    error = max(np.sqrt(theory * (1 - theory) / hits.size), 0.5 / hits.size)
    return Comparison(name, float(theory), float(hits.mean()), float(error))


@dataclass(frozen=True)
class Report:
    """The comparisons of one run, what was run, and reference values that take no part in the
    verdict.

    Attributes
    ----------
    model : str
    settings : dict
        What was run.
    comparisons : tuple of Comparison
    references : dict of name -> float
    limit : float
        ``|z|`` above which theory and simulation disagree.
    problems : tuple of str
        What went wrong while computing either side: with one of them there is no agreement.
    reasons : tuple of str
        Why theory and simulation may differ: quoted when they do.
    dataset : xarray.Dataset or None
        What is stored: the comparisons, and every trial of the simulation.
    """

    model: str
    settings: dict[str, Any]
    comparisons: tuple[Comparison, ...]
    references: dict[str, float]
    limit: float = LIMIT
    problems: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    dataset: xr.Dataset | None = field(default=None, compare=False, repr=False)

    @property
    def agrees(self) -> bool:
        return (
            bool(self.comparisons)
            and not self.problems
            and all(c.agrees(self.limit) for c in self.comparisons)
        )

    @property
    def verdict(self) -> str:
        """One sentence."""
        if self.agrees:
            return self._agreement()
        wrong = [c.name for c in self.comparisons if not c.agrees(self.limit)]
        if self.problems and not wrong:
            return f"no verdict, although all |z| <= {self.limit:g}: {'; '.join(self.problems)}"
        because = "".join(f"; {reason}" for reason in (*self.problems, *self.reasons))
        return (
            f"theory and simulation disagree (|z| > {self.limit:g}):"
            f" {', '.join(wrong) or 'nothing was compared'}{because}"
        )

    def _agreement(self) -> str:
        """The verdict where nothing disagrees: what came without error is only listed."""
        blind = [c for c in self.comparisons if not c.classify]
        agree = f"theory and simulation agree: all |z| <= {self.limit:g}"
        if not blind:
            return agree
        if len(blind) == len(self.comparisons):
            agree = "no verdict"
        worst = max(blind, key=lambda c: abs(c.residual))
        return (
            f"{agree}; {len(blind)} values came without error, their largest residual is"
            f" {worst.residual:+.3g} ({worst.name})"
        )

    def to_dict(self) -> dict[str, Any]:
        """The JSON object that ``replica check --json`` prints (infinite or undefined numbers as
        null).
        """
        return {
            "model": self.model,
            "settings": self.settings,
            "comparisons": [_row(c) for c in self.comparisons],
            "references": {name: _number(value) for name, value in self.references.items()},
            "limit": self.limit,
            "agrees": self.agrees,
            "verdict": self.verdict,
            "problems": list(self.problems),
            "reasons": list(self.reasons),
        }

    def table(self) -> Table:
        """For the terminal."""
        wide = any(len(c.sizes) > 1 for c in self.comparisons)
        table = Table(
            "",
            "theory",
            "simulation",
            "1/D -> 0" if wide else "residual",
            "z",
            title=f"{self.model}: theory against simulation",
        )
        for c in self.comparisons:
            last = f"{c.residual:+.2g}"
            if wide:
                last = _with_error(c.extrapolated, c.extrapolated_error)
            table.add_row(
                c.name,
                _with_error(c.theory, c.theory_error),
                _with_error(c.mean, c.standard_error),
                last,
                f"{c.z:+.2f}",
            )
        return table

    def notes(self) -> list[str]:
        """The reference values, one line each."""
        return [f"{name}: {value:.6g}" for name, value in self.references.items()]

    def to_dataset(self) -> xr.Dataset:
        """The comparisons along a dimension ``comparison``, to be merged with the trajectories and
        stored.
        """
        variables = {}
        for name in COLUMNS:
            variables[name] = ("comparison", [getattr(c, name) for c in self.comparisons])
        attrs = {
            "kind": "check",
            "model": self.model,
            "limit": self.limit,
            "agrees": self.agrees,
            "settings": self.settings,
        }
        attrs |= {"references": self.references, "verdict": self.verdict}
        return xr.Dataset(variables, {"comparison": [c.name for c in self.comparisons]}, attrs)


def _number(value: float) -> float | None:
    """For JSON, which has neither inf nor nan."""
    return value if np.isfinite(value) else None


def _row(c: Comparison) -> dict[str, Any]:
    """A comparison in JSON."""
    row: dict[str, Any] = {"name": c.name}
    for column in COLUMNS:
        row[column] = _number(getattr(c, column))
    if c.sizes:
        row["sizes"] = [{"D": d, "mean": m, "standard_error": _number(e)} for d, m, e in c.sizes]
    return row


def _with_error(value: float, error: float) -> str:
    return f"{value:.5g} +- {error:.1g}"
