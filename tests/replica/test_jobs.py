"""The number of cores that long work uses changes no bit of its result."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest

import replica
from replica import InputError
from replica.check.trials import in_order, read_trials, run_trials
from replica.jobs.options import JobOptions, cores
from replica.jobs.run import Batch, SinglePoint, run_job
from replica.plots.sweeps import valid
from replica.sweeps.sweep import GridJob

VARIED = {"snr": np.linspace(0.5, 4, 70)}


def same_bits(a: Any, b: Any) -> bool:
    return set(a.variables) == set(b.variables) and all(
        a[name].values.tobytes() == b[name].values.tobytes()
        for name in a.variables
        if a[name].dtype.kind in "biuf"
    )


def test_a_sweep_has_the_same_bits_for_any_number_of_jobs(tmp_path: Path) -> None:
    sweeps = [
        replica.sweep("spiked-wigner", over=VARIED, jobs=jobs, file=tmp_path / f"{jobs}.h5")
        for jobs in (1, 2, 3, None)
    ]
    assert all(same_bits(sweeps[0], other) for other in sweeps[1:])
    assert all(same_bits(sweeps[0], replica.load(file)) for file in tmp_path.iterdir())
    assert np.isfinite(valid(sweeps[0], "q")).any()


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [2, 3])
def test_a_diagram_has_the_same_bits_for_any_number_of_jobs(jobs: int) -> None:
    model = str(Path(__file__).parents[1] / "data" / "models" / "compressed_sensing.py")
    columns = {"rho": [0.1, 0.2, 0.3]}
    one, many = (
        replica.phase_diagram(model, over=columns, Delta=1e-4, tricritical=False, jobs=n)
        for n in (1, jobs)
    )
    assert same_bits(one, many)


@pytest.mark.slow
def test_trained_attention_has_the_same_bits_for_any_number_of_jobs() -> None:
    """A point occupies two cores: with four, two are solved at a time."""
    point = {"activation": "linear", "L": 2, "nu": 1, "Delta": 0.1, "lam_k": 0.5, "lam_v": 0.5}
    over = {"alpha": [2.0, 2.5, 3.0, 3.5]}
    one, many = (replica.sweep("slr-erm", over=over, jobs=n, **point) for n in (1, 4))
    assert same_bits(one, many) and np.isfinite(one["risk"].values).all()


def test_trials_have_the_same_bits_for_any_number_of_jobs() -> None:
    sizes = read_trials("20,40", 5)

    def trial(D: int, rng: np.random.Generator) -> dict[str, Any]:
        a = rng.standard_normal((D, D))
        time.sleep(rng.random() / 100)  # so that they do not end in their order
        return {"norm": np.linalg.norm(a @ a), "ends": a[0, :2]}

    found = [run_trials(sizes, trial, at_once=n) for n in (1, 2, 3)]
    for name in ("norm", "ends"):
        assert all(found[0][name].tobytes() == other[name].tobytes() for other in found[1:])


def test_so_many_trials_run_side_by_side() -> None:
    """They wait for each other, after the first: fewer threads would wait for ever."""
    met = Barrier(3)

    def work(number: int) -> int:
        if number:
            met.wait(timeout=20)
        return -number

    assert list(in_order(work, range(4), 3)) == [(0, 0), (1, -1), (2, -2), (3, -3)]


@pytest.mark.parametrize(("jobs", "occupied", "at_once"), [(3, 1, 3), (4, 2, 2), (1, 2, 1)])
def test_so_many_pieces_run_side_by_side(jobs: int, occupied: int, at_once: int) -> None:
    met, now, most = Barrier(at_once), [0], [0]

    def solve(model: Any, piece: SinglePoint, done: Any) -> float:
        now[0] += 1
        most[0] = max(most[0], now[0])
        if piece.controls["snr"]:
            met.wait(timeout=20)
        time.sleep(0.01)
        now[0] -= 1
        return piece.controls["snr"]

    pieces = [SinglePoint({"snr": float(i)}) for i in range(1 + 2 * at_once)]
    found: dict[int, float] = {}
    table = replica.sweep("spiked-wigner", over={"snr": [1.0]}).copy(deep=True)
    table["status"][:] = replica.Status.NOT_COMPUTED.code

    def batch(table: Any) -> Batch:
        return Batch(
            solve=solve,
            model=replica.MODELS["spiked-wigner"].build(),
            name=None,
            pieces=pieces,
            pending=list(range(len(pieces))),
            put=lambda i, value: found.update({i: value}) or 0,
            failed=0,
            cores=occupied,
        )

    run_job(GridJob("made up", table, batch), JobOptions(jobs=jobs))
    assert found == {i: float(i) for i in range(len(pieces))} and most[0] == at_once


def test_jobs_that_make_no_sense_are_one_sentence() -> None:
    assert JobOptions().at_once() == cores() >= 1
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(InputError, match="must be a whole number, at least 1"):
            replica.sweep("spiked-wigner", over={"snr": [1, 2]}, jobs=wrong)
    with pytest.raises(InputError, match="give one of them"):
        replica.sweep("spiked-wigner", over={"snr": [1, 2]}, jobs=2, dask="s.json")
