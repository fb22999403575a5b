"""Figures (the only module that imports matplotlib, inside functions: it costs half a second)."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..files.writer import check_target, write_bytes
from ..inputs import nearest

# Okabe-Ito, distinguishable with every common colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
SHADE = "#F0E442"
STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
GREY = "#666666"
WIDE = 20.0
"""Ratio of two values beyond which an axis between them is logarithmic."""
FORMATS = (".png", ".pdf", ".svg")
EMBEDDED = {"pdf.fonttype": 42, "ps.fonttype": 42}
"""TrueType fonts in the file, which publishers ask for."""
SHEETS: dict[str, dict[str, Any]] = {
    "default": (
        EMBEDDED
        | {
            "figure.figsize": (5.2, 3.8),
            "figure.dpi": 150,
            "legend.fontsize": 8,
            "hatch.linewidth": 0.5,
        }
    ),
    "paper": (
        EMBEDDED
        | {
            "figure.figsize": (3.4, 2.5),
            "figure.dpi": 300,
            "font.size": 8,
            "axes.titlesize": 8,
            "axes.labelsize": 8,
            "legend.fontsize": 7,
            "xtick.labelsize": 7,
            "ytick.labelsize": 7,
            "axes.linewidth": 0.5,
            "lines.linewidth": 1.0,
            "lines.markersize": 3,
            "hatch.linewidth": 0.4,
            "xtick.major.width": 0.5,
            "ytick.major.width": 0.5,
            "xtick.minor.width": 0.4,
            "ytick.minor.width": 0.4,
            "xtick.major.size": 2.5,
            "ytick.major.size": 2.5,
            "xtick.minor.size": 1.5,
            "ytick.minor.size": 1.5,
            "legend.handlelength": 1.8,
            "legend.labelspacing": 0.3,
            "legend.borderaxespad": 0.3,
        }
    ),
}
"""For a screen, and for one column of a two-column paper (3.4 inches, 8 pt; panels above each
other).
"""
STACKED = ("paper",)
_STYLE: ContextVar[str] = ContextVar("style", default="default")


def line_look(number: int) -> dict[str, Any]:
    """Colour and line style of the curves of one axis; both change, for prints without colour."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": STYLES[number % len(STYLES)],
    }


def label(variable: Any) -> str:
    """Math text of a variable, from its ``latex`` attribute."""
    latex = variable.attrs.get("latex")
    return f"${latex}$" if latex else str(variable.name).replace("_", " ")


def check_style(style: str) -> None:
    """Refuse a style that does not exist."""
    if style not in SHEETS:
        raise InputError(f"there is no style {style!r}: {nearest(style, SHEETS)}")


@contextmanager
def drawn_as(style: str) -> Iterator[None]:
    """Figures made inside the block have this style (InputError if there is none of this name)."""
    check_style(style)
    from matplotlib import rc_context

    token = _STYLE.set(style)
    try:
        with rc_context(SHEETS[style]):
            yield
    finally:
        _STYLE.reset(token)


def new_figure(panels: int) -> tuple[Any, list[Any]]:
    """A figure without a display in the style that is set, with its panels side by side (above each
    other in one column of a paper).
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    style = _STYLE.get()
    sheet = SHEETS[style]

    class Shown(Figure):
        """A figure that keeps its style when it is saved, and that a notebook shows
        without pyplot.
        """

        def savefig(self, *args: Any, **kwargs: Any) -> None:
            with rc_context(sheet):
                super().savefig(*args, **kwargs)

        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png")
            return buffer.getvalue()

    width, height = sheet["figure.figsize"]
    rows, columns = (panels, 1) if style in STACKED else (1, panels)
    figure = Shown(
        figsize=(width * columns, height * rows), layout="constrained", dpi=sheet["figure.dpi"]
    )
    return figure, list(np.ravel(figure.subplots(rows, columns, squeeze=False)))


def legend_above(
    figure: Any, panel: Any, columns: int = 2, handles: list[Any] | None = None
) -> None:
    """The legend of a panel (or of given handles) above the figure, where it hides nothing."""
    if handles is None:
        handles, _ = panel.get_legend_handles_labels()
    figure.legend(handles=handles, loc="outside upper center", ncols=columns, frameon=False)


def fill_cells(
    panel: Any, cells: Sequence[tuple[tuple[float, float], float, float]], text: str, **style: Any
) -> Any:
    """Rectangles (corner, width, height) in one style; returns what stands for them in a legend."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Patch, Rectangle

    panel.add_collection(PatchCollection([Rectangle(*c) for c in cells], **style))
    return Patch(**style, label=text)


def legend_line(text: str, **style: Any) -> Any:
    """A line for a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=text, **style)


def colour_map(count: int) -> Any:
    """The colour map of risks, in so many shades (more only make a file larger); even in lightness,
    for every colour vision.
    """
    from matplotlib import colormaps

    return colormaps["cividis"].resampled(count)


def scale_of(low: float, high: float) -> str:
    """The scale for values between two: logarithmic if they span a large factor."""
    return "log" if 0 < WIDE * low < high else "linear"


def scaled(panel: Any, x: str, y: str) -> None:
    """The scales of both axes; where one is logarithmic, with the values written out."""
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    panel.set(xscale=x, yscale=y)
    for axis, scale in ((panel.xaxis, x), (panel.yaxis, y)):
        if scale == "log":
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter(FormatStrFormatter("%g"))
            axis.set_minor_formatter(NullFormatter())


def round_levels(low: float, high: float, most: int = 8) -> np.ndarray:
    """At most so many levels with short names between two values; 1, 2, 5, 10, ... if the values
    span a large factor.
    """
    from matplotlib.ticker import LogLocator, MaxNLocator

    if scale_of(low, high) == "log":
        levels = LogLocator(subs=(1, 2, 5), numticks=most).tick_values(low, high)
    else:
        levels = MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    return np.round(levels[(levels > low) & (levels < high)], 12)


def save_figure(figure: Any, path: Path, force: bool = False) -> Path:
    """Write a figure as PNG, PDF or SVG.

    Raises
    ------
    InputError
        Unknown format.
    StoreError
        Missing folder, an existing file without ``force``, or a full or read-only disk.
    """
    path = Path(path)
    check_figure_target(path, force)
    # Smaller files, the same pixels.
    how = {"pil_kwargs": {"optimize": True}} if path.suffix.lower() == ".png" else {}
    image = io.BytesIO()
    try:
        figure.savefig(image, format=path.suffix[1:].lower(), **how)
    except ValueError as problem:  # such as a label with math text that there is not
        said = " ".join(str(problem).split())[:200]
        raise InputError(f"the figure cannot be drawn: {said}") from problem
    write_bytes(path, image.getvalue(), force)
    return path


def check_figure_target(path: Path, force: bool) -> None:
    """Refuse a figure path before anything is computed."""
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"cannot write {path}: use a name that ends in .png, .pdf or .svg")
    check_target(path, force)
