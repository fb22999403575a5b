"""Figures (the only module that imports matplotlib, inside functions: it costs half a second)."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from solvers import Status

from ..errors import InputError
from ..inputs import nearest

# Okabe-Ito, distinguishable with every common colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
SHADE = "#F0E442"
STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
GREY = "#666666"
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


def draw(dataset: xr.Dataset, y: str = "risk") -> Any:
    """A figure of one variable of a sweep.

    One swept control: a curve per branch, failed points as gaps, and the hard phase (two branches,
    the better one not reached from the uninformed start) shaded. Two: a map of the best branch with
    contours.

    Raises
    ------
    InputError
        No such variable, or not one or two swept controls.
    """
    names = [str(v) for v in dataset.data_vars]
    if y not in names:
        y_known = [n for n in names if not n.startswith("error_")]
        raise InputError(f"the file has no variable {y!r}: {nearest(y, y_known)}")
    axes = [str(d) for d in dataset.sizes if d != "branch"]
    if len(axes) not in (1, 2):
        raise InputError(f"cannot draw {len(axes)} swept controls: sweep one or two")
    figure, panel = new_figure(1)
    if len(axes) == 1:
        curves(panel[0], dataset, y)
    else:
        _map(figure, panel[0], dataset, y)
    return figure


def draw_together(datasets: Sequence[xr.Dataset], y: str = "risk") -> Any:
    """One variable of several sweeps over the same control on one axis.

    A model with an equilibrium of its own (Bayes-optimal) gives two curves, the algorithm's
    (uninformed start) and the information-theoretic one (best free energy); a trained predictor the
    branch of lowest energy.

    Raises
    ------
    InputError
        The sweeps are not over one and the same control, or one has no such variable.
    """
    axes = [[str(d) for d in dataset.sizes if d != "branch"] for dataset in datasets]
    if any(len(a) != 1 or a != axes[0] for a in axes):
        raise InputError(
            f"the sweeps are over {', '.join('x'.join(a) or 'nothing' for a in axes)}: on one axis"
            " they must share their one control"
        )
    missing = [str(d.attrs.get("title", "a file")) for d in datasets if y not in d.data_vars]
    if missing:
        raise InputError(f"{missing[0]} has no variable {y!r}: choose another with --y")
    figure, (panel,) = new_figure(1)
    lines = [line for dataset in datasets for line in _named_curves(dataset, y)]
    for i, (name, values, error) in enumerate(lines):
        x, order = values[axes[0][0]].values, np.argsort(values[axes[0][0]].values)
        panel.plot(
            x[order],
            values.values[order],
            color=COLOURS[i % 7],
            linestyle=STYLES[i % 5],
            label=name,
        )
        panel.fill_between(
            x[order],
            (values - error).values[order],
            (values + error).values[order],
            color=COLOURS[i % 7],
            alpha=0.2,
            linewidth=0,
        )
    first = datasets[0]
    panel.set(xlabel=label(first[axes[0][0]]), ylabel=label(first[y]))
    panel.legend(frameon=False)
    return figure


def _named_curves(dataset: xr.Dataset, y: str) -> Iterator[tuple[str, xr.DataArray, xr.DataArray]]:
    """(legend, values, errors) of the curves of one sweep."""
    options = dataset.attrs.get("options", {})
    name = str(options.get("activation") or dataset.attrs.get("model", ""))
    error = dataset[f"error_{y}"] if f"error_{y}" in dataset else xr.zeros_like(dataset[y])
    values, pick = valid(dataset, y), best_branch(dataset)
    if str(dataset.attrs.get("model", "")).endswith("bayes") and "uninformed" in dataset.branch:
        yield "Bayes, algorithmic", values.sel(branch="uninformed"), error.sel(branch="uninformed")
        yield "Bayes, information-theoretic", values.isel(branch=pick), error.isel(branch=pick)
    else:
        ridge = ", best ridge" if "optimised" in dataset.attrs else ""
        yield f"{name}{ridge}", values.isel(branch=pick), error.isel(branch=pick)


def best_branch(dataset: xr.Dataset) -> xr.DataArray:
    """Number of the branch with the best free energy at each point."""
    energy, largest = (
        valid(dataset, "free_energy"),
        dataset.attrs.get("best", "largest") == "largest",
    )
    score = energy.fillna(-np.inf if largest else np.inf)
    return score.argmax("branch") if largest else score.argmin("branch")


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
    handles = panel.get_legend_handles_labels()[0] if handles is None else handles
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


def shades(count: int) -> Any:
    """The colour map of risks, in so many shades (more only make a file larger); even in lightness,
    for every colour vision.
    """
    from matplotlib import colormaps

    return colormaps["cividis"].resampled(count)


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

    if 0 < 20 * low < high:
        levels = LogLocator(subs=(1, 2, 5), numticks=most).tick_values(low, high)
    else:
        levels = MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    return np.round(levels[(levels > low) & (levels < high)], 12)


def valid(dataset: xr.Dataset, y: str) -> xr.DataArray:
    """The variable with its failed points as NaN (drawn as gaps)."""
    return dataset[y].where(dataset["status"].isin(Status.point_codes()))


def hard_phase(dataset: xr.Dataset) -> xr.DataArray:
    """Where another branch than the uninformed one is better by free energy (and
    distinct from it).
    """
    energy = valid(dataset, "free_energy").fillna(
        -np.inf if dataset.attrs.get("best", "largest") == "largest" else np.inf
    )
    if "uninformed" not in dataset.branch or dataset.sizes["branch"] < 2:
        return xr.zeros_like(energy.isel(branch=0), dtype=bool)
    gain = (energy - energy.sel(branch="uninformed")) * (
        1 if dataset.attrs.get("best", "largest") == "largest" else -1
    )
    return (gain > 1e-7).any("branch")


def curves(panel: Any, dataset: xr.Dataset, y: str) -> None:
    """One curve per branch against the one swept control, the hard phase shaded."""
    (axis,) = (str(d) for d in dataset.sizes if d != "branch")
    x, values = dataset[axis].values, valid(dataset, y)
    order = np.argsort(x)
    for i, branch in enumerate(dataset.branch.values):
        panel.plot(
            x[order],
            values.sel(branch=branch).values[order],
            color=COLOURS[i % 7],
            linestyle=STYLES[i % 5],
            label=f"{branch} start",
        )
    shade_hard(panel, x[order], hard_phase(dataset).values[order])
    panel.set(xlabel=label(dataset[axis]), ylabel=label(dataset[y]))
    panel.legend(frameon=False)


def shade_hard(panel: Any, x: np.ndarray, hard: np.ndarray) -> None:
    """Shade the interval of the hard phase."""
    if hard.any():
        panel.axvspan(
            x[hard].min(), x[hard].max(), color=SHADE, alpha=0.35, linewidth=0, label="hard phase"
        )


def _map(figure: Any, panel: Any, dataset: xr.Dataset, y: str) -> None:
    pick = best_branch(dataset)
    first, second = (str(d) for d in dataset.sizes if d != "branch")
    values = valid(dataset, y).isel(branch=pick).transpose(second, first)
    mesh = panel.pcolormesh(
        dataset[first], dataset[second], values, cmap="cividis", shading="nearest"
    )
    if min(values.shape) > 1 and np.isfinite(values.values).sum() > 3:
        lines = panel.contour(
            dataset[first], dataset[second], values, colors="white", linewidths=0.7
        )
        panel.clabel(lines, fontsize=7)
    figure.colorbar(mesh, label=label(dataset[y]))
    panel.set(xlabel=label(dataset[first]), ylabel=label(dataset[second]))


def save_figure(figure: Any, path: Path, force: bool = False) -> Path:
    """Write a figure as PNG, PDF or SVG.

    Raises
    ------
    InputError
        Unknown format, missing folder, or an existing file without ``force``.
    """
    path = Path(path)
    check_figure_target(path, force)
    figure.savefig(
        path, **({"pil_kwargs": {"optimize": True}} if path.suffix.lower() == ".png" else {})
    )
    return path


def check_figure_target(path: Path, force: bool) -> None:
    """Refuse a figure path before anything is computed."""
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"cannot write {path}: use a name that ends in .png, .pdf or .svg")
    if not path.parent.is_dir():
        raise InputError(
            f"cannot write {path}: the folder {path.parent} does not exist, create it first"
        )
    if path.exists() and not force:
        raise InputError(f"{path} exists: choose another name or pass --force")
