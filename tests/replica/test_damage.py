"""Files that are damaged, forged, or saved again by others: refused or read, never wrong, and what
they hold is never obeyed.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr

import replica
from replica import StoreError
from replica.errors import ReplicaWarning, readable
from replica.files import digest, limits, metadata, reading, seal, store

GRID = {"snr": np.linspace(0.5, 4, 6)}
SCHEMA1 = Path(__file__).parents[1] / "data" / "schema1"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small sweep, complete."""
    path = tmp_path_factory.mktemp("whole") / "x.h5"
    replica.sweep("spiked-wigner", over=GRID, file=path)
    return path


@pytest.fixture
def file(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(whole, tmp_path / "x.h5"))


def same(a: xr.Dataset, b: xr.Dataset) -> bool:
    """Values, names and every attribute."""
    attrs = all(repr(a[v].attrs) == repr(b[v].attrs) for v in b.variables)
    return a.identical(b) and repr(a.attrs) == repr(b.attrs) and attrs


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def offset(file: Path, name: str) -> int:
    """Where the values of a variable begin."""
    with h5py.File(file) as opened:
        return opened[name].id.get_offset()


# damage -------------------------------------------------------------------------------------------


def test_every_flipped_bit_is_harmless_or_refused(file: Path) -> None:
    data, expected, rng = file.read_bytes(), replica.load(file), random.Random(1)
    values = offset(file, "q")
    text = data.find(b'"attrs"')
    seal_at = data.rfind(b"replica-solver seal")
    ends = {8 * place + rng.randrange(8) for place in (0, 9, 40, len(data) - 1, seal_at, text)}
    bits = sorted(ends | {8 * values + 70} | {rng.randrange(8 * len(data)) for _ in range(300)})
    refused = 0
    for bit in bits:
        file.write_bytes(flipped(data, bit))
        try:
            assert same(replica.load(file), expected), bit
        except StoreError as error:
            assert "\n" not in str(error) and str(file) in str(error)
            refused += 1
    assert refused == len(bits)  # today no byte of a file carries nothing


def test_every_flipped_bit_of_a_file_without_a_seal_in_its_values(file: Path) -> None:
    """As a program leaves it that copies HDF5 files: the digests inside remain."""
    data = file.read_bytes()
    data, expected = data[: data.rfind(b"\nreplica-solver seal")], replica.load(file)
    starts = {n: offset(file, n) for n in ("q", "status", "snr", "error_mse", "steps")}
    file.write_bytes(data)
    assert same(replica.load(file), expected) and reading.read(file).integrity == reading.CHECKED
    for name, start in starts.items():
        for bit in range(8 * start, 8 * start + 64, 5):
            file.write_bytes(flipped(data, bit))
            with pytest.raises(StoreError, match=f"damaged, values of {name} are not"):
                replica.load(file)


@pytest.mark.parametrize("cut", [1, 5, 40, 4000])
def test_a_file_cut_short_is_refused(file: Path, cut: int) -> None:
    file.write_bytes(file.read_bytes()[:-cut])
    with pytest.raises(StoreError, match="is truncated or damaged"):
        replica.load(file)


def damaged(file: Path, name: str, *places: int) -> None:
    """Other bits in some values of a variable."""
    start, values, data = offset(file, name), replica.load(file)[name].values, file.read_bytes()
    for place in places:
        data = flipped(data, 8 * (start + place * values.itemsize + values.itemsize - 2))
    file.write_bytes(data)


