"""Files: what goes in comes out, other programs can read it, and a failure never costs a file."""

from __future__ import annotations

import errno
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from replica.errors import StoreError
from replica.files import reading, schema, store, writer
from replica.files.netcdf import portable

METADATA = {
    "model": "slr-bayes",
    "options": {
        "damping": 0.5,
        "damped": True,
        "seed": None,
        "starts": ("uninformed", ["informed", (1, 2.5)]),
    },
    "controls": {"alpha": np.linspace(0, 1, 3), "L": 4},
    "keys": {
        1: "integer key",
        (1, "a"): "tuple key",
        "$tuple": ["looks like a tag"],
    },
    "command": "replica sweep slr-bayes --alpha 0:1 \u0394=1e-4",
    "sources": ["arXiv:2410.18858, eq. (12)", {"$float": "nan"}, {}],
    "versions": {"jax": "0.10"},
    "names": np.array(["\u03b1", "\u0394\u0394", ""]),
    "extremes": [float("inf"), -float("inf"), float("nan"), -0.0, 5e-324, 10**30, "\0", "\ud800"],
    "mask": np.array([[True], [False]]),
    "mixed": np.array([None, "x", [1, (2,)]], dtype=object),
    "scalars": [np.float32(0.1), np.int64(3), np.bool_(False), np.str_("a")],
    "empty": [(), [], {}, "", np.zeros((0, 2), dtype=np.float32)],
}


@pytest.fixture
def curve() -> xr.Dataset:
    dims = ("alpha", "Delta", "branch")
    rng = np.random.default_rng(0)
    overlap = rng.normal(size=(3, 2, 2))
    overlap[1, 0, 1] = np.nan
    attrs = {
        "latex": r"m_\star",
        "long_name": "overlap \u03bc",
        "units": None,
        "exact": False,
        "range": (0, np.inf),
    }
    codes = {
        "flag_values": np.arange(3),
        "flag_meanings": "converged diverged stopped",
        "sentences": {0: "converged"},
    }
    return xr.Dataset(
        {
            "m": (dims, overlap, attrs),
            "status": (dims, np.arange(12, dtype=np.int32).reshape(3, 2, 2), codes),
            "free_entropy": (dims, rng.normal(size=(3, 2, 2)), {"units": "per D"}),
            "error_m": (("branch", "alpha"), rng.normal(size=(2, 3)).astype(np.float32)),
            "best": (("alpha",), np.array([True, False, True])),
            "reason": (("alpha", "branch"), np.array([["", "\u03b1"], ["b", "c"], ["d", "e"]])),
            "threshold": ((), 1.25, {"units": ""}),
            "count": ((), 7),
        },
        {
            "alpha": (
                "alpha",
                [0.1, 0.2, 0.30000000000000004],
                {"latex": r"\alpha", "units": "per D"},
            ),
            "Delta": [1e-4, 1.0],
            "branch": ("branch", ["uninformed", "inform\u00e9"], {"long_name": "start"}),
            "ratio": ("alpha", [1, 2, 3]),
        },
        METADATA,
    )


def same(a: Any, b: Any) -> bool:
    """Whether ``a`` was read where ``b`` was written; tells tuples from lists and bools from ints,
    nan equals nan.
    """
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        a, b = np.asarray(a), np.asarray(b)
        return (
            a.dtype == b.dtype
            and a.shape == b.shape
            and all(map(same, a.ravel().tolist(), b.ravel().tolist()))
        )
    if isinstance(b, np.generic):  # np.float64 and np.str_ come back as float and str
        return isinstance(a, type(b.item()) | type(b)) and bool(a == b)
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return repr(a) == repr(b)  # also the sign of zero
    return a == b


def assert_same(read: xr.Dataset, written: xr.Dataset) -> None:
    xr.testing.assert_equal(read, portable(written))
    assert set(read.coords) == set(written.coords) and dict(read.sizes) == dict(written.sizes)
    assert same(read.attrs, written.attrs)
    for name, variable in written.variables.items():
        assert (
            read.variables[name].dtype == variable.dtype
            and read.variables[name].dims == variable.dims
        )
        assert same(read.variables[name].attrs, variable.attrs), name


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


# round trips --------------------------------------------------------------------------------------


def test_everything_comes_back(tmp_path: Path, curve: xr.Dataset) -> None:
    path = store.save(tmp_path / "curve.h5", curve)
    assert path == tmp_path / "curve.h5" and names(tmp_path) == ["curve.h5"]
    assert_same(store.load(path), curve)


