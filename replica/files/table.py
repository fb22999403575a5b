"""A table of text: what spreadsheets, pandas and R write, read as columns of strings."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError

SEPARATORS = ",;\t"
LARGEST = 500_000_000
"""Bytes of a file."""
INDEX = ("", "Unnamed: 0")
"""Names of the first column if it only numbers the rows, as pandas and R write it."""


@dataclass(frozen=True)
class TextTable:
    """The names of the columns, and the rows with the number of their line."""

    header: list[str]
    rows: list[tuple[int, dict[str, str]]]


def read_text_table(path: Path) -> TextTable:
    """A file of values separated by commas, semicolons or tabs; the first line names the columns.

    Raises
    ------
    InputError
        It cannot be read, or its lines have not as many entries as its first one.
    """
    text = _text(path)
    first = text.lstrip("\r\n").partition("\n")[0]
    separator = max(SEPARATORS, key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
    try:
        lines = [(reader.line_num, [entry.strip() for entry in line]) for line in reader if line]
    except csv.Error as problem:
        raise InputError(f"cannot read {path}: {problem}") from None
    if len(lines) < 2:
        raise InputError(
            f"{path} has no rows: the first line names the columns, each other line is one"
            " measurement"
        )
    header = lines[0][1]
    for number, line in lines[1:]:
        if len(line) != len(header):
            raise InputError(
                f"{path}, line {number}: it has not as many entries as the first line has names"
                f" ({len(line)}, not {len(header)})"
            )
    skipped = int(header[0] in INDEX and _counts([line[0] for _, line in lines[1:]]))
    header = header[skipped:]
    if "" in header:
        raise InputError(f"{path} has a column without a name: name it in the first line")
    return TextTable(
        header, [(n, dict(zip(header, line[skipped:], strict=True))) for n, line in lines[1:]]
    )


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST:
            raise InputError(f"{path} is larger than {LARGEST / 1e6:.0f} MB: split it")
        data = path.read_bytes()
        wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
        return data.decode("utf-16" if wide else "utf-8").lstrip("\ufeff")
    except UnicodeDecodeError as problem:
        raise InputError(f"cannot read {path}: {problem}: save it as UTF-8") from None
    except OSError as problem:
        raise InputError(f"cannot read {path}: {problem}") from None


def _counts(entries: list[str]) -> bool:
    """Whether the entries are 0, 1, 2, ... or 1, 2, 3, ..."""
    first = entries[0]
    return first in ("0", "1") and entries == [str(int(first) + i) for i in range(len(entries))]
