"""Stored results as tables: pandas frames and CSV files, one for each set of dimensions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from ..errors import InputError
from . import schema, store, writer

Tables = dict[tuple[str, ...], pd.DataFrame]


def to_tables(dataset: xr.Dataset) -> Tables:
    """The variables of a dataset as tables, keyed by their dimensions.

    Parameters
    ----------
    dataset : xarray.Dataset
        What ``sweep``, ``phase_diagram``, ``curve`` return or ``load`` reads.

    Returns
    -------
    dict of tuple of str -> pandas.DataFrame
        One row for each place on the grid. Columns: the dimensions and coordinates, the fixed
        controls, the variables; beside a code with meanings, such as ``status``, its sentence as
        ``status_message``. A sweep gives one table.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, variable in dataset.data_vars.items():
        groups.setdefault(tuple(map(str, variable.dims)), []).append(str(name))
    return {dims: _table(dataset, dims, names) for dims, names in groups.items()}


def _table(dataset: xr.Dataset, dims: tuple[str, ...], names: list[str]) -> pd.DataFrame:
    part = dataset[names]
    if dims:
        frame = part.to_dataframe(dim_order=list(dims)).reset_index()
    else:
        frame = pd.DataFrame({name: [part[name].item()] for name in names})
    for name in names:
        if meanings := schema.meanings(part[name]):
            frame.insert(
                int(frame.columns.get_loc(name)) + 1,
                f"{name}_message",
                [_meaning(meanings, code) for code in frame[name]],
            )
    fixed = {k: v for k, v in (dataset.attrs.get("controls") or {}).items() if k not in frame}
    for place, (name, value) in enumerate(fixed.items()):
        frame.insert(len(dims) + place, name, value)
    return frame


def _meaning(meanings: Any, code: float) -> str:
    known = np.isfinite(code) and 0 <= int(code) < len(meanings)
    return meanings[int(code)] if known else ""


def to_csv(source: Path, target: Path, *, force: bool = False) -> list[Path]:
    """Write the tables of a stored file as CSV, every number with all its digits, missing ones as
    nan.

    One table goes to ``target`` itself; several go beside it, named by their dimensions
    (``phase.nu.csv``, ``phase.nu.alpha.csv``).

    Returns
    -------
    list of Path
        What was written.
    """
    tables = to_tables(store.load(source))
    if not tables:
        raise InputError(f"{source} holds no variables: there is nothing to export")
    if target.suffix.lower() != ".csv":
        raise InputError(f"cannot export to {target}: the name must end in .csv")
    if len(tables) == 1:
        names = {target: next(iter(tables.values()))}
    else:
        names = {
            target.with_suffix("".join(f".{d}" for d in dims or ("single",)) + ".csv"): table
            for dims, table in tables.items()
        }
    for name in names:
        writer.check_target(name, force)
    for name, table in names.items():
        writer.write_text(name, table.to_csv(index=False, na_rep="nan"), force=force)
    return list(names)
