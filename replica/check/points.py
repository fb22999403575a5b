"""The columns of a table of measurements, and the point of each row, resolved once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from equations import Model

from ..errors import InputError
from ..models import built, resolve

ERROR = "error"
"""Columns of errors: this name, or the measured one's with _error."""


@dataclass(frozen=True)
class Points:
    """What the columns mean for a model; rows with the same settings share one point."""

    model: str | os.PathLike[str] | Model
    given: Mapping[str, Any]
    measured: list[str]
    errors: list[str]
    seen: dict[tuple[str, ...], tuple[Model, dict[str, float]]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        path: Path,
        model: str | os.PathLike[str] | Model,
        given: Mapping[str, Any],
        header: list[str],
    ) -> Points:
        """The columns of a file whose header this is.

        Raises
        ------
        InputError
            Nothing in it was measured.
        """
        default = built(model, {})[0]
        measurable = [*(q.name for q in default.overlaps), *default.observables]
        found = [column for column in header if column in measurable]
        if not found:
            raise InputError(
                f"{path} has no measured quantity: name a column {', '.join(measurable[:6])} or"
                f" another observable of {default.name if isinstance(model, Model) else model}"
            )
        named = {ERROR, *(f"{name}_{ERROR}" for name in measurable)}
        return cls(model, given, found, [column for column in header if column in named])

    def at(self, entries: Mapping[str, str]) -> tuple[Model, dict[str, float]]:
        """The model and the control values of a row."""
        other = {*self.measured, *self.errors}
        settings = {name: text for name, text in entries.items() if name not in other}
        key = tuple(settings.values())
        if key not in self.seen:
            self.seen[key] = resolve(self.model, {**self.given, **settings})
        return self.seen[key]

    def error_of(self, quantity: str) -> str | None:
        """The column with the error of a measured quantity."""
        return next((c for c in (f"{quantity}_{ERROR}", ERROR) if c in self.errors), None)
