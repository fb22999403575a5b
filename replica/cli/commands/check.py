"""``replica check``: its flags are the options of all experiments there are when it is called."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer

from ...check.options import EXPERIMENTS, Flag, all_flags, flags_of
from ..numerals import PARSERS
from ..shared import Command, Force, Jobs, Json, Resume, Set, long_work, parsed

PANEL = "Options of the experiments"


class CheckCommand(Command):
    """A command that has the flags of every experiment besides its own.

    They are looked up when the command is called: an experiment may be registered until then. What
    was given of them is in ``context.obj``, by the names of the fields.
    """

    def get_params(self, ctx: typer.Context) -> list[Any]:
        return [*super().get_params(ctx), *experiment_options()]

    def invoke(self, ctx: typer.Context) -> Any:
        names = {flag.field for flag in all_flags()}
        ctx.obj = {name: ctx.params.pop(name) for name in names}
        return super().invoke(ctx)


def experiment_options() -> list[Any]:
    """One option for each flag that some experiment has, as Typer makes them of a function."""
    found: dict[str, dict[str, Flag]] = {}
    for key, known in EXPERIMENTS.items():
        for flag in flags_of(known.options):
            found.setdefault(flag.name, {})[key] = flag
    hints: dict[str, Any] = {}
    for by_key in found.values():
        flag = next(iter(by_key.values()))
        words = typer.Option(
            _declared(flag),
            parser=PARSERS.get(flag.type),
            help=explained(by_key),
            show_default=False,
            rich_help_panel=PANEL,
        )
        # None says that the flag was not given, so that every experiment takes its own default.
        hints[flag.field] = Annotated[flag.type | None, words]

    def flags(**given: Any) -> None:
        """A function of these names, for its signature."""

    flags.__annotations__ = hints
    flags.__signature__ = Signature(
        [
            Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=hint)
            for name, hint in hints.items()
        ]
    )
    app = typer.Typer(add_completion=False)
    app.command()(flags)
    return list(typer.main.get_command(app).params)


def _declared(flag: Flag) -> str:
    """A switch can be turned on and off."""
    if flag.type is bool:
        return f"{flag.name}/--no-{flag.name.removeprefix('--')}"
    return flag.name


def explained(by_key: Mapping[str, Flag]) -> str:
    """The help of a flag: the experiments that have it, what it is to them, and their defaults."""
    same: dict[tuple[str, str], list[str]] = {}
    for key, flag in by_key.items():
        label = EXPERIMENTS[key].label or key
        same.setdefault((flag.help, flag.default), []).append(label)
    parts = []
    for (help, default), labels in same.items():
        # Square brackets would be read as markup.
        shown = f" (default: {default})" if default else ""
        parts.append(f"{', '.join(labels)}: {help}{shown}")
    return "; ".join(parts) + "."


def given_flags(context: typer.Context) -> tuple[list[str], dict[str, Any]]:
    """What was given of the experiments' flags: controls as ``name=value``, and options."""
    values = {name: value for name, value in context.obj.items() if value is not None}
    controls = {flag.field for flag in all_flags() if flag.control}
    settings = [f"{name}={value}" for name, value in values.items() if name in controls]
    return settings, {name: value for name, value in values.items() if name not in controls}


def check(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Argument(help="May be left out if the file of --csv names it in a column."),
    ] = None,
    settings: Set = None,
    own: Annotated[
        Path | None,
        typer.Option(
            "--csv", help="Your own simulations; columns: controls, quantities, <quantity>_error."
        ),
    ] = None,
    as_json: Json = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="HDF5 file to write, with every trial.")
    ] = None,
    force: Force = False,
    resume: Resume = False,
    jobs: Jobs = None,
) -> None:
    """Run a simulation (or read yours) and compare it with the theory; exit code 1 if a |z| is
    above 4.

    Example: replica check subspace --set theta=1 --set r=0.1 --d 200 --L 5000 --trials 30

    Example: replica check slr-erm --D 250,500,1000 --set activation=linear --set L=2 --set nu=1
    --set Delta=0.1 --set lam_k=0.5 --set lam_v=0.5 --set alpha=3

    Example: replica check slr-bayes --csv runs.csv --set L=4 --set nu=1 --set Delta=0.01 (columns
    alpha, q_v, q_v_error)
    """
    from ..check import Asked, run_check

    controls, options = given_flags(context)
    given = parsed([*(settings or []), *controls])
    with long_work(output, resume, force, None, quiet=True, jobs=jobs) as work:
        run_check(Asked(model, given, own), options, as_json, work)
