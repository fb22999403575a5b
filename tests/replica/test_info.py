"""What a stored file says about itself, and its way to CSV; a reader that knows
nothing but h5py.
"""

import json
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import replica
from replica.errors import InputError, StoreError
from replica.files import export, info


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    dataset = replica.sweep("spiked-wigner", over={"snr": [0.5, 1.5, 2.0]}, progress=False)
    return replica.save(
        tmp_path_factory.mktemp("info") / "wigner.h5",
        dataset.assign_attrs(command="replica sweep spiked-wigner --over snr=0.5:2:3"),
    )


def test_info_names_the_command_and_every_variable(stored: Path) -> None:
    found, dataset = info.describe(stored), replica.load(stored)
    assert found["command"] == "replica sweep spiked-wigner --over snr=0.5:2:3"
    assert (found["kind"], found["model"], found["complete"]) == ("sweep", "spiked-wigner", True)
    assert found["axes"] == {"snr": [0.5, 1.5, 2.0], "branch": ["uninformed", "informed"]}
    assert found["statuses"] == {"successful": 6}
    assert found["variables"].keys() == set(dataset.data_vars)
    assert found["variables"]["q"]["largest"] == float(dataset.q.max())
    json.dumps(found, allow_nan=False)
    printed = info.text(found)
    assert found["command"] in printed and "6 x successful" in printed
    assert f"error <= {float(dataset.error_q.max()):.1e}" in printed


def test_info_of_what_is_missing(tmp_path: Path) -> None:
    dataset = xr.Dataset(
        {"risk": ("nu", [1.0, np.nan])}, {"nu": [1.0, np.inf]}, {"complete": False}
    )
    found = info.describe(replica.save(tmp_path / "a.h5", dataset))
    assert found["variables"]["risk"]["without_value"] == 1
    assert found["axes"] == {"nu": [1.0, "inf"]}
    json.dumps(found, allow_nan=False)
    assert "unfinished" in info.text(found) and info.NO_COMMAND in info.text(found)


def test_csv_has_every_number_with_all_its_digits(stored: Path, tmp_path: Path) -> None:
    (written,) = export.to_csv(stored, tmp_path / "wigner.csv")
    table, dataset = pd.read_csv(written), replica.load(stored)
    for name in dataset.data_vars:
        np.testing.assert_array_equal(table[name], dataset[name].values.ravel())
    assert list(table.columns[:2]) == ["snr", "branch"]
    assert set(table.status_message) == {"successful"}


def test_variables_of_several_shapes_are_several_tables(tmp_path: Path) -> None:
    variables = {"line": ("nu", [1.0, 2.0]), "risk": (("nu", "alpha"), np.eye(2)), "one": 3.0}
    dataset = xr.Dataset(variables, {"nu": [1, 2], "alpha": [3, 4]}, {"controls": {"L": 4.0}})
    file = replica.save(tmp_path / "phase.h5", dataset)
    written = export.to_csv(file, tmp_path / "out.csv")
    assert {w.name for w in written} == {"out.nu.csv", "out.nu.alpha.csv", "out.single.csv"}
    assert list(pd.read_csv(tmp_path / "out.nu.alpha.csv").columns) == ["nu", "alpha", "L", "risk"]
    with pytest.raises(StoreError, match="exists"):
        export.to_csv(file, tmp_path / "out.csv")
    with pytest.raises(InputError, match=r"must end in \.csv"):
        export.to_csv(file, tmp_path / "out.txt")


def test_a_reader_of_ten_lines(stored: Path) -> None:
    """The one of docs/files.md, and xarray's own."""
    with h5py.File(stored, "r") as file:
        snr, branch = file["snr"][:], file["branch"].asstr()[:]
        q, error = file["q"][:], file["error_q"][:]
        status = file["status"][:]
        label, command = file["q"].attrs["latex"], file.attrs["command"]
    assert q.shape == error.shape == status.shape == (len(snr), len(branch))
    assert label == "q" and command.startswith("replica sweep")
    with xr.open_dataset(stored, engine="h5netcdf") as opened:
        np.testing.assert_array_equal(
            opened.q.sel(branch="informed"), q[:, list(branch).index("informed")]
        )
