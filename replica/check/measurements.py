"""A user's own simulations against the theory: a table with the controls, what was measured, and
its error if known.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr

from equations import Model
from solvers import Status

from ..errors import InputError, SolveError
from ..models import built as default
from ..models import family, resolve
from ..solution import Branch, Solution
from ..solve import solve
from ..sweeps.dataset import metadata
from ..theories import theory_of
from .report import Comparison, Report
from .trials import Log

ERROR = "error"
"""Columns of errors: this name, or the measured one's with _error."""


@dataclass(frozen=True)
class Row:
    """One line of the file: its model at its controls, the measured values and their errors (NaN if
    not given).
    """

    line: int
    model: Model
    values: dict[str, float]
    measured: dict[str, tuple[float, float]]


def read(path: Path, model: str | None, given: dict[str, Any]) -> list[Row]:
    """The rows of a CSV file; the model (if None) is named in a column, and controls that are the
    same for all rows may come from ``given``.

    Raises
    ------
    InputError
        The file cannot be read, a column is neither a control, an option nor measurable, or a
        number is missing.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, skipinitialspace=True)
            lines = [(reader.line_num, line) for line in reader]
            header = [str(name).strip() for name in reader.fieldnames or []]
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise InputError(f"cannot read {path}: {problem}") from None
    if not lines:
        raise InputError(
            f"{path} has no rows: the first line names the columns, each other line is one"
            " measurement"
        )
    if len({line.get("model") for _, line in lines}) > 1:
        raise InputError(f"{path} has more than one model: check one at a time")
    twice = next((name for name in header if header.count(name) > 1 or name in given), None)
    if twice is not None:
        raise InputError(f"{twice} is given twice: once in {path}, as a column or by --set")
    return [_row(path, number, line, model, given) for number, line in lines]


def _model(path: Path, entries: dict[str, str], model: str | None) -> str:
    named = entries.pop("model", model)
    if named is None:
        raise InputError(
            f"which model? Name it, as in: replica check slr-erm --csv {path}, or in a column"
            " called model"
        )
    if model is not None and named != model:
        raise InputError(f"{path} has measurements of {named}, not of {model}")
    family(named)  # refuses an unknown one
    return named


def _row(
    path: Path, number: int, line: dict[Any, Any], model: str | None, given: dict[str, Any]
) -> Row:
    where = f"{path}, line {number}"
    if None in line or None in line.values():
        raise InputError(f"{where}: it has not as many entries as the first line has names")
    entries = {name.strip(): value.strip() for name, value in line.items()}
    name = _model(path, entries, model)
    built = default(name, {})[0]
    measurable = [*(q.name for q in built.overlaps), *built.observables]
    found = [column for column in entries if column in measurable]
    errors = [
        column
        for column in entries
        if column == ERROR or column in [f"{m}_{ERROR}" for m in measurable]
    ]
    if not found:
        raise InputError(
            f"{path} has no measured quantity: name a column {', '.join(measurable[:6])} or another"
            f" observable of {name}"
        )
    try:
        built, values = resolve(
            name,
            given
            | {
                column: value
                for column, value in entries.items()
                if column not in [*found, *errors]
            },
        )
    except InputError as problem:
        raise InputError(f"{where}: {problem}") from None
    measured = {}
    for quantity in found:
        column = next((c for c in (f"{quantity}_{ERROR}", ERROR) if c in errors), None)
        error = _number(where, entries, column) if column else math.nan
        if error <= 0:
            raise InputError(f"{where}: the error {column} = {error:g} must be positive")
        measured[quantity] = (_number(where, entries, quantity), error)
    return Row(number, built, values, measured)


def _number(where: str, entries: dict[str, str], column: str) -> float:
    try:
        value = float(entries[column])
    except ValueError:
        raise InputError(f"{where}: {column} = {entries[column]!r} is not a number") from None
    if not math.isfinite(value):
        raise InputError(f"{where}: {column} = {value} is not finite")
    return value


def check(
    path: Path,
    model: str | None,
    given: dict[str, Any],
    start: str = "best",
    tell: Log = lambda _: None,
) -> tuple[Report, xr.Dataset]:
    """The rows of ``path`` against the theory at their controls, on the branch from ``start`` or
    the one of best free energy.
    """
    rows = read(path, model, given)
    solutions: dict[Any, Solution] = {}
    for row in rows:
        key = _key(row)
        if key not in solutions:
            solutions[key] = solve(row.model, **row.values)
            tell(f"theory: {len(solutions)} of {len({_key(r) for r in rows})}")
    branches = [branch_of(solutions[_key(row)], start, f"{path}, line {row.line}") for row in rows]
    varying = [n for n in rows[0].values if len({row.values.get(n) for row in rows}) > 1]
    comparisons, places = [], []
    for row, branch in zip(rows, branches, strict=True):
        expected, scale = (
            {**branch.overlaps, **branch.observables},
            1 / theory_of(row.model).error_in_sigmas,
        )
        where = ", ".join(f"{n}={row.values[n]:g}" for n in varying) or f"line {row.line}"
        for name, (value, error) in row.measured.items():
            theory_error, classify = scale * branch.error[name], not math.isnan(error)
            comparisons.append(
                Comparison(
                    f"{name} at {where}",
                    expected[name],
                    value,
                    error,
                    theory_error,
                    classify=classify,
                )
            )
            places.append((name, row))
    reasons = {
        f"{b.start}: {b.status.value}" for b in branches if b.status is not Status.SUCCESSFUL
    }
    report = Report(
        rows[0].model.name,
        _settings(path, given, start),
        tuple(comparisons),
        {},
        reasons=tuple(sorted(reasons)),
    )
    return report, _dataset(report, places, rows)


def _key(row: Row) -> Any:
    return id(row.model), tuple(row.values.items())


def branch_of(solution: Solution, start: str, where: str) -> Branch:
    """The branch from ``start``, or with "best" that of best free energy; SolveError if it is no
    solution.
    """
    if start != "best":
        branch = solution.branch(start)
    elif solution.best is None:
        branch = solution.branches[0]
    else:
        branch = solution.branches[solution.best]
    if not branch.ok:
        raise SolveError(f"{where}: the theory has no solution here: {branch.status.value}")
    return branch


def _settings(path: Path, given: dict[str, Any], start: str) -> dict[str, Any]:
    return {k: str(v) for k, v in given.items()} | {"csv": str(path), "start": start}


def _dataset(report: Report, places: list[tuple[str, Row]], rows: list[Row]) -> xr.Dataset:
    """The comparisons with what was measured and where: ``quantity`` and ``at_<control>``."""
    labels = {q.name: {"latex": q.label, "long_name": q.meaning} for q in rows[0].model.controls}
    controls = [n for n in rows[0].values if all(n in row.values for row in rows)]
    where = {
        f"at_{n}": ("comparison", [row.values[n] for _, row in places], labels[n]) for n in controls
    }
    table = report.to_dataset().assign(
        {"quantity": ("comparison", [name for name, _ in places])} | where
    )
    return table.assign_attrs(metadata(rows[0].model, rows[0].values) | table.attrs)
