"""A user's own simulations against the theory: a table with the controls, what was measured, and
its error if known.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import xarray as xr

from equations import Model
from equations.numerals import real, shown
from solvers import Status

from ..errors import InputError, SolveError
from ..files.table import read_text_table
from ..models import family
from ..models.own_model import is_file
from ..solution import Branch, Solution
from ..solve import solve
from ..sweeps.dataset import metadata
from .base import Asked, Experiment, Log, experiment, silent
from .options import MeasurementOptions
from .points import Points
from .report import Comparison, Report, standard_error_of

Named = str | os.PathLike[str] | Model | None
"""How a model is given; None: the table names it."""


@dataclass(frozen=True)
class Row:
    """One line of the file: its model at its controls, the measured values and their errors (NaN if
    not given).
    """

    line: int
    model: Model
    values: dict[str, float]
    measured: dict[str, tuple[float, float]]

    @property
    def point(self) -> Any:
        """Rows of one point share a solution."""
        return id(self.model), tuple(self.values.items())


@dataclass(frozen=True)
class Table:
    """The rows of a file, the settings that they share, and the branch of the theory."""

    path: Path
    rows: list[Row]
    given: Mapping[str, Any]
    start: str


# reading ------------------------------------------------------------------------------------------


def read_table(path: Path, model: Named, given: Mapping[str, Any]) -> list[Row]:
    """The rows of a CSV file; the model (if None) is named in a column, and controls that are the
    same for all rows may come from ``given``.

    Raises
    ------
    InputError
        The file cannot be read, a column is neither a control, an option nor measurable, or a
        number is missing.
    """
    table = read_text_table(path)
    header, lines = table.header, table.rows
    if len({line.get("model") for _, line in lines}) > 1:
        raise InputError(f"{path} has more than one model: check one at a time")
    twice = next((name for name in header if header.count(name) > 1 or name in given), None)
    if twice is not None:
        raise InputError(f"{twice} is given twice: once in {path}, as a column or by --set")
    points = Points.of(path, _model(path, lines[0][1], model), given, header)
    return [_row(f"{path}, line {number}", number, line, points) for number, line in lines]


def _model(path: Path, entries: dict[str, str], model: Named) -> str | os.PathLike[str] | Model:
    """The model of a table with this line."""
    asked = model.name if isinstance(model, Model) else model
    named = entries.get("model", asked)
    if named is None:
        raise InputError(
            f"which model? Name it, as in: replica check slr-erm --csv {path}, or in a column"
            " called model"
        )
    if asked is not None and named != asked:
        raise InputError(f"{path} has measurements of {named}, not of {asked}")
    if isinstance(model, Model):
        return model
    if model is None and is_file(named):  # only who runs the command may say what is executed
        raise InputError(
            f"{path} names a model file, {shown(named)}, which is executed only if you name it: as"
            f" in replica check FILE.py --csv {path}"
        )
    family(named)  # refuses an unknown one
    return named


def _row(where: str, number: int, line: dict[str, str], points: Points) -> Row:
    entries = {name: text for name, text in line.items() if name != "model"}
    try:
        chosen, values = points.at(entries)
    except InputError as problem:
        raise InputError(f"{where}: {problem}") from None
    measured = {name: _measured(where, entries, name, points) for name in points.measured}
    return Row(number, chosen, values, measured)


def _measured(
    where: str, entries: dict[str, str], name: str, points: Points
) -> tuple[float, float]:
    """A value and its error: the quantity's own, else that of the line, else NaN."""
    column = points.error_of(name)
    error = _number(where, entries, column) if column else math.nan
    if error <= 0:
        raise InputError(f"{where}: the error {column} = {error:g} must be positive")
    return _number(where, entries, name), error


def _number(where: str, entries: dict[str, str], column: str) -> float:
    try:
        value = real(entries[column])
    except ValueError as problem:
        raise InputError(f"{where}: {column} = {shown(entries[column])} {problem}") from None
    if not math.isfinite(value):
        raise InputError(f"{where}: {column} = {value} is not finite")
    return value