def test_str_paths_and_what_was_loaded_can_be_saved(tmp_path: Path, curve: xr.Dataset) -> None:
    first = store.save(str(tmp_path / "1.h5"), curve)
    second = store.save(tmp_path / "2.h5", store.load(str(first)))
    assert_same(store.load(second), curve)


def test_one_point_has_no_controls(tmp_path: Path) -> None:
    point = xr.Dataset({"m": ("branch", [0.1, 0.2])}, {"branch": ["uninformed", "informed"]})
    read = store.load(store.save(tmp_path / "point.h5", point))
    assert_same(read, point)
    assert [type(name) for name in read.branch.values.tolist()] == [str, str]
    assert read.m.sel(branch="informed") == 0.2


@pytest.mark.parametrize(
    "dataset",
    [
        xr.Dataset(),
        xr.Dataset(coords={"alpha": [1.0, 2.0]}),
        xr.Dataset({"m": ("alpha", np.zeros(0))}, {"alpha": np.zeros(0)}),
        xr.Dataset({"m": (("k", "alpha"), np.ones((2, 1)))}, {"alpha": [1.0]}),
        xr.Dataset({"m": ("branch", [1])}, {"branch": np.array(["a"], dtype=object)}),
        xr.Dataset({"\u03b1": ((), np.array("text"))}, {"seed": 3}),
        xr.Dataset({"m": ("x", np.arange(2, dtype=">u2"))}),
    ],
    ids=[
        "empty",
        "no variables",
        "no points",
        "dimension without coordinate",
        "object text",
        "scalar text",
        "big-endian",
    ],
)
def test_unusual_datasets(tmp_path: Path, dataset: xr.Dataset) -> None:
    path = store.save(tmp_path / "x.h5", dataset)
    assert_same(store.load(path), dataset)
    with xr.open_dataset(path, engine="h5netcdf") as seen:
        xr.testing.assert_equal(seen, dataset)


def test_text_of_variable_width_comes_back_as_str(tmp_path: Path) -> None:
    names_ = np.array(["uninformed", "\u03b1"], dtype=np.dtypes.StringDType())
    read = store.load(store.save(tmp_path / "x.h5", xr.Dataset({"name": ("i", names_)})))
    assert read.name.values.tolist() == ["uninformed", "\u03b1"] and read.name.dtype.kind == "U"


def test_metadata_beyond_the_64_kb_of_an_hdf5_header(tmp_path: Path) -> None:
    big = xr.Dataset(
        attrs={"words": "x" * 200_000, "values": np.arange(50_000.0), "text": "\u03b1" * 100_000}
    )
    assert_same(store.load(store.save(tmp_path / "x.h5", big)), big)


def test_jax_arrays_come_back_as_numpy(tmp_path: Path) -> None:
    import jax.numpy as jnp

    values = jnp.arange(3)
    written = xr.Dataset({"m": ("i", values)}, attrs={"grid": values})
    read = store.load(store.save(tmp_path / "x.h5", written))
    assert read.m.values.tolist() == read.attrs["grid"].tolist() == [0, 1, 2]


NAMES = (*schema.ATTRIBUTES, *schema.OF_VARIABLES)
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | hnp.arrays(
        st.sampled_from(["f8", "f4", "i8", "u1", "?", "U3"]),
        hnp.array_shapes(min_side=0, max_dims=2, max_side=3),
    )
)
keys = (
    st.text()
    | st.integers()
    | st.booleans()
    | st.none()
    | st.tuples(st.text(), st.integers())
    | st.sampled_from(["$array", "$tuple", "$dict"])
)
values_ = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(keys, inner, max_size=4)
    ),
    max_leaves=12,
)
attributes = st.dictionaries(
    st.text().filter(lambda name: name not in NAMES), values_, max_size=5
) | st.dictionaries(st.sampled_from(["latex", "units", "long_name"]), st.none() | st.text())


