"""Stated errors are true errors: a table of numbers that are known by another way, and fresh random
settings at every run.
"""

from __future__ import annotations

import csv
import importlib
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import replica

TESTS = Path(__file__).resolve().parents[1]
MODELS = TESTS / "data" / "models"
sys.path.insert(0, str(TESTS))
true_values = importlib.import_module("true_values")

Settings = tuple[str, str]
"""Family and controls, as the table writes them."""
ROUNDING = 1e-13
"""Errors below this, relative to 1 + |value|, are those of rounding: no error is stated below."""


def table() -> dict[Settings, dict[str, float]]:
    """The true numbers of each setting."""
    found: dict[Settings, dict[str, float]] = defaultdict(dict)
    with true_values.FILE.open(newline="", encoding="ascii") as file:
        for row in csv.DictReader(file):
            found[row["family"], row["controls"]][row["of"]] = float(row["value"])
    return found


TABLE = table()
FAMILIES = sorted({family for family, _ in TABLE})


def solved(family: str, controls: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Every number of the branch with its stated error; the branch must be a solution."""
    of = true_values.FAMILIES[family]
    model = str(MODELS / of.model) if of.model.endswith(".py") else of.model
    found = replica.solve(model, **controls)
    (branch,) = [b for b in found.branches if of.start in b.start.split("+")]
    assert branch.ok, f"{family} {controls}: {branch.message}"
    numbers = branch.overlaps | branch.conjugates | branch.observables
    numbers |= {"free_entropy": branch.free_energy}
    errors = branch.error | {"free_entropy": branch.error["free_energy"]}
    return {name: (value, errors[name]) for name, value in numbers.items()}


class Compared(NamedTuple):
    """A number against the true one: true over stated error, stated over true error (rounding
    counts as that), and what to say.
    """

    covered: float
    times_too_large: float
    said: str


def compared(
    family: str, controls: Mapping[str, float], true: Mapping[str, float]
) -> list[Compared]:
    """Every number of a setting."""
    found, result = solved(family, controls), []
    for name, value in true.items():
        number, stated = found[name]
        floor = ROUNDING * (1 + abs(value))
        wrong = abs(number - value)
        said = f"{family} {controls}: {name} = {number!r} +- {stated:.1e}, true {value!r}"
        said = f"{said}, off by {wrong:.1e}"
        result.append(Compared(wrong / stated, stated / max(wrong, floor), said))
    return result


def parsed(controls: str) -> dict[str, float]:
    pairs = (part.split("=") for part in controls.split())
    return {name: float(value) for name, value in pairs}


def test_the_table_is_large() -> None:
    assert sum(map(len, TABLE.values())) >= 300
    assert set(FAMILIES) == set(true_values.FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
def test_stated_errors_cover_the_true_ones_and_are_not_far_above(family: str) -> None:
    found: list[Compared] = []
    for (of, controls), true in TABLE.items():
        if of == family:
            found += compared(family, parsed(controls), true)
    wrong = [one.said for one in found if not one.covered <= 1]
    assert not wrong, "\n".join(wrong)
    assert np.median([one.times_too_large for one in found]) <= 10


RANGES: dict[str, tuple[int, dict[str, tuple[float, float]]]] = {
    "ridge": (90, {"alpha": (0.1, 20.0), "lam": (1e-4, 1e2), "Delta": (1e-4, 1e2)}),
    "gaussian_signal": (80, {"alpha": (0.1, 10.0), "Delta": (1e-12, 1e3)}),
    "spiked_wigner": (30, {"snr": (0.1, 30.0)}),
}
"""How many settings are drawn, uniformly in the logarithm of each control."""


@pytest.mark.slow
def test_errors_at_fresh_random_settings() -> None:
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    generator = np.random.default_rng(seed)
    found: list[Compared] = []
    for family, (count, ranges) in RANGES.items():
        for _ in range(count):
            controls = {
                name: float(np.exp(generator.uniform(np.log(low), np.log(high))))
                for name, (low, high) in ranges.items()
            }
            values = true_values.numbers(true_values.FAMILIES[family], controls)
            found += compared(family, controls, {name: float(v) for name, v in values.items()})
    worst = max(found)
    share = f"{worst.covered:.2g} of it"
    print(f"seed {seed}: {len(found)} numbers; the worst is {worst.said} ({share})")
    assert all(one.covered <= 1 for one in found), f"seed {seed}: {worst.said}"
    assert np.median([one.times_too_large for one in found]) <= 10