# comparing ----------------------------------------------------------------------------------------


@experiment("csv")
class Measurements(Experiment):
    """The rows of a table against the theory at their controls."""

    options: ClassVar[type] = MeasurementOptions
    of_one_model: ClassVar[bool] = False
    label: ClassVar[str] = "--csv"

    def applies(self, asked: Asked) -> bool:
        return asked.csv is not None

    def prepare(self, asked: Asked, options: MeasurementOptions) -> Table:
        path = Path(asked.csv)
        return Table(path, read_table(path, asked.model, asked.given), asked.given, options.start)

    def perform(self, prepared: Table, tell: Log = silent) -> Report:
        branches = _branches(prepared, tell)
        rows = prepared.rows
        comparisons, places = [], []
        for row, branch, where in zip(rows, branches, _places(rows), strict=True):
            for name in row.measured:
                comparisons.append(_comparison(row, branch, name, where))
                places.append((name, row))
        reasons = set()
        for branch in branches:
            if branch.status is not Status.SUCCESSFUL:
                reasons.add(f"{branch.start}: {branch.status.value}")
        report = Report(
            rows[0].model.name,
            _settings(prepared),
            tuple(comparisons),
            {},
            reasons=tuple(sorted(reasons)),
        )
        return replace(report, dataset=_dataset(report, places, rows))


def _branches(table: Table, tell: Log) -> list[Branch]:
    """The theory of every row; rows of one point share a solution."""
    solutions: dict[Any, Solution] = {}
    points = len({row.point for row in table.rows})
    for row in table.rows:
        if row.point not in solutions:
            solutions[row.point] = solve(row.model, **row.values)
            tell(f"theory: {len(solutions)} of {points}")
    found = []
    for row in table.rows:
        where = f"{table.path}, line {row.line}"
        found.append(chosen_branch(solutions[row.point], table.start, where))
    return found


def _places(rows: list[Row]) -> list[str]:
    """How each row is called: by the controls that vary, or by its line if none does."""
    varying = []
    for name in rows[0].values:
        if len({row.values.get(name) for row in rows}) > 1:
            varying.append(name)
    if not varying:
        return [f"line {row.line}" for row in rows]
    return [", ".join(f"{name}={row.values[name]:g}" for name in varying) for row in rows]


def _comparison(row: Row, branch: Branch, name: str, where: str) -> Comparison:
    value, error = row.measured[name]
    return Comparison(
        f"{name} at {where}",
        {**branch.overlaps, **branch.observables}[name],
        value,
        error,
        standard_error_of(row.model, branch, name),
        classify=not math.isnan(error),
    )


def chosen_branch(solution: Solution, start: str, where: str) -> Branch:
    """The branch from ``start``, or with "best" that of best free energy; SolveError if it is no
    solution.
    """
    if start == "best":
        branch = solution.equilibrium or solution.branches[0]
    else:
        branch = solution.branch(start)
    if not branch.ok:
        raise SolveError(f"{where}: the theory has no solution here: {branch.status.value}")
    return branch


def _settings(table: Table) -> dict[str, Any]:
    shared = {name: str(value) for name, value in table.given.items()}
    return shared | {"csv": str(table.path), "start": table.start}


def _dataset(report: Report, places: list[tuple[str, Row]], rows: list[Row]) -> xr.Dataset:
    """The comparisons with what was measured and where: ``quantity`` and ``at_<control>``."""
    labels = {q.name: {"latex": q.label, "long_name": q.meaning} for q in rows[0].model.controls}
    controls = [n for n in rows[0].values if all(n in row.values for row in rows)]
    where: dict[str, Any] = {"quantity": ("comparison", [name for name, _ in places])}
    for n in controls:
        where[f"at_{n}"] = ("comparison", [row.values[n] for _, row in places], labels[n])
    table = report.to_dataset().assign(where)
    return table.assign_attrs(metadata(rows[0].model, rows[0].values) | table.attrs)
