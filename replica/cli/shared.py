"""What the commands share: the types of their options, what reads them, long work, and the entry
point.

Exit codes: 0 done, 1 a solve failed (its status says why), 2 bad input or no place to write, 130
interrupted.
"""

from __future__ import annotations

import logging
import os
import shlex
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from ..errors import ReplicaError, ReplicaWarning, readable
from ..files.writer import UNWRITABLE, check_target, reason
from ..inputs import assignments
from ..jobs.options import JobOptions
from .numerals import NUMBER, WHOLE

EXIT_CODES = (
    "Exit codes: 0 done; 1 a point failed (its status says why) or a check disagrees; 2 bad input"
    " or no place to write; 130 interrupted."
)
app = typer.Typer(
    add_completion=True, no_args_is_help=True, pretty_exceptions_enable=False, epilog=EXIT_CODES
)

ModelName = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A name from `replica models`, or the path of a .py file with a model of yours.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="name=value; a control or an option of the model. Repeat it."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume", help="Continue the file if it is there: what it has is not computed again."
    ),
]
Dask = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="ADDRESS",
        help="Compute on the workers of this dask scheduler (or scheduler file).",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        help="Cores of this machine to use [default: all]; the result is the same, bit for bit.",
        show_default=False,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar, no summary.")]
Damping = Annotated[
    float, typer.Option(parser=NUMBER, help="Weight on the old iterate, 0 <= damping < 1.")
]
Tol = Annotated[float, typer.Option(parser=NUMBER, help="On the undamped residual.")]
Accuracy = Annotated[
    float | None,
    typer.Option(
        parser=NUMBER,
        help="Largest error of an overlap that is called resolved [default: the model's].",
    ),
]
Route = Annotated[
    str, typer.Option(help="exact, or sampled (quasi-Monte Carlo with explicit tokens).")
]
MaxSteps = Annotated[int, typer.Option(parser=WHOLE, help="Largest number of map evaluations.")]


def _print_version(asked: bool) -> None:
    if asked:
        from ..files.store import versions

        typer.echo(" ".join(f"{name} {version}" for name, version in versions().items()))
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print versions."),
    ] = False,
) -> None:
    """Replica-symmetric saddle points: risk curves and phase diagrams."""


class _Notices(logging.Handler):
    """Messages of the package on the error stream (above a progress bar, if there is one)."""

    def emit(self, record: logging.LogRecord) -> None:
        say(f"replica: {record.getMessage()}", err=True)


class Command(TyperCommand):
    """A command whose notices are heard on the error stream: not with --quiet, and not if its JSON
    goes to another program.
    """

    def invoke(self, ctx: typer.Context) -> Any:
        to_program = ctx.params.get("as_json") and not sys.stdout.isatty()
        if ctx.params.get("quiet") or to_program:
            return super().invoke(ctx)
        logger, heard = logging.getLogger("replica"), _Notices()
        level = logger.level
        logger.setLevel(logging.INFO)
        logger.addHandler(heard)
        try:
            return super().invoke(ctx)
        finally:
            logger.removeHandler(heard)
            logger.setLevel(level)


def parsed(settings: list[str] | None) -> dict[str, Any]:
    """The pairs of ``--set``."""
    return dict(assignments(settings or []))


@contextmanager
def long_work(
    output: Path | None,
    resume: bool,
    force: bool,
    dask: str | None,
    quiet: bool,
    jobs: int | None = None,
) -> Iterator[JobOptions]:
    """Long work for ``output``; Ctrl-C ends it with one sentence."""
    if output is not None:
        check_target(output, force=True)
    replaces = output is not None and force and output.exists()
    try:
        yield JobOptions(
            output,
            resume,
            force,
            dask,
            progress=False if quiet else None,
            attrs={"command": command_line()},
            jobs=jobs,
        )
    except KeyboardInterrupt:
        kept = _kept(output, replaces)
        typer.echo(f"replica: interrupted{kept}", err=True)
        sys.stdout.flush()
        sys.stderr.flush()
        # The threads are inside compiled programs, which cannot be stopped and which Python would
        # wait for.
        os._exit(130)


def _kept(output: Path | None, replaces: bool) -> str:
    """What an interrupted run leaves, as the end of a sentence."""
    if output is None or not output.exists():
        return ""
    if not replaces:
        return f", {output} keeps what was finished: continue with --resume"
    from ..jobs.checkpoint import unfinished  # start-up time

    partial = unfinished(output)
    if not partial.exists():
        return f", {output} is as it was"
    return (
        f", {output} is as it was and {partial} keeps what was finished: continue that with"
        " --resume, without --force"
    )


def command_line() -> str:
    """What was typed, as a line for a shell."""
    return "replica " + shlex.join(sys.argv[1:])


def say(text: str, err: bool = False) -> None:
    """Print text that may hold words of a file: nothing in it is obeyed by the terminal."""
    typer.echo(readable(text), err=err)


def _show_warning(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
    """One line for a warning of this package, as for its errors; others as Python shows them."""
    if issubclass(category, ReplicaWarning):
        say(f"replica: {message}", err=True)
    else:
        sys.stderr.write(warnings.formatwarning(message, category, *where[:2]))


def _output_failed(error: OSError) -> None:
    """Say that standard output cannot be written, and give the rest of it to nobody."""
    say(f"replica: the output was not written, {reason(error)}: send it elsewhere", err=True)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    """Entry point: errors become one sentence on stderr and exit code 2."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", ReplicaWarning)
        warnings.showwarning = _show_warning
        try:
            app()
        except ReplicaError as error:
            say(f"replica: {error}", err=True)
            sys.exit(2)
        except OSError as error:
            if error.filename is not None or error.errno not in UNWRITABLE:
                raise
            _output_failed(error)
            sys.exit(2)
