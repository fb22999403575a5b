"""Reading files that may be damaged, made by other programs, or made to do harm.

Nothing is allocated before the claim of the file has been held against its size and a limit;
nothing outside the file is read; what is read is held against the digests that were written.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import xarray as xr

from ..errors import ReplicaWarning, StoreError
from . import digest, schema, seal
from .layout import DIGESTS, FORMAT, METADATA, SCHEMA, plain_of_root, plain_of_variable
from .limits import LARGEST, LARGEST_FILE, attribute, check_layout, texts
from .metadata import decoded, dtype_of
from .netcdf import Dataset
from .writer import Name, lock_for_reading, reason

CHECKED = "every value and attribute is what was written"
NO_DIGESTS = "none (schema 1): damage to the numbers would not be noticed"
RESAVED = "none (saved again by {}): damage to the numbers would not be noticed"
_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_OTHERS_MARK = "_NCProperties"
"""The attribute by which netCDF libraries say that they wrote a file."""
_PROBLEMS = (
    OSError,
    RuntimeError,  # also of a text that is nested too deeply
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    ArithmeticError,
    MemoryError,
)
"""What HDF5, NumPy and JSON raise at a file that is not as it should be."""


@dataclass(frozen=True)
class Stored:
    """What a file has.

    Attributes
    ----------
    dataset : xarray.Dataset
    integrity : str
        How far it is known to be what was written.
    damaged : tuple of str
        Variables that are not.
    points : dict
        ``dims`` of the grid that was computed piece by piece, and the digests of its points.
    """

    dataset: xr.Dataset
    integrity: str
    damaged: tuple[str, ...] = ()
    points: dict[str, Any] | None = None


def read(path: Name) -> Stored:
    """All that a file has, and whether it is whole.

    Raises
    ------
    StoreError
        It cannot be read; damage to the values of variables is not raised but told.
    """
    try:
        # HDF5 sees it after this: it may crash at what a flipped bit makes of it.
        seal.check(_bytes(path))
        with h5py.File(path, "r") as file:
            found = _found(path, file)
        return _resaved(path) if found is None else found
    except _PROBLEMS as error:
        raise StoreError(f"{path} {_unreadable(path, error)}") from error


def _bytes(path: Name) -> bytes:
    """All of a file, if it is an HDF5 file and not too large."""
    with open(path, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        if stream.read(len(_SIGNATURE)) != _SIGNATURE:
            raise StoreError(
                f"{path} is not an HDF5 file (or its beginning is lost): give a file written by"
                " replica-solver"
            )
        if size > LARGEST_FILE:
            raise StoreError(f"{path} is larger than {LARGEST_FILE} bytes: it is not read")
        lock_for_reading(stream.fileno())
        stream.seek(0)
        return stream.read()


def check_whole(path: Name, stored: Stored) -> None:
    """Raise StoreError if variables are damaged."""
    if stored.damaged:
        names = ", ".join(stored.damaged[:3]) + (", ..." if len(stored.damaged) > 3 else "")
        raise StoreError(
            f"{path} is damaged, values of {names} are not what was written: repeat the command"
            " that made it with --resume, which computes damaged points again, or restore a copy"
        )


def _unreadable(path: Name, error: Exception) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "does not exist: check the name and the folder"
    if os.path.isdir(path):
        return "is a folder: give the name of a file in it"
    if (
        isinstance(error, BlockingIOError)
        or "unable to lock file" in str(error)
        or "already open" in str(error)
    ):
        return (
            "is locked, another program (such as a notebook) has it open for writing: close it"
            " there and try again"
        )
    if isinstance(error, PermissionError):
        return "may not be read, permission denied: ask its owner, or change its mode with chmod"
    return f"is truncated or damaged: restore a copy or compute it again ({reason(error)})"


def _found(path: Name, file: h5py.File) -> Stored | None:
    """The content of an open file; None if it is to be read by the conventions of netCDF."""
    if str(attribute(file, "format")) != FORMAT:
        raise StoreError(
            f"{path} is an HDF5 file that replica-solver did not write (or whose attributes another"
            " program has dropped): open it with the program that did"
        )
    version = int(str(attribute(file, "schema_version")))
    if version > SCHEMA:
        raise StoreError(
            f"{path} was written with schema {version}, this version reads up to {SCHEMA}: update"
            " replica-solver"
        )
    check_layout(file, Path(path).stat().st_size)
    others = _OTHERS_MARK in file.attrs
    try:
        found = READERS[version](file)
    except (LookupError, ValueError, TypeError):
        if others:
            return None
        raise
    if others and (found.damaged or found.integrity != CHECKED):
        return None
    schema.check(found.dataset)
    return found


# files of this package ---------------------------------------------------------------------------


def _read_v1(file: h5py.File) -> Stored:
    root = decoded(attribute(file, METADATA))
    variables = {}
    for name in _names(root):
        variables[name] = _variable(file[name], attribute(file[name], METADATA))
    return Stored(_dataset(variables, root), NO_DIGESTS)


def _read_v2(file: h5py.File) -> Stored:
    text, digests = attribute(file, METADATA), decoded(attribute(file, DIGESTS))
    if digest.of_text(str(text)) != digests["root"]:
        raise ValueError("its attributes are not what was written")
    root = decoded(text)
    names = _names(root)
    if set(names) != set(digests["variables"]):
        raise ValueError("it has not a digest for each variable")
    _check_plain(file, plain_of_root(root))
    variables, damaged = {}, []
    for name in names:
        text = attribute(file[name], METADATA)
        of_metadata, of_values = digests["variables"][name]
        if digest.of_text(str(text)) != of_metadata:
            raise ValueError(f"the attributes of {name} are not what was written")
        variables[name] = _variable(file[name], text)
        if digest.of_values(variables[name].values) != of_values:
            damaged.append(name)
        _check_plain(file[name], plain_of_variable(variables[name]))
    return Stored(_dataset(variables, root), CHECKED, tuple(damaged), digests["points"])


def _dataset(variables: dict[str, xr.Variable], root: Any) -> Dataset:
    dataset = Dataset(variables, attrs=root["attrs"])
    return dataset.set_coords(root["coords"])


READERS = {1: _read_v1, 2: _read_v2}


def _names(root: Any) -> list[str]:
    names = root["variables"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TypeError("its list of variables is no list of names")
    if len(set(names)) != len(names):
        raise ValueError("its list of variables has a name twice")
    return names


def _variable(stored: h5py.Dataset, text: Any) -> xr.Variable:
    """A variable, of which ``text`` are the metadata."""
    metadata = decoded(text)
    values = texts(stored) if h5py.check_string_dtype(stored.dtype) else stored[()]
    dtype = dtype_of(metadata["dtype"])
    if dtype.itemsize * stored.size > LARGEST:  # the width of a text is only claimed
        raise ValueError(f"{stored.name} claims more text than {LARGEST} bytes")
    array = np.asarray(values, dtype=dtype)
    # The fast path takes an array as it is. The other one asks whether it is one of dask's, for
    # which xarray imports dask, if that is installed: longer than all the rest of reading a file.
    return xr.Variable(metadata["dims"], array, metadata["attrs"], fastpath=True)


def _check_plain(stored: Any, expected: dict[str, Any]) -> None:
    """The attributes that other programs read must say the same as the metadata."""
    if _OTHERS_MARK in stored.file.attrs:
        return
    for name, value in expected.items():
        if attribute(stored, name) != value:
            raise ValueError(f"the attribute {name} is not what was written")


# files that other programs have saved again ------------------------------------------------------


def _resaved(path: Name) -> Stored:
    """A file of this package as netCDF: what is there may have been changed on purpose."""
    with h5py.File(path, "r") as file:
        program = _program(attribute(file, _OTHERS_MARK))
    with xr.open_dataset(path, engine="h5netcdf", decode_times=False) as opened:
        seen = opened.load()
    dataset = Dataset(seen.data_vars, seen.coords, _merged(seen.attrs))
    for variable in dataset.variables.values():
        variable.attrs = _merged(variable.attrs)
    schema.check(dataset)
    warnings.warn(
        f"{path} was saved again by {program}: its numbers are read, but damage to them would not"
        " be noticed",
        ReplicaWarning,
        stacklevel=2,
    )
    return Stored(dataset, RESAVED.format(program))


def _program(mark: Any) -> str:
    """The name of a netCDF library in what it writes of itself."""
    text = mark.decode("ascii", "replace") if isinstance(mark, bytes) else str(mark)
    libraries = [part for part in text.split(",") if not part.startswith(("version", "hdf5"))]
    return libraries[0] if libraries and len(libraries[0]) < 60 else "another program"


_OURS = ("format", "schema_version", METADATA, DIGESTS, "coordinates", "dtype", "python_version")


def _merged(attrs: dict[str, Any]) -> dict[str, Any]:
    """The attributes as this package had them, and those that were added since."""
    ours = decoded(attrs[METADATA])["attrs"] if METADATA in attrs else {}
    if not isinstance(ours, dict):
        raise TypeError("its attributes are no dict")
    added = {}
    for name, value in attrs.items():
        if name not in _OURS and name not in ours and not name.endswith("_version"):
            added[name] = value.item() if getattr(value, "size", 0) == 1 else value
    return ours | added


# what a run that is continued can use ------------------------------------------------------------


def lost_points(path: Name, stored: Stored, dims: Sequence[str]) -> np.ndarray:
    """Which points of the grid of ``dims`` are damaged.

    Raises
    ------
    StoreError
        More than values of points is damaged.
    """
    lost = np.zeros([stored.dataset.sizes[d] for d in dims], bool)
    if not stored.damaged:
        return lost
    points = stored.points
    if points is not None and len(points["digests"]) != lost.size:
        points = None
    outside = set(stored.damaged) - set(digest.covered(stored.dataset, dims))
    if points is None or outside or list(points["dims"]) != list(dims):
        names = ", ".join(sorted(outside or stored.damaged))
        raise StoreError(
            f"{path} is damaged in {names}, which is no result of single points: restore a copy, or"
            " compute it again with --force"
        )
    now = digest.of_points(stored.dataset, dims)
    lost[...] = np.reshape(np.array(now) != np.array(points["digests"]), lost.shape)
    if not lost.any():
        lost[...] = True  # the digests of the points were written for other values
    return lost
