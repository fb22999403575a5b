"""Figures, one function each, found by scanning this folder: a new file needs no line elsewhere."""

from importlib import import_module
from pkgutil import iter_modules

# Each module registers its figures when it is imported. The order of the alphabet does not matter:
# two figures may not claim the same files.
for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
