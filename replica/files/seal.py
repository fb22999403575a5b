"""The seal of a file: text behind the end of the HDF5 file that says what the file's bytes are.

HDF5 does not check what it reads and may crash at a flipped bit of its own structure. So before
HDF5 sees a sealed file, all of its bytes are checked except those of plain values, of which a wrong
one does no harm: it is found by the digest of its variable, and can be computed again. Programs
that read HDF5 ignore what stands behind its end; those that write a file again drop it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

Range = tuple[int, int]
"""Where values stand: offset and number of bytes."""

_BEGIN, _END = b"\nreplica-solver seal ", b" end of seal\n"


def sealed(image: bytes, values: Iterable[Range]) -> bytes:
    """The bytes of an HDF5 file with their seal; ``values`` are the places of plain values."""
    ranges = sorted(values)
    content = {"values": ranges, "sha256": _structure(image, ranges)}
    return image + _BEGIN + json.dumps(content).encode() + _END


def check(data: bytes) -> bool:
    """Whether the bytes of a file have a seal.

    Raises
    ------
    ValueError
        They have, and are not what was sealed, values apart.
    """
    begin = data.rfind(_BEGIN)
    if begin < 0 and not data.endswith(_END):
        return False
    # Half a seal is none: one flipped bit cannot hide both ends.
    if begin < 0 or not data.endswith(_END):
        raise ValueError("its seal is broken")
    try:
        content = json.loads(data[begin + len(_BEGIN) : -len(_END)])
        ranges, expected = _ranges(content["values"], begin), content["sha256"]
    except (ValueError, TypeError, KeyError):
        raise ValueError("its seal is broken") from None
    if _structure(data[:begin], ranges) != expected:
        raise ValueError("it is not what was written")
    return True


def _ranges(found: Any, size: int) -> list[Range]:
    """The ranges of a seal, in order and inside the file."""
    ranges, last = [], 0
    for offset, length in found:
        if type(offset) is not int or type(length) is not int:
            raise TypeError
        if not last <= offset <= offset + length <= size:
            raise ValueError
        ranges.append((offset, length))
        last = offset + length
    return ranges


def _structure(image: bytes, ranges: list[Range]) -> str:
    """The digest of all bytes outside the ranges."""
    content, last, view = hashlib.sha256(), 0, memoryview(image)
    for offset, length in ranges:
        content.update(view[last:offset])
        last = offset + length
    content.update(view[last:])
    return content.hexdigest()
