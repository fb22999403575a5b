"""What an experiment is: a simulation of a model, held against its theory; and the registry of all.

A new experiment is a dataclass of options, each of which is a flag of ``replica check`` and an
argument of ``replica.check`` (options.py, or beside the class), and a class under
``@experiment(key)`` that prepares and performs. The key is the name of the model that is simulated.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import xarray as xr

from equations import Model

from ..errors import InputError
from ..files import store
from ..files.writer import Name, check_target
from ..inputs import nearest
from ..jobs.options import JobOptions
from ..runtime.notice import computing
from .options import EXPERIMENTS, all_flags, check_options, flags_of
from .report import Report

Log = Callable[[str], None]
"""Hears what is going on, a sentence at a time."""


def silent(text: str) -> None:
    """A log that nobody reads."""


@dataclass(frozen=True)
class Asked:
    """What is to be checked.

    Attributes
    ----------
    model : str, path, Model or None
        A name, a file with a model of the user's own, or a model; None if the table names it.
    given : dict
        Controls and options of the model.
    csv : path or None
        A table of the user's own measurements.
    """

    model: Any
    given: Mapping[str, Any]
    csv: str | os.PathLike[str] | None = None

    @property
    def name(self) -> Any:
        """The name of the model, or the path of its file."""
        return self.model.name if isinstance(self.model, Model) else self.model

    @property
    def what(self) -> Any:
        """How a sentence refers to it."""
        return self.name if self.csv is None else self.csv


# experiments --------------------------------------------------------------------------------------


class Experiment(ABC):
    """A simulation and its comparison with the theory, stored at its end.

    Attributes
    ----------
    options : dataclass
        Its options, all with a default.
    key : str
        Its name in ``EXPERIMENTS``, set by ``experiment``.
    of_one_model : bool
        Whether the key is the name of the model that it simulates.
    label : str
        How the help calls it, where that is not the key.
    """

    options: ClassVar[type]
    key: ClassVar[str] = ""
    of_one_model: ClassVar[bool] = True
    label: ClassVar[str] = ""

    def applies(self, asked: Asked) -> bool:
        """Whether this is the experiment for what is asked."""
        own = isinstance(asked.model, Model) and asked.model.source is not None
        return asked.csv is None and asked.name == self.key and not own

    @abstractmethod
    def prepare(self, asked: Asked, options: Any) -> Any:
        """Refuse what cannot work, and fix everything that decides the result.

        Parameters
        ----------
        asked : Asked
        options : instance of the class's ``options``

        Returns
        -------
        What ``perform`` takes.
        """

    @abstractmethod
    def perform(self, prepared: Any, tell: Log = silent) -> Report:
        """Theory, simulation, and their comparison."""

    def carry_out(self, asked: Asked, options: Any, work: JobOptions, tell: Log) -> Report:
        """Prepare, perform and store."""
        if work.resume:
            raise InputError(
                "this check is stored at its end and has no --resume: leave it out, or pass"
                " --force to replace a file"
            )
        if work.file is not None:
            check_target(work.file, work.force)
        report, dataset = with_dataset(self.perform(self.prepare(asked, options), tell))
        if work.file is not None:
            store.save(work.file, dataset.assign_attrs(work.attrs), force=work.force)
        return report

    def planned(self, given: Mapping[str, Any], **options: Any) -> Any:
        """What ``perform`` takes, for these settings of the experiment's model."""
        asked = Asked(self.key, given)
        return self.prepare(asked, options_for(self, asked, options))


def with_dataset(report: Report) -> tuple[Report, xr.Dataset]:
    """A report with its dataset: that of the comparisons alone, if the experiment gives none."""
    dataset = report.to_dataset() if report.dataset is None else report.dataset
    return replace(report, dataset=dataset), dataset


Kind = TypeVar("Kind", bound=type[Experiment])


