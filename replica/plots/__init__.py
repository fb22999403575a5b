"""Figures, one function each, found by scanning this folder: a new file needs no line elsewhere."""

from importlib import import_module
from pkgutil import iter_modules

from .base import COLOURS, SHADE, STYLES, legend_above, new_figure, save_figure
from .manifold import draw_manifold
from .subspace import draw_ascent
from .sweeps import best_branch, hard_phase, shade_hard, valid

# For figures of one's own.
__all__ = [
    "COLOURS",
    "SHADE",
    "STYLES",
    "best_branch",
    "draw_ascent",
    "draw_manifold",
    "hard_phase",
    "legend_above",
    "new_figure",
    "save_figure",
    "shade_hard",
    "valid",
]

# Each module registers its figures when it is imported. The order of the alphabet does not matter:
# two figures may not claim the same files.
for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
