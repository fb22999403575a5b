"""Where a file has what: names of attributes, and the plain ones that repeat what is readable for
other programs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import xarray as xr

from .metadata import encoded

FORMAT, SCHEMA = "replica-solver", 2
METADATA = "metadata_json"
DIGESTS = "digests_json"
READABLE = ("latex", "units", "long_name", "description", "flag_meanings", "model", "command")


def readable(attrs: Mapping[Any, Any]) -> dict[str, str]:
    """Attributes for other programs, always text: netCDF readers fail on bools."""
    found = {}
    for name in READABLE:
        if (value := attrs.get(name)) is not None:
            text = str(value) if isinstance(value, str) else encoded(value)
            # HDF5 text is UTF-8 without NUL; where this loses something, the metadata have it.
            found[name] = text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
    return found


def plain_of_root(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The plain attributes of a file; versions of packages and the like stand in its metadata."""
    head = {"format": FORMAT, "schema_version": SCHEMA}
    return head | metadata["plain"] | readable(metadata["attrs"])


def plain_of_variable(variable: xr.Variable) -> dict[str, Any]:
    """Those of a variable."""
    # xarray's convention: HDF5 has no bool.
    kind = {"dtype": "bool"} if variable.dtype.kind == "b" else {}
    return kind | readable(variable.attrs)