@settings(
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(on_file=attributes, on_variable=attributes)
def test_any_metadata_comes_back(
    tmp_path: Path, on_file: dict[str, Any], on_variable: dict[str, Any]
) -> None:
    written = xr.Dataset({"m": ("i", [1.0], on_variable)}, attrs=on_file)
    assert_same(store.load(store.save(tmp_path / "x.h5", written, force=True)), written)


@settings(
    deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    values=hnp.arrays(
        st.sampled_from(["f8", "f4", "i8", "i4", "?"]),
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=4),
    ),
    name=st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1).filter(
        lambda text: text not in (".", "x", "y")
    ),
)
def test_any_array_and_name_come_back(tmp_path: Path, values: np.ndarray, name: str) -> None:
    written = xr.Dataset({name: (("x", "y"), values)}, {"x": np.arange(values.shape[0]) / 3})
    assert_same(store.load(store.save(tmp_path / "x.h5", written, force=True)), written)


# other programs -----------------------------------------------------------------------------------


def test_xarray_opens_it_with_named_coordinates(tmp_path: Path, curve: xr.Dataset) -> None:
    path = store.save(tmp_path / "curve.h5", curve)
    with xr.open_dataset(path, engine="h5netcdf") as seen:
        xr.testing.assert_equal(seen, curve)
        assert set(seen.coords) == {"alpha", "Delta", "branch", "ratio"}
        assert seen.m.sel(alpha=0.2, Delta=1.0, branch="uninformed") == curve.m[1, 1, 0]
        assert seen.best.dtype == bool and seen.status.dtype == np.int32
        assert seen.m.attrs["latex"] == r"m_\star" and seen.m.attrs["long_name"] == "overlap \u03bc"
        assert seen.attrs["model"] == "slr-bayes" and seen.attrs["command"] == METADATA["command"]
        assert seen.attrs["schema_version"] == 2


def test_plain_attributes(tmp_path: Path, curve: xr.Dataset) -> None:
    curve.m.attrs.update(long_name="nul \0 and half a pair \ud800")
    path = store.save(tmp_path / "curve.h5", curve)
    with h5py.File(path) as file:
        attrs = dict(file.attrs)
        assert attrs["format"] == "replica-solver" and attrs["schema_version"] == 2
        assert (
            attrs["numpy_version"] == np.__version__
            and attrs["python_version"] == platform.python_version()
        )
        versions = [
            f"{name}_version"
            for name in ("replica_solver", "numpy", "jax", "sympy", "h5py", "scipy", "python")
        ]
        assert all(isinstance(attrs[name], str) and attrs[name] for name in versions)
        assert isinstance(json.loads(attrs["metadata_json"]), dict)
        assert json.loads(file["m"].attrs["metadata_json"])["attrs"]["units"] is None
        assert file["m"].attrs["long_name"] == "nul  and half a pair ?"
        every = [file.attrs, *(file[name].attrs for name in file)]
        assert not any(a.get_id(name).dtype.kind == "b" for a in every for name in a)
    assert_same(store.load(path), curve)


def test_unknown_package_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_PACKAGES", ("no-such-package-anywhere",))
    with h5py.File(store.save(tmp_path / "x.h5", xr.Dataset())) as file:
        assert file.attrs["no_such_package_anywhere_version"] == "unknown"


def test_same_dataset_same_bytes(tmp_path: Path, curve: xr.Dataset) -> None:
    first, second = (store.save(tmp_path / name, curve).read_bytes() for name in ("1.h5", "2.h5"))
    assert first == second


# refusals of save ---------------------------------------------------------------------------------


@pytest.fixture(params=["check_target", "save"])
def attempt(request: pytest.FixtureRequest, curve: xr.Dataset) -> Any:
    """Both ways to meet a refusal."""
    if request.param == "check_target":
        return writer.check_target
    return lambda path, force=False: store.save(path, curve, force=force)


def test_an_existing_file_is_refused(tmp_path: Path, attempt: Any) -> None:
    path = tmp_path / "x.h5"
    path.write_text("mine")
    with pytest.raises(StoreError, match=r"x\.h5 exists: choose another name or pass --force$"):
        attempt(path)
    assert path.read_text() == "mine" and names(tmp_path) == ["x.h5"]
    attempt(path, True)


def test_a_missing_folder_is_refused(tmp_path: Path, attempt: Any) -> None:
    for force in (False, True):
        with pytest.raises(StoreError, match=r"the folder .*missing does not exist: create it"):
            attempt(tmp_path / "missing" / "x.h5", force)
    assert names(tmp_path) == []


