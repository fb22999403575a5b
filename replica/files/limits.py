"""What a file may claim: held against its own size and against limits, before anything is read."""

from __future__ import annotations

import math
from typing import Any

import h5py
import numpy as np

from .metadata import LARGEST_TEXT

LARGEST = 2**31
"""Bytes of all variables of a file together, in memory."""
LARGEST_FILE = 2 * LARGEST
"""Bytes of a file."""
MOST_VARIABLES = 10_000
MOST_CHUNKS = 100_000
EXPANSION = 1032
"""By which factor compression may reduce a block: deflate cannot do more."""
FILTERS = {
    h5py.h5z.FILTER_DEFLATE,
    h5py.h5z.FILTER_SHUFFLE,
    h5py.h5z.FILTER_FLETCHER32,
    h5py.h5z.FILTER_SZIP,
    h5py.h5z.FILTER_LZF,
}
_NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable"


def check_layout(file: h5py.File, size: int) -> None:
    """Raise ValueError if a variable lies outside the file, or claims more than there is.

    Parameters
    ----------
    file : h5py.File
    size : int
        Bytes of the file.
    """
    if len(file) > MOST_VARIABLES:
        raise ValueError(f"it has more than {MOST_VARIABLES} variables")
    claimed = stored = 0
    for name in file:
        if not isinstance(file.get(name, getlink=True), h5py.HardLink):
            raise ValueError(f"{name} is a link, and what it points to is not read")
        if file.get(name, getclass=True) is not h5py.Dataset:
            continue  # a group: none of ours
        data = file[name]
        if str(attribute(data, "NAME")).startswith(_NO_VARIABLE):
            continue  # an axis without values, which is not read
        on_disk, in_memory = _sizes(data, size)
        stored += on_disk
        claimed += in_memory
    if stored > size:
        raise ValueError("its variables together claim more than the file holds")
    if claimed > LARGEST:
        raise ValueError(f"its variables are larger than {LARGEST} bytes")


def _sizes(data: h5py.Dataset, size: int) -> tuple[int, int]:
    """Bytes of a variable in the file and in memory, or why it is refused."""
    name = data.name
    if data.external or data.is_virtual:
        raise ValueError(f"{name} is stored in another file, which is not read")
    kind = data.dtype.kind
    if data.shape is None or not (kind in "biufS" or h5py.check_string_dtype(data.dtype)):
        raise ValueError(f"{name} is of no type that is stored")
    in_memory = math.prod(data.shape) * data.dtype.itemsize
    on_disk = data.id.get_storage_size()
    if data.chunks is None:
        place = data.id.get_offset()
        inside = on_disk <= size and (place is None or place + on_disk <= size)
        if not inside or in_memory > on_disk:
            raise ValueError(f"{name} claims more values than the file holds")
        return on_disk, in_memory
    return on_disk, max(in_memory, _chunked(data, on_disk, size))


def _chunked(data: h5py.Dataset, on_disk: int, size: int) -> int:
    """Bytes that the chunks of a variable unpack to, or why they are refused."""
    filters = data.id.get_create_plist()
    unknown = [filters.get_filter(i)[0] for i in range(filters.get_nfilters())]
    if set(unknown) - FILTERS:
        raise ValueError(f"{data.name} is compressed by a filter that is not used here")
    count = data.id.get_num_chunks()
    of_one = math.prod(data.chunks) * data.dtype.itemsize
    needed = math.prod(-(-n // m) for n, m in zip(data.shape, data.chunks, strict=True))
    if needed > count or count > MOST_CHUNKS or on_disk > size:
        raise ValueError(f"{data.name} claims more values than the file holds")
    wrong = data.id.chunk_iter(
        lambda chunk: (
            None
            if chunk.byte_offset + chunk.size <= size and of_one <= EXPANSION * chunk.size
            else chunk
        )
    )
    if wrong is not None:
        raise ValueError(f"{data.name} claims more values than the file holds")
    return count * of_one


def texts(data: h5py.Dataset) -> np.ndarray:
    """The texts of a variable, as objects.

    Many entries may refer to one long text of the file: where that could become too large, they are
    read one by one.

    Raises
    ------
    ValueError
        Together they are larger than the limit, or than it in an array of fixed width.
    """
    if 4 * data.size * data.file.id.get_filesize() <= LARGEST:
        return np.asarray(data.asstr()[()], object)
    values, total, longest = np.empty(data.shape, object), 0, 0
    for place in np.ndindex(data.shape):
        values[place] = data.asstr()[place]
        total += len(values[place])
        longest = max(longest, len(values[place]))
        if 4 * max(total, longest * data.size) > LARGEST:
            raise ValueError(f"the texts of {data.name} are larger than {LARGEST} bytes")
    return values


def attribute(stored: h5py.Group | h5py.Dataset, name: str) -> Any:
    """An attribute that is one value (other programs write an array of one); None if it is not."""
    if name not in stored.attrs:
        return None
    found = stored.attrs.get_id(name)
    if found.shape is None or math.prod(found.shape) != 1:
        return None
    if found.get_storage_size() > LARGEST_TEXT:
        raise ValueError(f"the attribute {name} is larger than {LARGEST_TEXT} bytes")
    value = stored.attrs[name]
    return value.item() if isinstance(value, np.ndarray) and value.size == 1 else value
