"""What the first number costs: CPU seconds as ratios to ``import jax, sympy`` in the same run.

    python benchmarks/first_number.py

Each line is a new process with an empty compilation cache. Ratios hardly depend on how loaded the
machine is; wall time does, and is not measured.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

UNIT = "import jax, sympy"
BEGIN = """
import resource

def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime

def lap(name, begun):
    print(name, cpu() - begun, sep="\\t")
    return cpu()
"""
IMPORT = BEGIN + f"{UNIT}\nlap('{UNIT}', 0)\n"
FACE = BEGIN + "import replica\nlap('import replica', 0)\n"
SOLVE = (
    BEGIN
    + """
import numpy as np
import replica
from replica import Settings

POINT = {"L": 4, "nu": 1, "Delta": 0.01}
replica.solve("slr-bayes", alpha=1.4, **POINT)
begun = lap("first solve of slr-bayes, from an empty process", 0)
replica.solve("slr-bayes", alpha=1.5, **POINT)
begun = lap("then: another alpha", begun)
replica.solve("slr-bayes", alpha=1.4, **(POINT | {"nu": 4}))
begun = lap("then: another nu", begun)
replica.solve("slr-bayes", alpha=1.4, settings=Settings(tol=1e-8), **POINT)
begun = lap("then: another tol", begun)
replica.sweep("slr-bayes", over={"alpha": np.linspace(0.5, 2.5, 9)}, **POINT)
begun = lap("then: a sweep of 9 points", begun)
replica.thresholds("slr-bayes", **POINT)
begun = lap("then: thresholds", begun)
"""
)


def laps(program: str) -> list[tuple[str, float]]:
    """(name, CPU seconds) that a new process prints."""
    with tempfile.TemporaryDirectory() as empty:
        environment = {"JAX_COMPILATION_CACHE_DIR": empty, "XDG_CACHE_HOME": empty}
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=dict(os.environ) | environment,
            capture_output=True,
            text=True,
            check=True,
        )
    rows = (line.split("\t") for line in done.stdout.splitlines())
    return [(name, float(seconds)) for name, seconds in rows]


def main() -> None:
    """Print the table."""
    unit = min(laps(IMPORT)[0][1] for _ in range(3))
    print(f"| | times `{UNIT}` ({unit:.2f} CPU seconds here) |\n|---|---|")
    for program in (FACE, SOLVE):
        for name, seconds in laps(program):
            print(f"| {name} | {seconds / unit:.2f} |", flush=True)


if __name__ == "__main__":
    main()