def test_a_folder_is_refused(tmp_path: Path, attempt: Any) -> None:
    for force in (False, True):
        with pytest.raises(StoreError, match="is a folder: give the name of a file"):
            attempt(tmp_path, force)


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_impossible_names_are_refused(tmp_path: Path, attempt: Any, name: str) -> None:
    with pytest.raises(StoreError, match=r"cannot be the name of a file|choose another"):
        attempt(tmp_path / name)
    assert names(tmp_path) == []


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="POSIX")
def test_a_device_is_refused(attempt: Any) -> None:
    with pytest.raises(StoreError, match="not an ordinary file"):
        attempt("/dev/null", True)


def test_a_folder_without_permission_is_refused(
    tmp_path: Path, attempt: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    with pytest.raises(StoreError, match="no permission to write in the folder"):
        attempt(tmp_path / "x.h5")


def test_check_target_writes_nothing(tmp_path: Path) -> None:
    assert writer.check_target(tmp_path / "x.h5") is None
    assert writer.check_target(str(tmp_path / "x.h5"), force=True) is None
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (xr.Dataset({"m": ("i", [1j])}), "variable m cannot be stored: its type is complex128"),
        (
            xr.Dataset({"m": ("i", np.array(["2024-01-01"], dtype="M8[ns]"))}),
            "variable m cannot be stored",
        ),
        (
            xr.Dataset({"m": ("i", np.array([None, "a"], dtype=object))}),
            "variable m cannot be stored",
        ),
        (xr.Dataset({"m": ("i", ["a\0b"])}), "variable m cannot be stored"),
        (xr.Dataset({"a/b": 1}), "variable a/b cannot be stored: its name"),
        (xr.Dataset({3: 1}), "variable 3 cannot be stored: its name"),
        (
            xr.Dataset(attrs={"f": {1, 2}}),
            r"dataset cannot be stored: no encoding for \{1, 2\} \(set\)",
        ),
        (
            xr.Dataset({"m": ((), 1, {"f": np.array([1j])})}),
            "variable m cannot be stored: no encoding",
        ),
        (xr.Dataset(attrs={"f": np.longdouble(1)}), "dataset cannot be stored: no encoding"),
        (
            xr.Dataset(attrs={"f": np.datetime64("2024-01-01")}),
            "dataset cannot be stored: no encoding",
        ),
    ],
)
def test_what_has_no_encoding_is_refused(tmp_path: Path, dataset: xr.Dataset, message: str) -> None:
    with pytest.raises(StoreError, match=message):
        store.save(tmp_path / "x.h5", dataset)
    assert names(tmp_path) == []


def test_metadata_that_contains_itself_is_refused(tmp_path: Path) -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(StoreError, match="dataset cannot be stored"):
        store.save(tmp_path / "x.h5", xr.Dataset(attrs={"loop": loop}))


# crashes ------------------------------------------------------------------------------------------


def fail_with(error: BaseException) -> Any:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


PLACES = {
    "HDF5": (h5py.Group, "create_dataset"),
    "attribute": (h5py.AttributeManager, "__setitem__"),
    "fsync": (os, "fsync"),
    "name": (os, "replace"),
}


