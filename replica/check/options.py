"""The options of experiments, which are the flags of ``replica check``, and the registry of all.

Those of the built-in experiments stand here and not beside their simulations: ``replica check
--help`` reads them, and imports neither JAX nor SymPy (start-up time).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any, TypeVar, get_args, get_type_hints

from ..simulate.defaults import DAMPING, MAX_STEPS

RESERVED = (
    *("model", "set", "csv", "json", "output", "file"),
    *("force", "resume", "jobs", "log", "help"),
)
"""Names that ``replica check`` or ``replica.check`` has for something else."""
SIZES, TRIALS = "250,500,1000", 10
DEFAULT_D, DEFAULT_L = 200, 5000
"""Of stochastic ascent."""


def option(
    default: Any, help: str, *, flag: str = "", shown: str = "", control: bool = False
) -> Any:
    """A field of a dataclass of options.

    Parameters
    ----------
    default : value
        None: the experiment chooses.
    help : str
        What it is, for ``replica check --help``.
    flag : str
        Its name on the command line, where that is not the name of the field.
    shown : str
        How the help says the default, where that is not its value.
    control : bool
        Whether it is a control of the model, and the flag another way to write ``--set``.
    """
    said = {"help": help, "flag": flag, "shown": shown, "control": control}
    return field(default=default, metadata=said)


@dataclass(frozen=True)
class Flag:
    """An option as it is on the command line: the name of its field, ``--name``, its type, help,
    default in words, and whether it is a control of the model.
    """

    field: str
    name: str
    type: Any
    help: str
    default: str
    control: bool


def flags_of(options: type) -> tuple[Flag, ...]:
    """The flags of a dataclass of options, in the order of its fields."""
    types = get_type_hints(options)
    flags = []
    for entry in fields(options):
        said = entry.metadata
        name = said.get("flag") or entry.name.replace("_", "-")
        # Of a union the command line takes the first: "str | Sequence[int]", "int | None".
        kind = (get_args(types[entry.name]) or (types[entry.name],))[0]
        default = "" if entry.default is None else str(entry.default)
        flags.append(
            Flag(
                entry.name,
                f"--{name}",
                kind,
                said.get("help", ""),
                said.get("shown") or default,
                said.get("control", False),
            )
        )
    return tuple(flags)


# the registry -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Announced:
    """What is known of an experiment whose module is not imported yet."""

    options: type
    label: str


EXPERIMENTS: dict[str, Any] = {}
"""All experiments by their keys: names of models, "file" for the simulation in a user's own model's
file, "csv" for measurements. Built-in ones are ``Announced`` until ``replica.check`` is used."""
Options = TypeVar("Options", bound=type)


def announced(key: str, label: str = "") -> Callable[[Options], Options]:
    """Announce the experiment ``key``, of which this dataclass holds the options; ``label`` is how
    the help calls it, where that is not the key.
    """

    def remember(options: Options) -> Options:
        check_options(key, options)
        EXPERIMENTS[key] = Announced(options, label)
        return options

    return remember


def check_options(key: str, options: type) -> None:
    """Refuse options without a default, and a flag that means something else elsewhere."""
    if not is_dataclass(options):
        raise ValueError(f"the options of the experiment {key!r} must be a dataclass")
    for entry in fields(options):
        if entry.default is MISSING:
            raise ValueError(f"the option {entry.name} of the experiment {key!r} needs a default")
    known = {flag.name: flag for flag in all_flags()}
    for flag in flags_of(options):
        if flag.field in RESERVED or flag.name.removeprefix("--") in RESERVED:
            raise ValueError(f"the experiment {key!r} cannot have an option {flag.name}")
        other = known.get(flag.name, flag)
        if (flag.field, flag.type, flag.control) != (other.field, other.type, other.control):
            raise ValueError(f"{flag.name} of the experiment {key!r} is something else in another")


def all_flags() -> list[Flag]:
    """The flags of every experiment, one after the other."""
    return [flag for known in EXPERIMENTS.values() for flag in flags_of(known.options)]


# the built-in ones --------------------------------------------------------------------------------


def sizes_option() -> Any:
    """The option of the sizes."""
    return option(SIZES, "dimensions, extrapolated to 1/D = 0", flag="D")


def trials_option() -> Any:
    """The option of the number of trials."""
    return option(TRIALS, "independent runs at each D")


def seed_option() -> Any:
    """The option of the seed."""
    return option(0, "of the random numbers")


@announced("subspace")
@dataclass(frozen=True)
class AscentOptions:
    """Runs, steps and how tokens are drawn."""

    trials: int = option(30, "independent runs")
    d: int | None = option(None, "dimension, as --set d=", shown=str(DEFAULT_D), control=True)
    L: int | None = option(
        None, "tokens per sequence, as --set L=", shown=str(DEFAULT_L), control=True
    )
    steps: int | None = option(None, "steps", shown="chosen by the theory")
    batch: int = option(1, "sequences per step")
    tokens: str = option(
        "projected", "projected (exact in law, fast) or explicit (every coordinate)"
    )
    dtype: str = option("float32", "float32 or float64")
    seed: int = option(0, "of the random numbers")


@announced("slr-erm")
@dataclass(frozen=True)
class FitOptions:
    """``start`` is random, informed, or best (both, the lowest objective counts)."""

    sizes: str = sizes_option()
    trials: int = trials_option()
    method: str = option("lbfgs", "lbfgs, bfgs, newton-cg or gd")
    start: str = option("best", "random, informed, best (the lower of both)")
    seed: int = seed_option()


@announced("slr-bayes")
@dataclass(frozen=True)
class MessageOptions:
    """How messages are started, damped and ended."""

    sizes: str = sizes_option()
    trials: int = trials_option()
    start: str = option("uninformed", "uninformed, informed")
    damping: float = option(DAMPING, "weight on the old messages")
    steps: int = option(MAX_STEPS, "largest number of steps")
    seed: int = seed_option()


@announced("csv", "--csv")
@dataclass(frozen=True)
class MeasurementOptions:
    """``start`` chooses the branch of the theory."""

    start: str = option("best", "branch of the theory: a start of the model, or best")


@announced("file", "your own .py")
@dataclass(frozen=True)
class SimulationOptions:
    """``start`` chooses the branch of the theory."""

    sizes: str = sizes_option()
    trials: int = trials_option()
    start: str = option("best", "branch of the theory: a start of the model, or best")
    seed: int = seed_option()
