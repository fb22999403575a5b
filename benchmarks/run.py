"""Every claim of the README about speed, in one table, beside what one would do instead; stored
with the machine it was made on.

# about 15 minutes; with names, only those parts, and nothing is stored
python benchmarks/run.py [bayes phase erm]
python benchmarks/run.py --stored              # the table that is stored, as in the README
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

import bayes
import erm
import phase
import table

PARTS: dict[str, Callable[[], Iterator[table.Row]]] = {
    "bayes": bayes.rows,
    "phase": phase.rows,
    "erm": erm.rows,
}


def main(arguments: list[str]) -> None:
    """Run the parts, print each row when it is there."""
    if arguments == ["--stored"]:
        return print(table.stored())
    if unknown := [name for name in arguments if name not in PARTS]:
        sys.exit(f"no part {unknown[0]!r}: there are {', '.join(PARTS)}")
    load = f"load {os.getloadavg()[0]:.1f} before"
    rows = []
    print(table.HEADER, flush=True)
    for part in arguments or PARTS:
        for row in PARTS[part]():
            print(row.line(), flush=True)
            rows.append(row)
    if not arguments:
        table.store(rows, table.machine(load))
        print(f"\nstored in {table.STORED}")


if __name__ == "__main__":
    main(sys.argv[1:])