def experiment(key: str) -> Callable[[Kind], Kind]:
    """Register a class of experiments.

    Parameters
    ----------
    key : str
        The name of the model that is simulated.

    Returns
    -------
    A decorator of the class.

    Raises
    ------
    ValueError
        The key is taken, an option has no default, or its flag means something else elsewhere.
    """

    def register(kind: Kind) -> Kind:
        if isinstance(EXPERIMENTS.get(key), Experiment):
            raise ValueError(f"there is an experiment {key!r} already")
        check_options(key, kind.options)
        kind.key = key
        EXPERIMENTS[key] = kind()
        return kind

    return register


# performing ---------------------------------------------------------------------------------------


def experiment_for(asked: Asked) -> Experiment:
    """The experiment for what is asked, or an InputError that says what there is."""
    for known in EXPERIMENTS.values():
        if known.applies(asked):
            return known
    simulated = [key for key, known in EXPERIMENTS.items() if known.of_one_model]
    if asked.model is None:
        raise InputError(
            f"which model? There is {', '.join(simulated)}; or give your own simulations with --csv"
            " FILE"
        )
    raise InputError(
        f"there is no simulation of {asked.name!r} to check against:"
        f" {nearest(str(asked.name), simulated)}"
    )


def options_for(chosen: Experiment, asked: Asked, options: Mapping[str, Any]) -> Any:
    """The options of an experiment, by the names of their fields; None means the default."""
    options = {name: value for name, value in options.items() if value is not None}
    known = {flag.field: flag.name for flag in flags_of(chosen.options) if not flag.control}
    elsewhere = {flag.field: flag.name for flag in all_flags()}
    for name in options:
        if name not in known:
            raise InputError(
                f"the check of {asked.what} has no {elsewhere.get(name, f'--{name}')}:"
                f" it has {', '.join(known.values()) or 'no options'}"
            )
    return chosen.options(**options)


def perform_experiment(
    asked: Asked, options: Mapping[str, Any], work: JobOptions, tell: Log = silent
) -> Report:
    """Choose the experiment, read its options, carry it out."""
    chosen = experiment_for(asked)
    read = options_for(chosen, asked, options)
    if work.resume and (work.file is None or work.force):
        raise InputError(
            "--resume continues the file of -o: give its name, and leave --force out, which"
            " replaces it"
        )
    with computing(f"the check of {asked.what}"):
        return chosen.carry_out(asked, read, work, tell)


def check(
    model: str | os.PathLike[str] | Model | None = None,
    *,
    csv: str | os.PathLike[str] | None = None,
    file: Name | None = None,
    resume: bool = False,
    force: bool = False,
    jobs: int | None = None,
    log: Log | None = None,
    **settings: Any,
) -> Report:
    """Simulate a model (or read measurements of it) and compare with its theory.

    Parameters
    ----------
    model : str, path or Model, optional
        A name, or the file of a model of your own that defines ``simulate``; may be left out if
        the table of ``csv`` names it in a column.
    csv : path, optional
        A table of your own measurements; columns: controls, quantities, <quantity>_error.
    file : path, optional
        HDF5 file to write, with every trial.
    resume, force : bool
        Continue ``file``, or replace it, if it is there.
    jobs : int, optional
        Trials at a time; as many as there are cores and memory for by default, but one where the
        simulation is yours. The result is the same, bit for bit.
    log : callable, optional
        Hears what is going on, a sentence at a time.
    **settings
        Controls and options of the model, and options of the experiment, such as
        ``sizes="250,500"``, ``trials=10`` or ``seed=1`` (``replica check --help`` lists them).

    Returns
    -------
    Report
        Comparisons with their z, the verdict, and every trial as ``dataset``.

    Raises
    ------
    InputError
        There is no such experiment, or a setting is unknown, missing or out of range.
    SolveError
        The theory has no solution there.
    """
    chosen = experiment_for(Asked(model, {}, csv))
    names = {flag.field for flag in flags_of(chosen.options) if not flag.control}
    options = {name: value for name, value in settings.items() if name in names}
    given = {name: value for name, value in settings.items() if name not in names}
    work = JobOptions(file, resume, force, jobs=jobs)
    return perform_experiment(Asked(model, given, csv), options, work, log or silent)
