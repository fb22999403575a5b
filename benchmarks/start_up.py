"""CPU seconds until a command has done its work in a new process, as a ratio to what ``import jax,
sympy`` takes in the same run.

    python benchmarks/start_up.py            # prints the table
    python benchmarks/start_up.py --write    # and writes it to docs/start_up.md

Each command runs ``REPEATS`` times, in turn with the others, and the smallest number counts:
another program can only make it larger.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import replica

REPEATS = 3
PAGE = Path(__file__).resolve().parents[1] / "docs" / "start_up.md"
POINT = "--set alpha=1.4 --set L=4 --set nu=1 --set Delta=0.01"
UNIT = "import jax, sympy"
TABLE: dict[str, tuple[str, float | None]] = {
    "--help": ("replica --help", 0.5),
    "solve --help": ("replica solve --help", 0.5),
    "check --help": ("replica check --help", 0.5),
    "completion": ("a TAB after `replica s`", 0.5),
    "models": ("replica models", 1.0),
    "info sweep.h5": ("replica info", 1.0),
    "export sweep.h5 -o sweep.csv --force": ("replica export", 1.0),
    "plot sweep.h5 -y mse -o sweep.png --force": ("replica plot", 2.5),
    "show slr-bayes": ("replica show slr-bayes", None),
    f"solve slr-bayes {POINT}": ("replica solve slr-bayes, programs kept", 3.0),
}
"""Arguments -> what the table calls them, and the largest ratio that is meant."""
TAB = "import sys; sys.argv = ['replica']; from replica.cli import main; main()"
"""What the shell runs to complete a word, as the installed command does."""
HEAD = (
    "# Start-up\n\n"
    "CPU seconds of a new process, from its start to its end, as ratios to `python -c"
    f' "{UNIT}"` in the same run. What is\nnot needed is not imported: help and completion take'
    " neither JAX nor SymPy, and what reads files takes no JAX. Programs that\nwere compiled once"
    " are [kept](cache.md).\n\n"
)


def seconds(arguments: list[str], folder: Path, **environment: str) -> float:
    """User and system time of one process and of its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | {"REPLICA_CACHE": str(folder / "cache")} | environment,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(folder: Path) -> tuple[float, dict[str, float], float]:
    """The unit, each command, and the last command with an empty cache."""
    replica.save(
        folder / "sweep.h5", replica.sweep("spiked-wigner", over={"snr": [1, 2, 3, 4]}), force=True
    )
    first = seconds(["-m", "replica", *list(TABLE)[-1].split()], folder)
    units: list[float] = []
    found: dict[str, list[float]] = {command: [] for command in TABLE}
    for _ in range(REPEATS):
        units.append(seconds(["-c", UNIT], folder))
        for command, times in found.items():
            if command == "completion":
                asked = {"_REPLICA_COMPLETE": "complete_bash", "COMP_CWORD": "1"}
                times.append(seconds(["-c", TAB], folder, COMP_WORDS="replica s", **asked))
            else:
                times.append(seconds(["-m", "replica", *command.split()], folder))
    return min(units), {command: min(times) for command, times in found.items()}, first


def table(unit: float, found: dict[str, float], first: float) -> str:
    """Markdown."""
    rows = ["| | ratio | aim | CPU seconds |", "|---|---|---|---|"]
    rows.append(f"| `{UNIT}` | 1 | | {unit:.2f} |")
    for command, value in found.items():
        words, aim = TABLE[command]
        rows.append(f"| {words} | {value / unit:.2f} | {aim or ''} | {value:.2f} |")
    rows.append(f"| the same, nothing kept yet (once) | {first / unit:.2f} | 9.0 | {first:.2f} |")
    made = (
        f"Made by `python benchmarks/start_up.py --write`: {os.cpu_count()} cores"
        f" ({platform.machine()}), Python {platform.python_version()}, jax"
        f" {replica.versions()['jax']}, smallest of {REPEATS}, load {os.getloadavg()[0]:.1f},"
        f" {datetime.date.today()}."
    )
    return "\n".join([*rows, "", made, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = table(*measured(Path(folder)))
    print(text)
    if asked.write:
        PAGE.write_text(HEAD + text, encoding="ascii")


if __name__ == "__main__":
    main()