def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collects the points of every column that is computed from now on."""
    points, real = [], replica.sweeps.columns.solve_column

    def solve_column(model: Any, column: Any, *args: Any, **kwargs: Any) -> Any:
        points.append(column.points)
        return real(model, column, *args, **kwargs)

    monkeypatch.setattr("replica.sweeps.sweep.solve_column", solve_column)
    return points


def test_resume_computes_damaged_points_again_and_says_so(
    file: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged(file, "q", 3, 8)
    damaged_too = file.read_bytes()
    with pytest.raises(StoreError, match=r"values of q are not what was written.*--resume"):
        replica.load(file)
    points = computed(monkeypatch)
    with pytest.warns(ReplicaWarning, match="2 of 12 points are damaged and are computed again"):
        replica.sweep("spiked-wigner", over=GRID, file=file, resume=True)
    assert sum(points) == 2 and file.read_bytes() == whole.read_bytes() != damaged_too


@pytest.mark.parametrize("name", ["status", "steps", "error_free_energy"])
def test_any_variable_of_a_point_is_repaired(file: Path, whole: Path, name: str) -> None:
    damaged(file, name, 11)
    with pytest.warns(ReplicaWarning, match="1 of 12 points"):
        replica.sweep("spiked-wigner", over=GRID, file=file, resume=True)
    assert file.read_bytes() == whole.read_bytes()


def test_what_cannot_be_computed_again_is_refused(file: Path) -> None:
    damaged(file, "snr", 2)
    with pytest.raises(StoreError, match=r"damaged in snr, which is no result .*--force"):
        replica.sweep("spiked-wigner", over=GRID, file=file, resume=True)
    data = file.read_bytes()
    file.write_bytes(flipped(data, 8 * data.find(b'"attrs"')))
    with pytest.raises(StoreError, match="is truncated or damaged"):
        replica.sweep("spiked-wigner", over=GRID, file=file, resume=True)


def test_the_digest_of_values_sees_their_shape() -> None:
    assert digest.of_values(np.zeros((2, 3))) == digest.of_values(np.zeros((2, 3)))
    assert digest.of_values(np.zeros((2, 3))) != digest.of_values(np.zeros((3, 2)))


def test_the_digest_of_a_point_sees_every_variable() -> None:
    """Against a count by hand: one value is changed, one digest changes."""
    sizes = {"a": ("x", "y"), "b": ("y", "x", "z"), "c": ("x", "y")}
    values = {"a": np.arange(6.0).reshape(2, 3), "b": np.ones((3, 2, 2)), "c": np.full((2, 3), "t")}
    dataset = xr.Dataset({n: (d, values[n]) for n, d in sizes.items()} | {"one": ("x", [1, 2])})
    assert digest.covered(dataset, ("x", "y")) == ["a", "b", "c"]
    before = digest.of_points(dataset, ("x", "y"))
    for name, other in (("a", -1.0), ("b", -1.0), ("c", "u")):
        changed = dataset.copy(deep=True)
        changed[name].loc[{"x": 1, "y": 2}] = other
        after = digest.of_points(changed, ("x", "y"))
        assert [i for i in range(6) if before[i] != after[i]] == [5]


def test_schema_1_loads_and_says_that_it_has_no_digest(command: Any) -> None:
    path = SCHEMA1 / "sweep.h5"
    assert replica.load(path).attrs["model"] == "spiked-wigner"
    code, out, _ = command("info", str(path))
    assert code == 0 and "digests         none (schema 1)" in out
    assert json.loads(command("info", str(path), "--json")[1])["digests"].startswith("none")


def test_info_says_that_a_file_is_whole(command: Any, file: Path) -> None:
    assert reading.CHECKED in command("info", str(file))[1]


# force --------------------------------------------------------------------------------------------


def test_force_keeps_the_old_file_until_the_new_one_is_complete(
    file: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partial, real, seen = file.with_name("x.unfinished.h5"), store.rewrite, []

    def rewrite(path: Any, *args: Any, **kwargs: Any) -> Path:
        assert file.read_bytes() == whole.read_bytes()
        seen.append(Path(path).name)
        if len(seen) == 5:
            raise KeyboardInterrupt
        return real(path, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(store, "rewrite", rewrite)
        with pytest.raises(KeyboardInterrupt):
            replica.sweep("spiked-wigner", over=GRID, file=file, force=True)
    assert seen == [partial.name] * 5 and file.read_bytes() == whole.read_bytes()
    assert not replica.load(partial).attrs["complete"]
    points = computed(monkeypatch)
    continued = replica.sweep("spiked-wigner", over=GRID, file=partial, resume=True)
    assert sum(points) == 12 - 3 and continued.attrs["complete"]
    fresh = replica.sweep("spiked-wigner", over=GRID, file=file, force=True)
    assert sorted(p.name for p in file.parent.iterdir()) == ["x.h5"]
    assert continued.equals(fresh)


# forged -------------------------------------------------------------------------------------------


def edited(file: Path, change: Callable[[h5py.File], None]) -> Path:
    with h5py.File(file, "r+") as opened:
        change(opened)
    return file


def replaced(**how: Any) -> Callable[[h5py.File], None]:
    """Another data set in the place of q."""

    def change(opened: h5py.File) -> None:
        attrs = dict(opened["q"].attrs)
        del opened["q"]
        made = opened.create_dataset("q", **how)
        made.attrs["metadata_json"] = attrs["metadata_json"]

    return change


def linked(link: Any) -> Callable[[h5py.File], None]:
    def change(opened: h5py.File) -> None:
        del opened["q"]
        opened["q"] = link

    return change


def virtual(opened: h5py.File) -> None:
    attrs = dict(opened["q"].attrs)
    del opened["q"]
    layout = h5py.VirtualLayout((6, 2), "f8")
    layout[...] = h5py.VirtualSource("/dev/shm/other.h5", "secret", (6, 2))
    opened.create_virtual_dataset("q", layout).attrs["metadata_json"] = attrs["metadata_json"]


SECRET = [("/etc/hostname", 0, 96)]
FORGED: dict[str, tuple[Callable[[h5py.File], None], str]] = {
    "external link": (linked(h5py.ExternalLink("other.h5", "/q")), "q is a link"),
    "soft link": (linked(h5py.SoftLink("/status")), "q is a link"),
    "external storage": (
        replaced(shape=(6, 2), dtype="f8", external=SECRET),
        "stored in another file",
    ),
    "virtual": (virtual, "stored in another file"),
    "contiguous": (replaced(shape=(10**7,), dtype="f8"), "more values than the file holds"),
    "chunks": (
        replaced(shape=(10**7, 10**5), dtype="f8", chunks=(100, 100)),
        "more values than the file holds",
    ),
    "packed": (
        replaced(shape=(10**12,), dtype="f8", chunks=(10**5,), compression="gzip"),
        "more values than the file holds",
    ),
    "compound": (replaced(data=np.zeros(3, "f8,i4")), "no type that is stored"),
    "references": (replaced(shape=(2,), dtype=h5py.ref_dtype), "no type that is stored"),
    "vectors": (replaced(shape=(2,), dtype=h5py.vlen_dtype("f8")), "no type that is stored"),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_layouts_are_refused(file: Path, command: Any, name: str) -> None:
    change, says = FORGED[name]
    edited(file, change)
    target = file.with_suffix(".csv")
    for line in (("info", str(file)), ("export", str(file), "-o", str(target))):
        code, out, message = command(*line)
        assert code == 2 and not out and says in message and message.count("\n") == 1
    assert not target.exists()


def test_packed_values_may_not_become_too_large(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edited(file, replaced(data=np.zeros(2**17), chunks=(2**17,), compression="gzip"))
    monkeypatch.setattr(limits, "LARGEST", 2**20 - 1)
    with pytest.raises(StoreError, match=r"variables are larger than 1048575 bytes"):
        replica.load(file)


def test_one_long_text_may_not_be_read_many_times(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(opened: h5py.File) -> None:
        text = opened.create_dataset("text", (300,), h5py.string_dtype())
        text[...] = "x" * 2000

    edited(file, change)
    monkeypatch.setattr(limits, "LARGEST", 10**6)
    with h5py.File(file) as opened, pytest.raises(ValueError, match="texts of /text are larger"):
        limits.texts(opened["text"])


def test_the_same_texts_in_blocks_and_one_by_one(tmp_path: Path, monkeypatch: Any) -> None:
    names = np.array([["a", "\u03b1" * 9], ["", "b"]], dtype=object)
    path = store.save(tmp_path / "x.h5", xr.Dataset({"n": (("i", "j"), names)}))
    with h5py.File(path) as opened:
        assert limits.texts(opened["n"]).tolist() == names.tolist()
        monkeypatch.setattr(limits, "LARGEST", 4 * path.stat().st_size)
        assert limits.texts(opened["n"]).tolist() == names.tolist()


def schema1(path: Path, attrs: dict[str, Any] | None = None, **root: Any) -> Path:
    """A file of schema 1, which has no digests, with other metadata."""
    shutil.copy(SCHEMA1 / "sweep.h5", path)

    def change(opened: h5py.File) -> None:
        known = json.loads(opened.attrs["metadata_json"])
        known["attrs"] |= attrs or {}
        opened.attrs["metadata_json"] = json.dumps(known | root)

    return edited(path, change)


ATTRIBUTES = [
    ("controls", [1, 2]),
    ("controls", {"L": {"deep": 1}}),
    ("controls", 3),
    ("versions", "1.0"),
    ("versions", {"jax": 1}),
    ("options", ["a"]),
    ("options", "text"),
    ("settings", [["tol", 1]]),
    ("command", ["rm"]),
    ("command", "x" * 200_000),
    ("title", {"a": 1}),
    ("model", 3),
    ("kind", ["curve"]),
    ("kind", "curve"),
    ("kind", "phase diagram"),
    ("complete", "yes"),
    ("created", 5),
    ("starts", {"informed": 1}),
    ("folds", {"value": 1}),
    ("thresholds", {"alpha": 1}),
    ("tricritical", [3]),
]


@pytest.mark.parametrize(("name", "value"), ATTRIBUTES)
def test_attributes_that_are_not_what_they_should_be(
    command: Any, tmp_path: Path, name: str, value: Any
) -> None:
    path = schema1(tmp_path / "x.h5", {name: value})
    picture, table = str(tmp_path / "x.svg"), str(tmp_path / "x.csv")
    for line in (
        ("info", str(path)),
        ("info", str(path), "--json"),
        ("export", str(path), "-o", table),
        ("plot", str(path), "-o", picture, "--y", "mse"),
        ("sweep", "spiked-wigner", "--over", "snr=0.5:4:4", "-o", str(path), "--resume"),
    ):
        code, out, message = command(*line)
        assert code == 2 and not out and message.count("\n") == 1
        assert "attribute" in message and str(path) in message
    with pytest.raises(StoreError, match="attribute"):
        replica.load(path)
    attrs = {name: value} if name != "kind" else {"kind": value}
    with pytest.raises(StoreError, match="attribute"):  # and none such is written
        replica.save(tmp_path / "y.h5", xr.Dataset(attrs=attrs))


@pytest.mark.parametrize(
    ("root", "says"),
    [
        ({"variables": ["q"] * 200_000}, "a name twice"),
        ({"variables": {"q": 1}}, "no list of names"),
        ({"variables": [["q"]]}, "no list of names"),
        ({"coords": ["nothing"]}, "damaged"),
        ({"coords": 5}, "damaged"),
        ({"attrs": {"x": {"$array": ["<U500000000", [1], ["a"]]}}}, "more text than there is"),
        ({"attrs": {"x": {"$array": ["f8,(9,9)f8", [1], [1]]}}}, "no type that is stored"),
        ({"attrs": {"x": {"$array": ["<f8", [10**9], [1]]}}}, "damaged"),
        ({"attrs": {"x": {"$array": ["<f8", [1], "1"]}}}, "no list"),
        ({"attrs": {"x": {"$float": "1_0"}}}, "damaged"),
        ({"attrs": {"x": {"$eval": "1"}}}, "unknown word"),
    ],
)
def test_metadata_that_claim_what_is_not_there(
    tmp_path: Path, root: dict[str, Any], says: str
) -> None:
    with pytest.raises(StoreError, match=says):
        replica.load(schema1(tmp_path / "x.h5", **root))


def test_metadata_nested_too_deeply(tmp_path: Path) -> None:
    path = schema1(tmp_path / "x.h5")
    edited(path, lambda opened: opened.attrs.create("metadata_json", "[" * 10**6))
    with pytest.raises(StoreError, match="is truncated or damaged"):
        replica.load(path)


def test_the_names_of_types_are_read_by_a_grammar() -> None:
    for name in ("<f8", "|b1", "<U12", ">i4", "|O", "U"):
        assert metadata.dtype_of(name) == np.dtype(name)
    for name in ("f8,f8", "(2,)f8", "V9", "<f8 ", "float64", "<M8[s]", 8, None, "<U9999999999"):
        with pytest.raises(ValueError, match="no type that is stored"):
            metadata.dtype_of(name)


# what a terminal would obey -----------------------------------------------------------------------

ESCAPE = "\x1b]0;owned\x07\x1b[31m\u202eevil\x9b2J\r"


def test_text_of_a_file_is_printed_and_not_obeyed(command: Any, tmp_path: Path, file: Path) -> None:
    dataset = replica.load(file)
    dataset.attrs |= {"title": ESCAPE, "command": ESCAPE, "options": {ESCAPE: ESCAPE}}
    dataset.status.attrs["flag_meanings"] = [ESCAPE] * 20
    dataset = dataset.rename({"mse": f"mse{ESCAPE}"}).assign_attrs(controls={ESCAPE: 1.0})
    path = replica.save(tmp_path / "evil.h5", dataset)
    for line in (
        ("info", str(path)),
        ("info", str(path), "--json"),
        ("sweep", "spiked-wigner", "--over", "snr=0.5:4:6", "-o", str(path), "--resume"),
    ):
        _, out, err = command(*line)
        assert out + err and not set("\x1b\x07\x9b\u202e\r") & set(out + err)
    assert "\\x1b[31m" in command("info", str(path))[1]


def test_readable_text() -> None:
    assert readable("a\u03b1 \n\x1b\u202e\ud800") == "a\u03b1 \n\\x1b\\u202e\\ud800"
    assert str(StoreError("one\ntwo\x07")) == "one\\ntwo\\x07"


# saved again by others ----------------------------------------------------------------------------


def test_saved_again_by_xarray(file: Path, tmp_path: Path, command: Any) -> None:
    before = replica.load(file)
    part, again = tmp_path / "part.h5", tmp_path / "again.h5"
    with xr.open_dataset(file, engine="h5netcdf") as opened:
        opened.sel(branch="informed").isel(snr=slice(1, 4)).to_netcdf(part, engine="h5netcdf")
        opened.to_netcdf(again, engine="h5netcdf")
    whole = reading.read(again)  # nothing was changed, and the digests say so
    assert whole.integrity == reading.CHECKED and same(whole.dataset, before)
    with pytest.warns(ReplicaWarning, match="was saved again by h5netcdf"):
        read = replica.load(part)
    expected = before.sel(branch="informed").isel(snr=slice(1, 4))
    assert read.attrs == before.attrs and read.equals(expected)
    assert read.q.attrs == before.q.attrs and read.branch.item() == "informed"
    code, out, message = command("info", str(part))
    assert code == 0 and "saved again by h5netcdf" in out and message.startswith("replica: ")
    assert command("export", str(part), "-o", str(tmp_path / "part.csv"))[0] == 0
    assert len((tmp_path / "part.csv").read_text().splitlines()) == 4
    code, _, message = command("plot", str(part), "-o", str(tmp_path / "x.svg"), "--y", "mse")
    assert code == 0 and (tmp_path / "x.svg").exists() and message.count("\n") == 1


def test_changed_on_purpose(file: Path, tmp_path: Path) -> None:
    """Numbers that somebody has changed are his, and are not refused."""
    with xr.open_dataset(file, engine="h5netcdf") as opened:
        changed = opened.load()
    changed["q"] = 2 * changed["q"]
    changed.attrs["note"] = "twice"
    changed.to_netcdf(tmp_path / "g.h5", engine="h5netcdf")
    with pytest.warns(ReplicaWarning, match="saved again"):
        read = replica.load(tmp_path / "g.h5")
    assert read.attrs["note"] == "twice" and read.attrs["controls"] == {}
    np.testing.assert_array_equal(read.q.values, 2 * replica.load(file).q.values)


def test_what_was_loaded_is_written_by_xarray(file: Path, tmp_path: Path) -> None:
    before = replica.load(file)
    before.to_netcdf(tmp_path / "g.h5", engine="h5netcdf")
    before.isel(snr=[0, 2]).to_netcdf(tmp_path / "part.h5", engine="h5netcdf")
    with pytest.warns(ReplicaWarning, match="saved again"):
        read = replica.load(tmp_path / "g.h5")
    assert same(read, before)
    with pytest.warns(ReplicaWarning, match="saved again"):
        assert same(replica.load(tmp_path / "part.h5"), before.isel(snr=[0, 2]))
    fresh = replica.sweep("spiked-wigner", over={"snr": [2.0]})
    fresh.to_netcdf(tmp_path / "fresh.h5", engine="h5netcdf")
    with pytest.warns(ReplicaWarning, match="saved again"):
        assert same(replica.load(tmp_path / "fresh.h5"), fresh)


@pytest.mark.parametrize(
    "how", [{}, {"compression": "gzip", "shuffle": True}, {"fletcher32": True}]
)
def test_repacked(file: Path, tmp_path: Path, how: dict[str, Any]) -> None:
    """What h5repack does: other chunks and filters, the same values and attributes."""
    path = tmp_path / "repacked.h5"
    with h5py.File(file) as old, h5py.File(path, "w") as new:
        for name, value in old.attrs.items():
            new.attrs[name] = value
        for name, data in old.items():
            packed = how | {"chunks": data.shape} if how and data.dtype.kind != "O" else {}
            made = new.create_dataset(name, data=data[()], dtype=data.dtype, **packed)
            for key, value in data.attrs.items():
                if key not in ("DIMENSION_LIST", "REFERENCE_LIST"):
                    made.attrs[key] = value
    found = reading.read(path)
    assert found.integrity == reading.CHECKED and same(found.dataset, replica.load(file))


def test_a_file_whose_attributes_were_dropped_says_so(file: Path, tmp_path: Path) -> None:
    with xr.open_dataset(file, engine="h5netcdf") as opened:
        opened.drop_attrs().to_netcdf(tmp_path / "g.h5", engine="h5netcdf")
    with pytest.raises(StoreError, match="whose attributes another program has dropped"):
        replica.load(tmp_path / "g.h5")


# the seal -----------------------------------------------------------------------------------------


def test_a_seal_covers_all_but_the_values() -> None:
    image = bytes(range(200))
    data = seal.sealed(image, [(100, 20), (10, 5)])
    assert seal.check(data) and not seal.check(image)
    for place in range(len(data)):
        inside = 100 <= place < 120 or 10 <= place < 15
        changed = flipped(data, 8 * place + place % 8)
        if inside:
            assert seal.check(changed)
        else:
            with pytest.raises(ValueError, match=r"seal is broken|not what was written"):
                seal.check(changed)
