"""Files: a labelled dataset to HDF5 and back, without loss. How bytes reach the disk is in
writer.py, what a file may hold and how it is read in reading.py.

Schema 2: one HDF5 dataset per variable; controls and ``branch`` are dimension scales, so that
netCDF-4 readers see named coordinates. The attribute ``metadata_json``, on the root and on each
variable, holds what HDF5 cannot (None, bool, tuple, dict, ...); plain attributes repeat the
readable part for other programs. The root attribute ``digests_json`` holds a digest of each of
these texts and of each variable's values. Schema 1 has none.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import secrets
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import xarray as xr

from ..errors import StoreError
from . import digest, reading, schema, seal
from .layout import DIGESTS, METADATA, plain_of_root, plain_of_variable
from .limits import LARGEST
from .metadata import encoded
from .writer import Name, check_target, check_unlocked, write_bytes

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


def rewrite(
    path: Name, dataset: xr.Dataset, *, force: bool = True, grid: Sequence[str] = ()
) -> Path:
    """As ``save``, by who holds the lock on ``path``; ``grid`` are the dimensions whose points are
    computed one by one, and can be again.
    """
    write_bytes(path, _image(dataset, grid), force)
    return Path(path)


def _image(dataset: xr.Dataset, grid: Sequence[str]) -> bytes:
    """The bytes of the file. Built in memory, so that a full disk is met by Python and never inside
    HDF5.
    """
    part = "dataset"
    with h5py.File(secrets.token_hex(8), "w", driver="core", backing_store=False) as file:
        try:
            schema.check(dataset)
            if dataset.nbytes > LARGEST:
                raise ValueError(f"it is larger than {LARGEST} bytes: store it in parts")
            digests: dict[str, Any] = {"root": _put_root(file, dataset), "variables": {}}
            # Dimensions first: the other variables are attached to them.
            for name in [
                *dataset.sizes,
                *(name for name in dataset.variables if name not in dataset.sizes),
            ]:
                part = f"variable {name}"
                of_this = _put_variable(file, name, dataset)
                if of_this is not None:
                    digests["variables"][name] = of_this
            part = "dataset"
            there = bool(grid) and set(grid) <= set(dataset.sizes)
            points = digest.of_points(dataset, grid) if there else []
            digests["points"] = {"dims": list(grid), "digests": points}
            file.attrs[DIGESTS] = encoded(digests)
        except (TypeError, ValueError, RecursionError) as error:
            raise StoreError(f"the {part} cannot be stored: {error}") from error
        file.flush()  # the image is garbage without
        return seal.sealed(file.id.get_file_image(), map(_place, file.values()))


def _place(stored: h5py.Dataset) -> seal.Range:
    """Where the values of a variable stand; nowhere if they are texts, which are references."""
    offset = stored.id.get_offset()
    if offset is None or h5py.check_string_dtype(stored.dtype):
        return 0, 0
    return offset, stored.id.get_storage_size()


def _put_root(file: h5py.File, dataset: xr.Dataset) -> str:
    """Write the attributes of the file; returns their digest."""
    plain = {"python_version": platform.python_version()}
    for package, version in versions().items():
        plain[f"{package.replace('-', '_')}_version"] = version
    # netCDF convention for coordinates that are not dimensions
    if others := " ".join(str(name) for name in dataset.coords if name not in dataset.sizes):
        plain["coordinates"] = others
    metadata = {
        "attrs": dataset.attrs,
        "variables": list(dataset.variables),
        "coords": list(dataset.coords),
        "plain": plain,
    }
    return _put_attributes(file, metadata, plain_of_root(metadata))


def versions() -> dict[str, str]:
    """Of this package and of those that decide its numbers.

    Returns
    -------
    dict of name -> str
        "unknown" for a package without metadata.
    """
    return dict(_installed(_PACKAGES))


@cache
def _installed(packages: tuple[str, ...]) -> dict[str, str]:
    """Read once: the metadata of a package takes milliseconds."""
    found = dict.fromkeys(packages, "unknown")
    for package in found:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def _put_variable(file: h5py.File, name: Any, dataset: xr.Dataset) -> tuple[str, str] | None:
    """Write a variable; returns the digests of its attributes and of its values (None for an axis
    without values).
    """
    if not isinstance(name, str) or name in ("", ".") or "/" in name or "\0" in name:
        raise ValueError("its name must be text without '/': rename it")
    if name not in dataset.variables:
        axis = file.create_dataset(name, data=np.zeros(dataset.sizes[name]))
        axis.make_scale(_NO_VARIABLE.format(dataset.sizes[name]))
        return None
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
    for axis, dim in enumerate(variable.dims):
        if dim == name:
            stored.make_scale(name)
        else:
            stored.dims[axis].attach_scale(file[dim])
    metadata = {"attrs": variable.attrs, "dims": list(variable.dims), "dtype": dtype}
    of_attributes = _put_attributes(stored, metadata, plain_of_variable(variable))
    return of_attributes, digest.of_values(values)


def _put_attributes(stored: Any, metadata: Mapping[str, Any], plain: Mapping[str, Any]) -> str:
    """Write attributes, the plain ones for other programs; returns the digest of the metadata."""
    text = encoded(metadata)
    stored.attrs[METADATA] = text
    for name, value in plain.items():
        stored.attrs[name] = value
    return digest.of_text(text)


def load(path: Name) -> xr.Dataset:
    """Read what ``save`` wrote, into memory; StoreError says why it cannot be read and what to do.

    Parameters
    ----------
    path : path
        A file of this package, of any schema version up to its own; also one that xarray, h5netcdf
        or h5repack has saved again.

    Returns
    -------
    xarray.Dataset
        Equal to what was saved, attributes included. Its ``to_netcdf`` writes a file that ``load``
        reads.

    Raises
    ------
    StoreError
        It says why the file cannot be read, or what in it is damaged, and what to do.
    """
    stored = reading.read(path)
    reading.check_whole(path, stored)
    return stored.dataset
