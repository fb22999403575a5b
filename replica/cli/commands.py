"""The command line: ``replica models | show | solve | sweep | phase | eval | check | plot | info |
export | demo``.

Exit codes: 0 done, 1 a solve failed (its status says why), 2 bad input or no place to write, 130
interrupted.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import jax
import typer
from rich.console import Console
from rich.table import Table

from equations import MODELS

from .. import show as printing
from ..check.trials import SIZES
from ..errors import InputError, ReplicaError
from ..files import export, info, store
from ..inputs import assignments
from ..jobs.run import JobOptions
from ..models import built, resolve
from ..plots.base import check_style, drawn_as, save_figure
from ..plots.figures import figure_of_all
from ..solution import Solution
from ..solve import evaluate
from ..solve import solve as solve_point
from ..sweeps.dataset import failures, to_dataset
from ..sweeps.optimise import optima
from ..sweeps.sweep import read_over, swept
from ..theories import Settings
from . import check as check_command
from . import demo as demonstration
from . import phase as phase_command

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
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar, no summary.")]
Damping = Annotated[float, typer.Option(help="Weight on the old iterate, 0 <= damping < 1.")]
Tol = Annotated[float, typer.Option(help="On the undamped residual.")]
Accuracy = Annotated[
    float | None,
    typer.Option(
        help="Largest error of an overlap that is called resolved [default: the model's]."
    ),
]
Route = Annotated[
    str, typer.Option(help="exact, or sampled (quasi-Monte Carlo with explicit tokens).")
]
MaxSteps = Annotated[int, typer.Option(help="Largest number of map evaluations.")]


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(" ".join(f"{name} {version}" for name, version in store.versions().items()))
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print versions."),
    ] = False,
) -> None:
    """Replica-symmetric saddle points: risk curves and phase diagrams."""


@app.command()
def models(as_json: Json = False) -> None:
    """List the models, their controls and options."""
    if as_json:
        entries = {n: (f.build(), f.options) for n, f in MODELS.items()}
        listing = {
            n: {"title": m.title, "controls": [q.name for q in m.controls], "options": o}
            for n, (m, o) in entries.items()
        }
        typer.echo(json.dumps(listing))
        return
    table = Table("model", "what", "controls", "options")
    for name, family in MODELS.items():
        built = family.build()
        options = "; ".join(f"{k} = {' | '.join(v)}" for k, v in family.options.items())
        table.add_row(name, built.title, ", ".join(q.name for q in built.controls), options)
    Console().print(table)


@app.command()
def show(
    model: ModelName,
    settings: Set = None,
    as_json: Json = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print a LaTeX document.")] = False,
) -> None:
    """Print a model: setting, free energy, derived equations, sources.

    Example: replica show slr-bayes --latex > slr.tex
    """
    given = _parsed(settings)
    ready, _ = built(model, given)
    resolve(model, given, partial=[q.name for q in ready.controls])
    if latex and as_json:
        raise InputError("--latex and --json are two formats: give one of them")
    typer.echo(
        json.dumps(printing.entries(ready))
        if as_json
        else printing.latex(ready)
        if latex
        else printing.text(ready)
    )


@app.command()
def solve(
    model: ModelName,
    settings: Set = None,
    as_json: Json = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Also store the branches in this HDF5 file."),
    ] = None,
    force: Force = False,
    tol: Tol = 1e-10,
    accuracy: Accuracy = None,
    damping: Damping = 0.0,
    max_steps: MaxSteps = 100_000,
    route: Route = "exact",
) -> None:
    """Solve one point from every start.

    Example: replica solve slr-bayes --set alpha=1.4 --set L=4 --set nu=1 --set Delta=1e-4

    Example: replica solve ./my_model.py --set alpha=1.4
    """
    if output is not None:
        store.check_target(output, force)
    how = Settings(tol=tol, accuracy=accuracy, damping=damping, max_steps=max_steps, route=route)
    solution = solve_point(model, settings=how, **_parsed(settings))
    if output is not None:
        store.save(output, to_dataset(solution).assign_attrs(command=_command()), force=force)
    (
        typer.echo(
            json.dumps(solution.to_dict(), indent=None if solution.theory.energy_is_shown else 2)
        )
        if as_json
        else _print_solution(solution)
    )
    if any(not b.ok for b in solution.branches):
        for b in solution.branches:
            if not b.ok:
                typer.echo(f"replica: {b.start}: {b.message}", err=True)
        raise typer.Exit(1)


@app.command()
def sweep(
    model: ModelName,
    output: Annotated[Path, typer.Option("-o", "--output", help="HDF5 file to write.")],
    over: Annotated[
        list[str], typer.Option("--over", help="name=start:stop:num[:log]. Repeat it.")
    ],
    settings: Set = None,
    warm: Annotated[str | None, typer.Option(help="Control to warm-start along.")] = None,
    force: Force = False,
    resume: Resume = False,
    dask: Dask = None,
    tol: Tol = 1e-10,
    accuracy: Accuracy = None,
    damping: Damping = 0.0,
    max_steps: MaxSteps = 100_000,
    quiet: Quiet = False,
    as_json: Json = False,
    optimise: Annotated[
        str | None,
        typer.Option(
            help="Controls to choose at each point such that the risk is smallest, as lam_k,lam_v."
        ),
    ] = None,
) -> None:
    """Solve a model over a grid and store every branch, as they come.

    Example: replica sweep slr-bayes --over alpha=0.5:2.5:41 --set L=4 --set nu=1 --set Delta=1e-4
    -o slr.h5

    Example: replica sweep slr-erm --over alpha=1:8:8 --optimise lam_k,lam_v --set L=4 --set nu=1
    --set Delta=0.1 -o softmax.h5
    """
    given = _parsed(settings)
    grids = read_over(built(model, given)[0], over)
    how = Settings(tol=tol, accuracy=accuracy, damping=damping, max_steps=max_steps)
    if optimise is not None and warm is not None:
        raise InputError(
            "the search for the best controls has its own starts: leave --warm or --optimise out"
        )
    with _long(output, resume, force, dask, quiet) as work:
        if optimise is None:
            dataset = swept(model, grids, given, how, warm, None, work)
        else:
            dataset = optima(
                model, [n.strip() for n in optimise.split(",")], "risk", grids, {}, how, given, work
            )
    failed = failures(dataset["status"].values)
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "file": str(output),
                    "points": dataset["status"].size,
                    "failed": failed,
                    "statuses": info.statuses(dataset),
                }
            )
        )
    elif not quiet:
        typer.echo(f"{output}: {dataset['status'].size} points, {failed} failed")
    if failed:
        raise typer.Exit(1)


@app.command("eval")
def evaluate_at(
    model: ModelName,
    at: Annotated[str, typer.Option("--at", help="overlap=value,overlap=value")] = "",
    settings: Set = None,
    as_json: Json = False,
) -> None:
    """Evaluate everything a model defines at given overlaps, without iterating.

    Example: replica eval slr-bayes --set alpha=1 --set L=4 --set nu=1 --set Delta=0.1 --at
    q_k=0.3,q_v=0.5
    """
    overlaps = assignments([p for p in at.split(",") if p], "--at")
    try:
        values = {k: float(v) for k, v in overlaps.items()}
    except ValueError:
        raise InputError(f"cannot read --at {at!r}: write overlap=number,overlap=number") from None
    result = evaluate(model, values, **_parsed(settings))
    if as_json:
        typer.echo(json.dumps(result))
        return
    for group, entries in result.items():
        for name, value in entries.items() if isinstance(entries, dict) else [("", entries)]:
            typer.echo(f"{group:<16}{name:<24}{value}")


@app.command()
def plot(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="A stored sweep; several of them go on one axis, checks on them as dots."
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="PNG, PDF or SVG file.")],
    y: Annotated[str, typer.Option("-y", "--y", help="Variable to draw.")] = "risk",
    force: Force = False,
    style: Annotated[
        str, typer.Option(help="default, or paper: one column of a two-column paper.")
    ] = "default",
    as_json: Json = False,
) -> None:
    """Draw a stored sweep (several on one axis), phase diagram, curve of fixed points, or check.

    Example: replica plot slr.h5 -o slr.png

    Example: replica plot bayes.h5 softmax.h5 linear.h5 -o risks.png

    Example: replica plot slr.h5 check.h5 -o both.png

    Example: replica plot phase.h5 -o phase.pdf --style paper
    """
    check_style(style)
    datasets = []
    for file in files:
        datasets.append(store.load(file))
        if not datasets[-1].attrs.get("complete", True):
            typer.echo(f"replica: {file} is unfinished: continue it with --resume", err=True)
    with drawn_as(style):
        save_figure(figure_of_all(datasets, y), output, force)
    typer.echo(
        json.dumps({"figure": str(output), "files": [str(f) for f in files]})
        if as_json
        else str(output)
    )


@app.command()
def phase(
    model: ModelName,
    settings: Set = None,
    control: Annotated[
        str, typer.Option(help="The control whose thresholds are wanted.")
    ] = "alpha",
    over: Annotated[
        list[str] | None,
        typer.Option("--over", help="name=start:stop:num[:log]; a second control, with -o."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="HDF5 file to write (with --over).")
    ] = None,
    force: Force = False,
    within: Annotated[
        str | None, typer.Option(help="low:high, the range to search; 1e-3:1e3 by default.")
    ] = None,
    accuracy: Annotated[
        float | None,
        typer.Option(
            help="Largest error of a threshold [1e-6], or of an overlap on a grid [the model's]."
        ),
    ] = None,
    grid: Annotated[
        str | None,
        typer.Option(
            help="start:stop:num[:log], values of the control for a model that is mapped on a grid."
        ),
    ] = None,
    as_json: Json = False,
    resume: Resume = False,
    dask: Dask = None,
    quiet: Quiet = False,
    whole: Annotated[
        bool,
        typer.Option(
            "--curve",
            help="Store the curve of fixed points, unstable parts too (with -o, without --over).",
        ),
    ] = False,
) -> None:
    """Thresholds along one control; with --over, as lines over a second one; with --curve, all
    fixed points.

    Example: replica phase slr-bayes --set L=4 --set nu=1 --set Delta=1e-4 --json

    Example: replica phase slr-bayes --set L=4 --set nu=1 --set Delta=1e-4 --curve -o curve.h5

    Example: replica phase slr-erm --over lam_k=0.1:2:8:log --grid 1:6:8 --set L=2 --set nu=1 --set
    Delta=0.1 --set lam_v=0.1 -o erm.h5
    """
    with _long(output, resume, force, dask, quiet) as work:
        asked = phase_command.Asked(
            model,
            _parsed(settings),
            control,
            over or [],
            within,
            grid,
            accuracy,
            as_json,
            quiet,
            whole,
        )
        phase_command.run(asked, work)


@app.command()
def check(
    model: Annotated[
        str | None,
        typer.Argument(help="May be left out if the file of --csv names it in a column."),
    ] = None,
    settings: Set = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            "--D", help=f"slr models: dimensions, extrapolated to 1/D = 0 [default: {SIZES}]."
        ),
    ] = None,
    trials: Annotated[
        int | None, typer.Option(help="Independent runs (at each D) [default: 10; subspace 30].")
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="slr-erm: lbfgs, bfgs, newton-cg or gd.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            help=(
                "slr-erm: random, informed, best (the lower of both); slr-bayes: uninformed,"
                " informed."
            )
        ),
    ] = None,
    damping: Annotated[
        float | None, typer.Option(help="slr-bayes: weight on the old messages.")
    ] = None,
    d: Annotated[int | None, typer.Option("--d", help="subspace: dimension, as --set d=.")] = None,
    length: Annotated[
        int | None, typer.Option("--L", help="Tokens per sequence, as --set L=.")
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            help=(
                "subspace: steps [default: chosen by the theory]; slr-bayes: largest number of"
                " steps."
            )
        ),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="subspace: sequences per step [default: 1].")
    ] = None,
    tokens: Annotated[
        str | None,
        typer.Option(
            help="subspace: projected (exact in law, fast) or explicit (every coordinate)."
        ),
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="subspace: float32 or float64.")] = None,
    seed: int | None = None,
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
) -> None:
    """Run a simulation (or read yours) and compare it with the theory; exit code 1 if a |z| is
    above 4.

    Example: replica check subspace --set theta=1 --set r=0.1 --d 200 --L 5000 --trials 30

    Example: replica check slr-erm --D 250,500,1000 --set activation=linear --set L=2 --set nu=1
    --set Delta=0.1 --set lam_k=0.5 --set lam_v=0.5 --set alpha=3

    Example: replica check slr-bayes --csv runs.csv --set L=4 --set nu=1 --set Delta=0.01 (columns
    alpha, q_v, q_v_error)
    """
    named = {name: str(value) for name, value in (("d", d), ("L", length)) if value is not None}
    given = _parsed([*(settings or []), *(f"{k}={v}" for k, v in named.items())])
    options = {
        "sizes": sizes,
        "trials": trials,
        "method": method,
        "start": start,
        "damping": damping,
        "steps": steps,
        "batch": batch,
        "tokens": tokens,
        "dtype": dtype,
        "seed": seed,
    }
    with _long(output, resume, force, None, quiet=True) as work:
        check_command.run(model, given, options, as_json, work, own)


@app.command("info")
def describe(file: Path, as_json: Json = False) -> None:
    """Say what is in a stored file, and which command made it.

    Example: replica info slr.h5
    """
    found = info.describe(file)
    typer.echo(json.dumps(found) if as_json else info.text(found))


@app.command("export")
def export_csv(
    file: Path,
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            help="CSV file; a file with variables of several shapes gives several.",
        ),
    ],
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a stored file as CSV: one row for each point, with its controls, values, errors and
    status.

    Example: replica export slr.h5 -o slr.csv
    """
    written = [str(name) for name in export.to_csv(file, output, force=force)]
    typer.echo(json.dumps({"files": written}) if as_json else "\n".join(written))


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(help="Where to write demo.h5 and demo.png.")] = Path(
        "results"
    ),
    as_json: Json = False,
) -> None:
    """Population risk against nu, and the Bayes risk with its hard phase against alpha."""
    written = demonstration.run(folder, _command(), quiet=as_json)
    if as_json:
        typer.echo(json.dumps({"files": [str(name) for name in written]}))