@pytest.mark.parametrize(
    "error",
    [RuntimeError("crash"), KeyboardInterrupt(), OSError(errno.EIO, "broken disk")],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.parametrize("place", PLACES)
def test_a_crash_keeps_the_old_file_and_leaves_no_other(
    tmp_path: Path,
    curve: xr.Dataset,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    error: BaseException,
) -> None:
    store.save(tmp_path / "old.h5", xr.Dataset({"m": 1}))
    with monkeypatch.context() as patch:
        patch.setattr(*PLACES[place], fail_with(error))
        with pytest.raises((type(error), StoreError)):
            store.save(tmp_path / "old.h5", curve, force=True)
        if place != "name":
            with pytest.raises((type(error), StoreError)):
                store.save(tmp_path / "new.h5", curve)
    assert names(tmp_path) == ["old.h5"]
    assert_same(store.load(tmp_path / "old.h5"), xr.Dataset({"m": 1}))


def test_a_crash_after_some_variables(
    tmp_path: Path, curve: xr.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, calls = h5py.Group.create_dataset, iter([None] * 3)

    def third(*args: Any, **kwargs: Any) -> Any:
        if next(calls, "end") == "end":
            raise RuntimeError("crash")
        return create(*args, **kwargs)

    monkeypatch.setattr(h5py.Group, "create_dataset", third)
    with pytest.raises(RuntimeError, match="crash"):
        store.save(tmp_path / "x.h5", curve)
    assert names(tmp_path) == []


def test_a_killed_process_leaves_no_file_under_the_final_name(tmp_path: Path) -> None:
    script = (
        "import os, sys, xarray as xr; from replica.files import store\n"
        "store.save(sys.argv[1], xr.Dataset({'m': 1}))\n"
        "os.fsync = lambda _: os._exit(9)\n"
        "store.save(sys.argv[1], xr.Dataset({'m': 2}), force=True)"
    )
    assert run(script, tmp_path / "x.h5").wait() == 9
    assert store.load(tmp_path / "x.h5").m == 1
    assert len(names(tmp_path)) == 2  # what is left beside it is hidden and says whose it is
    assert names(tmp_path)[0].startswith(".replica-")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_named(
    tmp_path: Path, curve: xr.Dataset, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(os, "fsync", fail_with(OSError(code, os.strerror(code))))
    with pytest.raises(
        StoreError,
        match=(
            r"x\.h5 was not written, the disk or the quota is full: free some space or choose"
            r" another folder"
        ),
    ):
        store.save(tmp_path / "x.h5", curve)
    assert names(tmp_path) == []


def test_a_file_system_that_really_refuses_bytes(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    assert resource
    script = (
        "import resource, sys, numpy as np, xarray as xr; from replica.files import store\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
        "try: store.save(sys.argv[1], xr.Dataset({'m': ('i', np.zeros(5000))}))\n"
        "except store.StoreError as error: print(error)"
    )
    process = run(script, tmp_path / "x.h5")
    assert "quota is full" in process.communicate()[0] and process.returncode == 0
    assert names(tmp_path) == []


def test_other_failures_name_the_file_and_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", fail_with(OSError(errno.EROFS, "Read-only file system")))
    with pytest.raises(
        StoreError, match=r"x\.h5 was not written, Read-only file system: check the folder"
    ):
        store.save(tmp_path / "x.h5", xr.Dataset())


def appears(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let another program create ``path`` between the check and the rename."""
    monkeypatch.setattr(os, "fsync", lambda _: path.write_text("theirs"))


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_appears_meanwhile_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    if not links:
        monkeypatch.setattr(os, "link", fail_with(OSError(errno.EPERM, "no links")))
    appears(tmp_path / "x.h5", monkeypatch)
    with pytest.raises(StoreError, match="exists: choose another name"):
        store.save(tmp_path / "x.h5", xr.Dataset())
    assert names(tmp_path) == ["x.h5"] and (tmp_path / "x.h5").read_text() == "theirs"


def test_file_systems_without_hard_links(
    tmp_path: Path, curve: xr.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", fail_with(OSError(errno.EPERM, "no links")))
    assert_same(store.load(store.save(tmp_path / "x.h5", curve)), curve)
    assert names(tmp_path) == ["x.h5"]
    monkeypatch.setattr(os, "replace", fail_with(OSError(errno.EIO, "broken disk")))
    with pytest.raises(StoreError, match="broken disk"):
        store.save(tmp_path / "y.h5", curve)
    assert names(tmp_path) == ["x.h5"]


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link.h5").symlink_to(tmp_path / "x.h5")
    store.save(tmp_path / "link.h5", xr.Dataset({"m": 1}))
    store.save(tmp_path / "link.h5", xr.Dataset({"m": 2}), force=True)
    assert (tmp_path / "link.h5").is_symlink() and store.load(tmp_path / "x.h5").m == 2


# refusals of load ---------------------------------------------------------------------------------


def run(script: str, path: Path) -> subprocess.Popen[str]:
    root = Path(store.__file__).parents[2]
    return subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        cwd=root,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def refused(path: Path, message: str) -> None:
    with pytest.raises(StoreError, match=message) as caught:
        store.load(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_missing_files(tmp_path: Path) -> None:
    refused(tmp_path / "x.h5", "does not exist: check the name")
    refused(tmp_path / "missing" / "x.h5", "does not exist: check the name")
    (tmp_path / "file").write_text("")
    refused(tmp_path / "file" / "x.h5", "does not exist: check the name")


def test_load_refuses_a_folder(tmp_path: Path) -> None:
    refused(tmp_path, "is a folder: give the name of a file in it")


@pytest.mark.parametrize("content", [b"", b"alpha,m\n1,2\n", b"CDF\x01" + bytes(100)])
def test_not_hdf5(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.h5").write_bytes(content)
    refused(tmp_path / "x.h5", "is not an HDF5 file .*: give a file written by replica-solver")


def test_every_truncation_is_noticed(tmp_path: Path, curve: xr.Dataset) -> None:
    whole = store.save(tmp_path / "whole.h5", curve).read_bytes()
    path = tmp_path / "x.h5"
    for length in [*range(0, 200, 7), *range(200, len(whole), len(whole) // 50), len(whole) - 1]:
        path.write_bytes(whole[:length])
        refused(
            path,
            (
                "is truncated or damaged: restore a copy or compute it again"
                if length >= 8
                else "is not an HDF5 file"
            ),
        )


@pytest.mark.parametrize(
    "mark", [None, "keras", 3, np.array(["replica-solver", "x"], dtype=object)]
)
def test_hdf5_of_others(tmp_path: Path, mark: Any) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["m"] = [1.0]
        if mark is not None:
            file.attrs["format"] = mark
    refused(tmp_path / "x.h5", "is an HDF5 file that replica-solver did not write")


def test_a_newer_schema(tmp_path: Path, curve: xr.Dataset) -> None:
    with h5py.File(store.save(tmp_path / "x.h5", curve), "r+") as file:
        file.attrs["schema_version"] = 3
        file.attrs["metadata_json"] = "in another language"
        del file["m"]
    refused(
        tmp_path / "x.h5",
        r"was written with schema 3, this version reads up to 2: update replica-solver$",
    )


def test_an_older_schema_goes_to_its_reader(
    tmp_path: Path, curve: xr.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store.save(tmp_path / "x.h5", curve)
    monkeypatch.setitem(reading.READERS, 1, fail_with(AssertionError("wrong reader")))
    assert_same(store.load(path), curve)


@pytest.mark.parametrize("version", [0, -1, "one", np.array([1, 2]), None])
def test_an_impossible_schema(tmp_path: Path, version: Any) -> None:
    store.save(tmp_path / "x.h5", xr.Dataset())
    with h5py.File(tmp_path / "x.h5", "r+") as file:
        del file.attrs["schema_version"]
        if version is not None:
            file.attrs["schema_version"] = version
    refused(tmp_path / "x.h5", "is truncated or damaged")


@pytest.mark.parametrize("change", ["variable", "metadata", "json", "tag", "dims"])
def test_a_file_with_parts_missing(tmp_path: Path, curve: xr.Dataset, change: str) -> None:
    with h5py.File(store.save(tmp_path / "x.h5", curve), "r+") as file:
        if change == "variable":
            del file["m"]
        elif change == "metadata":
            del file["m"].attrs["metadata_json"]
        else:
            texts = {
                "json": "{",
                "tag": '{"$unknown": 1}',
                "dims": '{"attrs": {}, "dims": ["alpha"], "dtype": "<f8"}',
            }
            file["m"].attrs["metadata_json"] = texts[change]
    refused(tmp_path / "x.h5", "is truncated or damaged: restore a copy or compute it again")


def test_a_file_that_another_program_writes(tmp_path: Path, curve: xr.Dataset) -> None:
    path = store.save(tmp_path / "x.h5", curve)
    notebook = run(
        "import sys, h5py; file = h5py.File(sys.argv[1], 'r+'); print('open', flush=True); input()",
        path,
    )
    assert notebook.stdout is not None
    assert notebook.stdout.readline() == "open\n"
    try:
        refused(
            path,
            r"is locked, another program \(such as a notebook\) has it open for writing: close it"
            r" there and try again$",
        )
    finally:
        notebook.communicate("\n")
    assert_same(store.load(path), curve)


def test_a_file_that_another_program_reads(tmp_path: Path, curve: xr.Dataset) -> None:
    path = store.save(tmp_path / "x.h5", curve)
    with h5py.File(path), xr.open_dataset(path, engine="h5netcdf"):
        assert_same(store.load(path), curve)
        store.save(path, curve, force=True)


def test_no_permission_to_read(
    tmp_path: Path, curve: xr.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store.save(tmp_path / "x.h5", curve)
    path.chmod(0)
    if os.access(path, os.R_OK):  # root reads everything
        monkeypatch.setattr(
            "builtins.open", fail_with(PermissionError(errno.EACCES, "Permission denied"))
        )
    refused(path, "may not be read, permission denied: ask its owner")


def test_the_only_modules_that_import_h5py() -> None:
    sources = sorted(Path(store.__file__).parent.rglob("*.py"))
    assert [
        p.name for p in sources if "import h5py" in p.read_text() or "from h5py" in p.read_text()
    ] == ["limits.py", "reading.py", "store.py"]
