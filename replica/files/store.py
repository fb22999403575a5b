"""Files: a labelled dataset to HDF5 and back, without loss. The only module that imports h5py; how
bytes reach the disk is in writer.py.

Schema 1: one HDF5 dataset per variable; controls and ``branch`` are dimension scales, so that
netCDF-4 readers see named coordinates. The attribute ``metadata_json``, on the root and on each
variable, holds what HDF5 cannot (None, bool, tuple, dict, ...); plain attributes repeat the
readable part for other programs, ``load`` ignores them.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import math
import os
import platform
import secrets
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import xarray as xr

from ..errors import StoreError
from .writer import Name, check_target, check_unlocked, reason, write_bytes

FORMAT, SCHEMA = "replica-solver", 1
_METADATA = "metadata_json"
_READABLE = ("latex", "units", "long_name", "description", "flag_meanings", "model", "command")
_PACKAGES = ("replica-solver", "numpy", "jax", "sympy", "h5py", "scipy")
_NO_VARIABLE = (  # the wording is part of netCDF-4
    "This is a netCDF dimension but not a netCDF variable. {:10d}"
)


def save(path: Name, dataset: xr.Dataset, *, force: bool = False) -> Path:
    """Write ``dataset`` to ``path``, completely or not at all.

    Parameters
    ----------
    path : path
        In an existing folder. A link is followed, not replaced.
    dataset : xarray.Dataset
        Variables of real numbers, bools or text; attributes of JSON-like values, tuples and arrays.
    force : bool
        Replace an existing file.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    StoreError
        The name is taken, the folder is missing or full, another run is writing there, or a value
        has no encoding.
    """
    check_target(path, force)
    check_unlocked(path)
    return rewrite(path, dataset, force=force)


def rewrite(path: Name, dataset: xr.Dataset, *, force: bool = True) -> Path:
    """As ``save``, by who holds the lock on ``path``."""
    write_bytes(path, _image(dataset), force)
    return Path(path)


def _image(dataset: xr.Dataset) -> bytes:
    """The bytes of the file. Built in memory, so that a full disk is met by Python and never inside
    HDF5.
    """
    part = "dataset"
    with h5py.File(secrets.token_hex(8), "w", driver="core", backing_store=False) as file:
        try:
            _put_root(file, dataset)
            # Dimensions first: the other variables are attached to them.
            for name in [
                *dataset.sizes,
                *(name for name in dataset.variables if name not in dataset.sizes),
            ]:
                part = f"variable {name}"
                _put_variable(file, name, dataset)
        except (TypeError, ValueError, RecursionError) as error:
            raise StoreError(f"the {part} cannot be stored: {error}") from error
        file.flush()  # the image is garbage without
        return file.id.get_file_image()


def _put_root(file: h5py.File, dataset: xr.Dataset) -> None:
    file.attrs["format"], file.attrs["schema_version"] = FORMAT, SCHEMA
    file.attrs["python_version"] = platform.python_version()
    for package, version in versions().items():
        file.attrs[f"{package.replace('-', '_')}_version"] = version
    # netCDF convention for coordinates that are not dimensions
    if others := " ".join(str(name) for name in dataset.coords if name not in dataset.sizes):
        file.attrs["coordinates"] = others
    _put_attributes(
        file, dataset.attrs, variables=list(dataset.variables), coords=list(dataset.coords)
    )


def versions() -> dict[str, str]:
    """Of this package and of those that decide its numbers.

    Returns
    -------
    dict of name -> str
        "unknown" for a package without metadata.
    """
    return dict(_installed())


@cache
def _installed() -> dict[str, str]:
    """Read once: the metadata of a package takes milliseconds."""
    found = dict.fromkeys(_PACKAGES, "unknown")
    for package in found:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def _put_variable(file: h5py.File, name: Any, dataset: xr.Dataset) -> None:
    if not isinstance(name, str) or name in ("", ".") or "/" in name or "\0" in name:
        raise ValueError("its name must be text without '/': rename it")
    if name not in dataset.variables:
        return file.create_dataset(name, data=np.zeros(dataset.sizes[name])).make_scale(
            _NO_VARIABLE.format(dataset.sizes[name])
        )
    variable = dataset.variables[name]
    values = np.asarray(variable.values)
    kind, dtype = values.dtype.kind, values.dtype.str
    if kind in "UT" or (kind == "O" and all(isinstance(v, str) for v in values.flat)):
        values, kind, dtype = values.astype(object), "U", "U" if kind == "T" else dtype
    elif kind not in "biuf" or values.dtype.itemsize > 8:
        raise TypeError(f"its type is {values.dtype}, convert it to real numbers or text")
    data = values.astype(np.int8) if kind == "b" else values
    stored = file.create_dataset(
        name, data=data, dtype=h5py.string_dtype() if kind == "U" else None
    )
    if kind == "b":
        stored.attrs["dtype"] = "bool"  # xarray's convention; HDF5 has no bool
    for axis, dim in enumerate(variable.dims):
        if dim == name:
            stored.make_scale(name)
        else:
            stored.dims[axis].attach_scale(file[dim])
    _put_attributes(stored, variable.attrs, dims=list(variable.dims), dtype=dtype)


def _put_attributes(stored: Any, attrs: Mapping[Any, Any], **metadata: Any) -> None:
    stored.attrs[_METADATA] = encoded({"attrs": attrs, **metadata})
    for name in _READABLE:
        if (value := attrs.get(name)) is not None:  # always text: netCDF readers fail on bools
            text = str(value) if isinstance(value, str) else json.dumps(_encode(value))
            # HDF5 text is UTF-8 without NUL; where this loses something, the JSON has the original.
            stored.attrs[name] = text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def load(path: Name) -> xr.Dataset:
    """Read what ``save`` wrote, into memory; StoreError says why it cannot be read and what to do.

    Parameters
    ----------
    path : path
        A file of this package, of any schema version up to its own.

    Returns
    -------
    xarray.Dataset
        Equal to what was saved, attributes included.

    Raises
    ------
    StoreError
        It says why the file cannot be read, and what to do.
    """
    try:
        with open(path, "rb") as stream:
            if stream.read(8) != b"\x89HDF\r\n\x1a\n":
                raise StoreError(
                    f"{path} is not an HDF5 file (or its beginning is lost): give a file written by"
                    " replica-solver"
                )
        with h5py.File(path, "r") as file:
            return _READERS[_schema(path, file)](file)
    except (OSError, RuntimeError, LookupError, ValueError, TypeError, AttributeError) as error:
        raise StoreError(f"{path} {_unreadable(path, error)}") from error


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


def _schema(path: Name, file: h5py.File) -> int:
    if str(file.attrs.get("format")) != FORMAT:
        raise StoreError(
            f"{path} is an HDF5 file that replica-solver did not write: open it with the program"
            " that did"
        )
    schema = int(str(file.attrs["schema_version"]))
    if schema > max(_READERS):
        raise StoreError(
            f"{path} was written with schema {schema}, this version reads up to {max(_READERS)}:"
            " update replica-solver"
        )
    return schema


def _read_v1(file: h5py.File) -> xr.Dataset:
    metadata = json.loads(str(file.attrs[_METADATA]), object_hook=_decode)
    variables = {name: _read_variable(file[name]) for name in metadata["variables"]}
    return xr.Dataset(variables, attrs=metadata["attrs"]).set_coords(metadata["coords"])


def _read_variable(stored: Any) -> xr.Variable:
    metadata = json.loads(stored.attrs[_METADATA], object_hook=_decode)
    values = stored.asstr()[()] if h5py.check_string_dtype(stored.dtype) else stored[()]
    array = np.asarray(values, dtype=metadata["dtype"])
    # The fast path takes an array as it is. The other one asks whether it is one of dask's, for
    # which xarray imports dask, if that is installed: longer than all the rest of reading a file.
    return xr.Variable(metadata["dims"], array, metadata["attrs"], fastpath=True)


_READERS: dict[int, Callable[[h5py.File], xr.Dataset]] = {1: _read_v1}


def encoded(value: Any) -> str:
    """Metadata as the text that is stored: equal texts are equal values, also for NaN
    and arrays.
    """
    return json.dumps(_encode(value), allow_nan=False)


def _encode(value: Any) -> Any:
    """To JSON; what JSON has no word for becomes an object whose one key starts with $."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": str(float(value))}
    if isinstance(value, list | tuple):
        items = [_encode(v) for v in value]
        return items if isinstance(value, list) else {"$tuple": items}
    if isinstance(value, Mapping):
        pairs = [[_encode(k), _encode(v)] for k, v in value.items()]
        plain = all(isinstance(k, str) and not k.startswith("$") for k, _ in pairs)
        return dict(pairs) if plain else {"$dict": pairs}
    array = np.asarray(value)  # of numpy or jax; of anything else an object
    if (
        not hasattr(value, "__array__")
        or array.dtype.kind not in "biufUO"
        or array.dtype.char == "g"
    ):
        raise TypeError(
            f"no encoding for {value!r} ({type(value).__name__}): use real numbers, text, lists,"
            " tuples, dicts or arrays"
        )
    return {"$array": [array.dtype.str, array.shape, [_encode(v) for v in array.ravel().tolist()]]}


def _decode(content: dict[str, Any]) -> Any:
    """Hook of ``json.loads``, called on the innermost objects first."""
    tag = next(iter(content), "")
    if tag == "$array":
        dtype, shape, values = content[tag]
        flat = np.empty(len(values), dtype)
        for i, v in enumerate(values):  # one by one: an object array may hold lists
            flat[i] = v
        return flat.reshape(shape)[()]
    return (
        {"$float": float, "$tuple": tuple, "$dict": dict}[tag](content[tag])
        if tag.startswith("$")
        else content
    )