def _parsed(settings: list[str] | None) -> dict[str, Any]:
    return dict(assignments(settings or []))


@contextmanager
def _long(
    output: Path | None, resume: bool, force: bool, dask: str | None, quiet: bool
) -> Iterator[JobOptions]:
    """Long work for ``output``; Ctrl-C ends it with one sentence."""
    if output is not None:
        store.check_target(output, force=True)
    try:
        yield JobOptions(
            output,
            resume,
            force,
            dask,
            progress=False if quiet else None,
            attrs={"command": _command()},
        )
    except KeyboardInterrupt:
        kept = (
            f", {output} keeps what was finished: continue with --resume"
            if output is not None and output.exists()
            else ""
        )
        typer.echo(f"replica: interrupted{kept}", err=True)
        sys.stdout.flush()
        sys.stderr.flush()
        # The threads are inside compiled programs, which cannot be stopped and which Python would
        # wait for.
        os._exit(130)


def _command() -> str:
    return "replica " + shlex.join(sys.argv[1:])


def _print_solution(solution: Solution) -> None:
    title = f"{solution.model.name}  " + ", ".join(
        f"{k}={v:g}" for k, v in solution.controls.items()
    )
    table = Table("", *(b.start for b in solution.branches), title=title)

    def row(label: str, values: list[str]) -> None:
        table.add_row(label, *values)

    first = solution.branches[0]
    for kind in ("overlaps", "conjugates", "observables"):
        for name in getattr(first, kind):
            row(
                name,
                [f"{getattr(b, kind)[name]:.10g} ({b.error[name]:.0e})" for b in solution.branches],
            )
    phi = "free entropy" if solution.model.best == "largest" else "objective"
    if solution.theory.energy_is_shown:
        row(
            phi, [f"{b.free_energy:.10g} ({b.error['free_energy']:.0e})" for b in solution.branches]
        )
    row("status", [b.message for b in solution.branches])
    row("residual", [f"{b.residual:.1e}" for b in solution.branches])
    row("steps", [str(b.steps) for b in solution.branches])
    row("best", ["*" if i == solution.best else "" for i in range(len(solution.branches))])
    console = Console()
    console.print(table)
    if len(solution.branches) > 1 and solution.risks:
        console.print(
            "risk: "
            + ", ".join(f"{k.replace('_', '-')} {v:.6g}" for k, v in solution.risks.items())
        )


def use_compilation_cache() -> None:
    """Keep compiled programs under the user's cache folder (the command line only; a library opts
    in).
    """
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jax.config.update(
        "jax_compilation_cache_dir", str((root / "replica-solver" / "jax").absolute())
    )
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


def main() -> None:
    """Entry point: errors become one sentence on stderr and exit code 2."""
    use_compilation_cache()
    try:
        app()
    except ReplicaError as error:
        typer.echo(f"replica: {error}", err=True)
        sys.exit(2)
