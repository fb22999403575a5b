"""Figures (the only module that imports matplotlib, inside functions: it costs half a second)."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from solvers import Status

from .errors import InputError
from .settings import nearest

# Okabe-Ito, distinguishable with every common colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
SHADE = "#F0E442"
STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
FORMATS = (".png", ".pdf", ".svg")


def label(variable: Any) -> str:
    """Math text of a variable, from its ``latex`` attribute."""
    latex = variable.attrs.get("latex")
    return f"${latex}$" if latex else str(variable.name).replace("_", " ")


def draw(dataset: xr.Dataset, y: str = "risk") -> Any:
    """A figure of one variable of a sweep.

    One swept control: a curve per branch, failed points as gaps, and the hard phase (two branches, the
    better one not reached from the uninformed start) shaded. Two: a map of the best branch with contours.

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

    A model with an equilibrium of its own (Bayes-optimal) gives two curves, the algorithm's (uninformed start) and the
    information-theoretic one (best free energy); a trained predictor the branch of lowest energy.

    Raises
    ------
    InputError
        The sweeps are not over one and the same control, or one has no such variable.
    """
    axes = [[str(d) for d in dataset.sizes if d != "branch"] for dataset in datasets]
    if any(len(a) != 1 or a != axes[0] for a in axes):
        raise InputError(f"the sweeps are over {', '.join('x'.join(a) or 'nothing' for a in axes)}: on one axis they must share their one control")
    missing = [str(d.attrs.get("title", "a file")) for d in datasets if y not in d.data_vars]
    if missing:
        raise InputError(f"{missing[0]} has no variable {y!r}: choose another with --y")
    figure, (panel,) = new_figure(1)
    lines = [line for dataset in datasets for line in _named_curves(dataset, y)]
    for i, (name, values, error) in enumerate(lines):
        x, order = values[axes[0][0]].values, np.argsort(values[axes[0][0]].values)
        panel.plot(x[order], values.values[order], color=COLOURS[i % 7], linestyle=STYLES[i % 5], label=name)
        panel.fill_between(x[order], (values - error).values[order], (values + error).values[order], color=COLOURS[i % 7], alpha=0.2, linewidth=0)
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
    energy, largest = valid(dataset, "free_energy"), dataset.attrs.get("best", "largest") == "largest"
    score = energy.fillna(-np.inf if largest else np.inf)
    return score.argmax("branch") if largest else score.argmin("branch")


def new_figure(panels: int) -> tuple[Any, list[Any]]:
    """A figure without a display, with its panels side by side."""
    from matplotlib.figure import Figure

    class Shown(Figure):
        """A figure that a notebook shows without pyplot."""

        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png")
            return buffer.getvalue()

    figure = Shown(figsize=(5.2 * panels, 3.8), layout="constrained", dpi=150)
    return figure, list(np.ravel(figure.subplots(1, panels, squeeze=False)))


def valid(dataset: xr.Dataset, y: str) -> xr.DataArray:
    """The variable with its failed points as NaN (drawn as gaps)."""
    return dataset[y].where(dataset["status"].isin(Status.point_codes()))


def hard_phase(dataset: xr.Dataset) -> xr.DataArray:
    """Where another branch than the uninformed one is better by free energy (and distinct from it)."""
    energy = valid(dataset, "free_energy").fillna(-np.inf if dataset.attrs.get("best", "largest") == "largest" else np.inf)
    if "uninformed" not in dataset.branch or dataset.sizes["branch"] < 2:
        return xr.zeros_like(energy.isel(branch=0), dtype=bool)
    gain = (energy - energy.sel(branch="uninformed")) * (1 if dataset.attrs.get("best", "largest") == "largest" else -1)
    return (gain > 1e-7).any("branch")


def curves(panel: Any, dataset: xr.Dataset, y: str) -> None:
    """One curve per branch against the one swept control, the hard phase shaded."""
    (axis,) = (str(d) for d in dataset.sizes if d != "branch")
    x, values = dataset[axis].values, valid(dataset, y)
    order = np.argsort(x)
    for i, branch in enumerate(dataset.branch.values):
        panel.plot(x[order], values.sel(branch=branch).values[order], color=COLOURS[i % 7], linestyle=STYLES[i % 5], label=f"{branch} start")
    shade_hard(panel, x[order], hard_phase(dataset).values[order])
    panel.set(xlabel=label(dataset[axis]), ylabel=label(dataset[y]))
    panel.legend(frameon=False)


def shade_hard(panel: Any, x: np.ndarray, hard: np.ndarray) -> None:
    """Shade the interval of the hard phase."""
    if hard.any():
        panel.axvspan(x[hard].min(), x[hard].max(), color=SHADE, alpha=0.35, linewidth=0, label="hard phase")


def _map(figure: Any, panel: Any, dataset: xr.Dataset, y: str) -> None:
    pick = best_branch(dataset)
    first, second = (str(d) for d in dataset.sizes if d != "branch")
    values = valid(dataset, y).isel(branch=pick).transpose(second, first)
    mesh = panel.pcolormesh(dataset[first], dataset[second], values, cmap="cividis", shading="nearest")
    if min(values.shape) > 1 and np.isfinite(values.values).sum() > 3:
        lines = panel.contour(dataset[first], dataset[second], values, colors="white", linewidths=0.7)
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
    figure.savefig(path)
    return path


def check_figure_target(path: Path, force: bool) -> None:
    """Refuse a figure path before anything is computed."""
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"cannot write {path}: use a name that ends in .png, .pdf or .svg")
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: the folder {path.parent} does not exist, create it first")
    if path.exists() and not force:
        raise InputError(f"{path} exists: choose another name or pass --force")
