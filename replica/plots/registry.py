"""Which function draws a file: one figure is one function, registered under the kind of its files.

    @figure("phase diagram")
    def draw_phase(dataset, y): ...

The kind is the attribute ``kind`` of a dataset; a sweep has none and is of kind "sweep". Modules of
this folder register theirs when it is imported; a file of a user's own does the same from outside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import xarray as xr

from ..errors import InputError
from ..inputs import nearest

SWEEP = "sweep"
Draw = Callable[[xr.Dataset, str], Any]
When = Callable[[xr.Dataset], bool]
AnyDraw = TypeVar("AnyDraw", bound=Draw)


class Registered(NamedTuple):
    """A figure, and for which files."""

    kind: str
    draw: Draw
    when: When | None

    @property
    def home(self) -> tuple[str, str]:
        """Where the function is written: the same function registered again replaces itself."""
        return self.draw.__module__, self.draw.__qualname__


FIGURES: list[Registered] = []
"""In the order in which they were registered."""


def figure(kind: str, when: When | None = None) -> Callable[[AnyDraw], AnyDraw]:
    """Register the function that draws files of one kind.

    Parameters
    ----------
    kind : str
        The attribute ``kind`` of the files ("sweep" for those without one).
    when : function of a dataset, optional
        For which files of the kind. Such a figure goes before the one of the whole kind.

    Returns
    -------
    decorator
        For a function of (dataset, y) that returns a figure; ``y`` is the variable that was asked
        for.

    Raises
    ------
    InputError
        The kind has a figure already (give ``when`` to draw some of its files in another way).
    """

    def register(draw: AnyDraw) -> AnyDraw:
        new = Registered(kind, draw, when)
        # A cell of a notebook that is run again must not fail.
        others = [entry for entry in FIGURES if (entry.kind, entry.home) != (kind, new.home)]
        for entry in others:
            if entry.kind == kind and entry.when is None and when is None:
                raise InputError(
                    f"files of kind {kind!r} are drawn by {'.'.join(entry.home)} already: give"
                    " figure(kind, when=...) to draw some of them in another way"
                )
        FIGURES[:] = [*others, new]
        return draw

    return register


def kind_of(dataset: xr.Dataset) -> str:
    """The kind of a file."""
    return str(dataset.attrs.get("kind", SWEEP))


def kinds() -> list[str]:
    """The kinds that have a figure."""
    return sorted({entry.kind for entry in FIGURES})


def drawing_of(dataset: xr.Dataset) -> Draw:
    """The function that draws a file.

    Raises
    ------
    InputError
        Nobody has registered a figure of its kind.
    """
    kind = kind_of(dataset)
    of_kind = [entry for entry in FIGURES if entry.kind == kind]
    for entry in of_kind:
        if entry.when is not None and entry.when(dataset):
            return entry.draw
    for entry in of_kind:
        if entry.when is None:
            return entry.draw
    raise InputError(f"there is no figure for files of kind {kind!r}: {nearest(kind, kinds())}")
