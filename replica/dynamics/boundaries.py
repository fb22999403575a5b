"""Boundaries that are a formula or one root of it, by model: there is no curve of fixed points to
follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from ..errors import InputError
from ..models import resolve
from . import recovery


@dataclass(frozen=True)
class Boundary:
    """Where along one control something changes.

    Attributes
    ----------
    at : callable
        The other controls -> the value; SolveError if there is none.
    meaning : str
        What is so on one side of it.
    """

    at: Callable[[Mapping[str, float]], float]
    meaning: str


@dataclass(frozen=True)
class Boundaries:
    """All boundaries of one model.

    Attributes
    ----------
    model, what : str
        Its name, and what the boundaries are of.
    along : dict of name -> Boundary
        By control, or by a combination of controls.
    absent : tuple of str
        Controls that must not be given.
    why_absent : str
        The sentence for who gives them.
    axes : tuple of str
        The two controls of the diagram.
    diagram : callable
        Values along ``axes``, the other controls -> dataset.
    """

    model: str
    what: str
    along: Mapping[str, Boundary]
    absent: tuple[str, ...]
    why_absent: str
    axes: tuple[str, str]
    diagram: Callable[[Mapping[str, np.ndarray], Mapping[str, float]], xr.Dataset]

    def check(self, given: Mapping[str, Any]) -> None:
        """Refuse controls that the boundaries do not depend on."""
        if set(self.absent) & set(given):
            raise InputError(self.why_absent)

    def one(self, given: Mapping[str, Any], control: str) -> dict[str, Any]:
        """One boundary, as the JSON object that ``replica phase --json`` prints."""
        if control not in self.along:
            *most, last = self.along
            raise InputError(
                f"{self.what} has a boundary along {', '.join(most)} or {last}, not {control!r}:"
                f" give --control {most[0]}"
            )
        if control in given:
            raise InputError(f"{control} is both searched and fixed: give it once")
        _, values = resolve(self.model, given, partial=[control])
        boundary = self.along[control]
        return {
            "model": self.model,
            "control": control,
            "controls": values,
            "boundary": boundary.at(values),
            "meaning": boundary.meaning,
        }

    def over(self, axes: Mapping[str, np.ndarray], given: Mapping[str, Any]) -> xr.Dataset:
        """The diagram over both of its controls."""
        first, second = self.axes
        if set(axes) != {first, second} or {first, second} & set(given):
            raise InputError(
                f"the diagram of {self.model} is over {first} and {second}: give --over"
                f" {first}=start:stop:num and --over {second}=start:stop:num"
            )
        _, values = resolve(self.model, given, partial=self.axes)
        return self.diagram(axes, values)


def _along_theta(values: Mapping[str, float]) -> float:
    return recovery.boundary_theta(values["r"], values["beta"])


def _along_share(values: Mapping[str, float]) -> float:
    return float(recovery.boundary_share(values["theta"], values["beta"]))


def _along_crowding(values: Mapping[str, float]) -> float:
    return float(recovery.boundary_crowding(values["theta"], values["r"], values["beta"]))


def _sign_diagram(axes: Mapping[str, np.ndarray], values: Mapping[str, float]) -> xr.Dataset:
    return recovery.sign_diagram(axes["theta"], axes["r"], values["beta"])


BOUNDARIES = {
    recovery.MODEL: Boundaries(
        model=recovery.MODEL,
        what=f"the sign of {recovery.MODEL}",
        along={
            "theta": Boundary(
                _along_theta, "smallest theta at which -xi attracts too (L = infinity)"
            ),
            "r": Boundary(
                _along_share, "largest r at which -xi attracts too (L = infinity; 0: at none)"
            ),
            "d/L": Boundary(
                _along_crowding,
                "(d - 1)/L above which -xi attracts too (0: at L = infinity already)",
            ),
        },
        absent=("d", "L"),
        why_absent=(
            "the boundary is given at L = infinity, and as a value of (d - 1)/L: leave out d and L"
        ),
        axes=("theta", "r"),
        diagram=_sign_diagram,
    ),
}
"""Models whose boundaries are immediate."""
