"""Datasets that xarray itself can write as netCDF, whatever their attributes are."""

from __future__ import annotations

from typing import Any

import xarray as xr

from .layout import FORMAT, METADATA, SCHEMA, readable
from .metadata import encoded


class Dataset(xr.Dataset):
    """A dataset as ``load`` and ``sweep`` return it.

    Its ``to_netcdf`` writes attributes that netCDF has no word for (dicts, None, True) as text, and
    ``load`` reads them back.
    """

    __slots__ = ()

    def to_netcdf(self, *args: Any, **kwargs: Any) -> Any:
        """As ``xarray.Dataset.to_netcdf``."""
        return _with_plain_attributes(self).to_netcdf(*args, **kwargs)


def portable(dataset: xr.Dataset) -> Dataset:
    """The same dataset, which netCDF can write."""
    return Dataset(dataset.data_vars, dataset.coords, dataset.attrs)


def _with_plain_attributes(dataset: xr.Dataset) -> xr.Dataset:
    """The same with attributes that are numbers and texts."""
    variables = {}
    for name, variable in dataset.variables.items():
        text = encoded({"attrs": variable.attrs})
        attrs = readable(variable.attrs) | {METADATA: text}
        variables[name] = xr.Variable(variable.dims, variable.values, attrs, variable.encoding)
    head = {"format": FORMAT, "schema_version": SCHEMA, METADATA: encoded({"attrs": dataset.attrs})}
    plain = xr.Dataset(variables, attrs=readable(dataset.attrs) | head)
    return plain.set_coords(list(dataset.coords))
