"""Figures of sweeps: curves with the hard phase shaded, maps over two controls, and several sweeps
on one axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import xarray as xr

from equations.quantities import quantity
from solvers.result import Status

from ..errors import InputError
from ..inputs import nearest
from .base import SHADE, label, line_look, new_figure
from .registry import SWEEP, figure, kind_of

ALGORITHM = "uninformed"
"""The start from which an algorithm sets out; its branch is the one that algorithms reach."""
DISTINCT = 1e-7
"""Free energies that differ by more belong to different branches."""


# what a sweep says --------------------------------------------------------------------------------


def swept(dataset: xr.Dataset) -> list[str]:
    """The swept controls."""
    return [str(d) for d in dataset.sizes if d != "branch"]


def valid(dataset: xr.Dataset, y: str) -> xr.DataArray:
    """The variable with its failed points as NaN (drawn as gaps)."""
    return dataset[y].where(dataset["status"].isin(Status.point_codes()))


def _takes_largest(dataset: xr.Dataset) -> bool:
    """Whether the equilibrium has the largest free energy (a free entropy) or the smallest one."""
    return dataset.attrs.get("best", "largest") == "largest"


def best_branch(dataset: xr.Dataset) -> xr.DataArray:
    """Number of the branch with the best free energy at each point."""
    energy = valid(dataset, "free_energy")
    if _takes_largest(dataset):
        return energy.fillna(-np.inf).argmax("branch")
    return energy.fillna(np.inf).argmin("branch")


def hard_phase(dataset: xr.Dataset) -> xr.DataArray:
    """Where another branch than the uninformed one is better by free energy (and
    distinct from it).
    """
    largest = _takes_largest(dataset)
    energy = valid(dataset, "free_energy").fillna(-np.inf if largest else np.inf)
    if ALGORITHM not in dataset.branch or dataset.sizes["branch"] < 2:
        return xr.zeros_like(energy.isel(branch=0), dtype=bool)
    gain = (energy - energy.sel(branch=ALGORITHM)) * (1 if largest else -1)
    return (gain > DISTINCT).any("branch")


def has_algorithmic_branch(dataset: xr.Dataset) -> bool:
    """Whether a file holds two curves: that of algorithms and the information-theoretic one.

    So it is for a model with an equilibrium of its own (Bayes-optimal: the largest free entropy)
    that was solved from the uninformed start and from another one. A trained predictor minimises.
    """
    starts = dataset.branch.values if "branch" in dataset.coords else []
    return _takes_largest(dataset) and ALGORITHM in starts and len(starts) > 1


# one sweep ----------------------------------------------------------------------------------------


@figure(SWEEP)
def draw_sweep(dataset: xr.Dataset, y: str = "risk") -> Any:
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
        known = [n for n in names if not n.startswith("error_")]
        raise InputError(f"the file has no variable {y!r}: {nearest(y, known)}")
    axes = swept(dataset)
    if len(axes) not in (1, 2):
        raise InputError(f"cannot draw {len(axes)} swept controls: sweep one or two")
    drawing, (panel,) = new_figure(1)
    if len(axes) == 1:
        _curves(panel, dataset, y)
    else:
        _map(drawing, panel, dataset, y)
    return drawing


def _curves(panel: Any, dataset: xr.Dataset, y: str) -> None:
    """One curve per branch against the one swept control, the hard phase shaded."""
    (axis,) = swept(dataset)
    x, values = dataset[axis].values, valid(dataset, y)
    order = np.argsort(x)
    for i, branch in enumerate(dataset.branch.values):
        curve = values.sel(branch=branch).values
        panel.plot(x[order], curve[order], **line_look(i), label=f"{branch} start")
    shade_hard(panel, x[order], hard_phase(dataset).values[order])
    panel.set(xlabel=label(dataset[axis]), ylabel=label(dataset[y]))
    panel.legend(frameon=False)


def shade_hard(panel: Any, x: np.ndarray, hard: np.ndarray) -> None:
    """Shade the interval of the hard phase."""
    if hard.any():
        first, last = x[hard].min(), x[hard].max()
        panel.axvspan(first, last, color=SHADE, alpha=0.35, linewidth=0, label="hard phase")


def _map(drawing: Any, panel: Any, dataset: xr.Dataset, y: str) -> None:
    """The best branch over two controls, with contours."""
    first, second = swept(dataset)
    values = valid(dataset, y).isel(branch=best_branch(dataset)).transpose(second, first)
    x, height = dataset[first], dataset[second]
    mesh = panel.pcolormesh(x, height, values, cmap="cividis", shading="nearest")
    if min(values.shape) > 1 and np.isfinite(values.values).sum() > 3:
        lines = panel.contour(x, height, values, colors="white", linewidths=0.7)
        panel.clabel(lines, fontsize=7)
    drawing.colorbar(mesh, label=label(dataset[y]))
    panel.set(xlabel=label(x), ylabel=label(height))


# several sweeps -----------------------------------------------------------------------------------


def draw_together(datasets: Sequence[xr.Dataset], y: str = "risk") -> Any:
    """One variable of several sweeps over the same control on one axis.

    A model with an equilibrium of its own (Bayes-optimal) gives two curves, the algorithm's
    (uninformed start) and the information-theoretic one (best free energy); a trained predictor the
    branch of lowest energy.

    Raises
    ------
    InputError
        Not all are sweeps, they are not over one and the same control, or one has no such variable.
    """
    axis = _shared_axis(datasets)
    for dataset in datasets:
        if y not in dataset.data_vars:
            raise InputError(f"{_title(dataset)} has no variable {y!r}: choose another with --y")
    drawing, (panel,) = new_figure(1)
    for i, (name, values, error) in enumerate(_named_curves(datasets, y)):
        x = values[axis].values
        order = np.argsort(x)
        look = line_look(i)
        low, high = (values - error).values[order], (values + error).values[order]
        panel.plot(x[order], values.values[order], **look, label=name)
        panel.fill_between(x[order], low, high, color=look["color"], alpha=0.2, linewidth=0)
    panel.set(xlabel=label(datasets[0][axis]), ylabel=label(datasets[0][y]))
    panel.legend(frameon=False)
    return drawing


def _title(dataset: xr.Dataset) -> str:
    return str(dataset.attrs.get("title", "a file"))


def _shared_axis(datasets: Sequence[xr.Dataset]) -> str:
    """The one control that all are swept over."""
    for dataset in datasets:
        if kind_of(dataset) != SWEEP:
            raise InputError(
                f"{_title(dataset)} is stored as a {kind_of(dataset)}: draw it alone, only sweeps"
                " share an axis"
            )
    axes = [swept(dataset) for dataset in datasets]
    if any(len(a) != 1 or a != axes[0] for a in axes):
        raise InputError(
            f"the sweeps are over {', '.join('x'.join(a) or 'nothing' for a in axes)}: on one axis"
            " they must share their one control"
        )
    return axes[0][0]


def _named_curves(
    datasets: Sequence[xr.Dataset], y: str
) -> Iterator[tuple[str, xr.DataArray, xr.DataArray]]:
    """(legend, values, errors) of every curve."""
    for dataset, name in zip(datasets, legend_names(datasets), strict=True):
        values, best = valid(dataset, y), best_branch(dataset)
        error = dataset[f"error_{y}"] if f"error_{y}" in dataset else xr.zeros_like(dataset[y])
        if has_algorithmic_branch(dataset):
            reached = {"branch": ALGORITHM}
            yield f"{name}, algorithmic", values.sel(reached), error.sel(reached)
            name = f"{name}, information-theoretic"
        yield name, values.isel(branch=best), error.isel(branch=best)


# names of curves ----------------------------------------------------------------------------------


def legend_names(datasets: Sequence[xr.Dataset]) -> list[str]:
    """A name for each sweep. Where two would get the same one, what differs is added: the model,
    else the options, else the controls.
    """
    optimal = {d.attrs.get("model") for d in datasets if has_algorithmic_branch(d)}
    names = [_short_name(dataset, len(optimal) == 1) for dataset in datasets]
    models = [{"model": str(d.attrs.get("model", ""))} for d in datasets]
    options = [dict(d.attrs.get("options", {})) for d in datasets]
    controls = [dict(d.attrs.get("controls", {})) for d in datasets]
    for attributes, written in ((models, _value), (options, _option), (controls, _control)):
        names = _told_apart(names, attributes, written)
    return names


def _short_name(dataset: xr.Dataset, only_optimal_model: bool) -> str:
    model = str(dataset.attrs.get("model", ""))
    if has_algorithmic_branch(dataset):
        return "Bayes" if only_optimal_model else model
    # A predictor is known by its activation, if it has one.
    name = str(dataset.attrs.get("options", {}).get("activation") or model)
    return f"{name}, best ridge" if "optimised" in dataset.attrs else name


def _told_apart(
    names: Sequence[str], attributes: Sequence[dict[str, Any]], written: Any
) -> list[str]:
    """The names, those that are given more than once with the attributes that differ among them."""
    result = []
    for name, mine in zip(names, attributes, strict=True):
        same = [theirs for other, theirs in zip(names, attributes, strict=True) if other == name]
        differing = [key for key in mine if _differs(key, same)]
        result.append(", ".join([name, *(written(key, mine[key]) for key in differing)]))
    return result


def _differs(key: str, attributes: Iterable[dict[str, Any]]) -> bool:
    return len({str(a.get(key)) for a in attributes}) > 1


def _value(_: str, value: Any) -> str:
    return str(value)


def _option(name: str, value: Any) -> str:
    return f"{name.replace('_', ' ')} = {value}"


def _control(name: str, value: Any) -> str:
    """A control of the field by its symbol, one of a user's own by its name."""
    number = f"{value:g}" if isinstance(value, int | float) else str(value)
    try:
        symbol = quantity(name).label
    except KeyError:
        return f"{name} = {number}"
    infinite = isinstance(value, float) and np.isinf(value)
    return rf"${symbol}=\infty$" if infinite else f"${symbol}={number}$"
