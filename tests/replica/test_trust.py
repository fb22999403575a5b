"""What comes from others is data: no text of a table, a file or a message is ever executed."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from equations import Source
from replica import InputError
from replica.check import measurements, points
from replica.check.points import Points
from replica.jobs import workers
from replica.models import built, imported
from replica.sweeps.sweep import grid

EVIL = """open({mark!r}, "w").close()
from equations import MODELS
def build():
    return MODELS["spiked-wigner"].build()
"""
FIXED = ("L=2", "nu=1", "Delta=0.1", "lam_k=1", "lam_v=1", "alpha=3")


def exploits(mark: Path) -> list[str]:
    """Texts that touch ``mark`` if anything evaluates them."""
    touch = f"open('{mark}','w')"
    return [
        f"chi+0*len(__import__('os').popen('touch {mark}').read())",
        f"chi + 0*{touch}.write('')",
        f"[chi for _ in [{touch}]][0]",
        f"(lambda: chi + 0*{touch}.write(''))()",
        f"chi if {touch} else chi",
        f"exp(chi, *[{touch}])",
        f"exp(chi, evaluate={touch})",
        f"f'{{{touch}}}' and chi",
        f"(x := {touch}) and chi",
        f"chi.__class__.__base__.__subclasses__() or {touch}",
        f"S(\"open('{mark}','w')\") + chi",
        f"sympify(\"open('{mark}','w')\") + chi",
        f"chi + 0*eval(\"open('{mark}','w')\")",
    ]


def settings() -> list[str]:
    return [word for pair in FIXED for word in ("--set", pair)]


@pytest.mark.parametrize("which", range(13))
@pytest.mark.parametrize("through", ["show", "solve", "csv"])
def test_an_activation_is_never_executed(
    command: Any, tmp_path: Path, through: str, which: int
) -> None:
    mark = tmp_path / "touched"
    text = exploits(mark)[which]
    if through == "csv":
        quoted = text.replace('"', '""')
        table = tmp_path / "runs.csv"
        table.write_text(f'activation,q_v,q_v_error\n"{quoted}",1,1\n', encoding="utf-8")
        code, _, message = command("check", "slr-erm", "--csv", str(table), *settings())
    else:
        code, _, message = command(through, "slr-erm", *settings(), "--set", f"activation={text}")
    assert not mark.exists()
    assert code == 2 and message.startswith("replica: ") and message.count("\n") == 1


def test_a_python_caller_is_no_exception(tmp_path: Path) -> None:
    mark = tmp_path / "touched"
    for text in exploits(mark):
        with pytest.raises(InputError):
            built("slr-erm", {"activation": text})
        with pytest.raises(InputError):  # a message to a worker, whose options are texts
            workers._found(message_of("slr-erm", activation=text))
    assert not mark.exists()


@pytest.fixture
def evil(tmp_path: Path) -> tuple[Path, Path]:
    """A model file, and what exists once it was executed."""
    mark, file = tmp_path / "touched", tmp_path / "evil.py"
    file.write_text(EVIL.format(mark=str(mark)), encoding="utf-8")
    return file, mark


def test_a_model_file_named_by_a_table_is_not_executed(
    command: Any, tmp_path: Path, evil: tuple[Path, Path]
) -> None:
    file, mark = evil
    table = tmp_path / "runs.csv"
    table.write_text(f"model,snr,q,error\n{file},2,0.5,9\n", encoding="utf-8")
    code, _, message = command("check", "--csv", str(table))
    assert not mark.exists()
    assert code == 2 and message.count("\n") == 1
    assert "names a model file" in message and "only if you name it" in message
    code, _, message = command("check", "spiked-wigner", "--csv", str(table))
    assert not mark.exists() and code == 2
    measurements.read_table(table, str(file), {})  # named by the user, it is executed
    assert mark.exists()


def message_of(name: str, source: Any = None, sha256: str | None = None, **options: str) -> Any:
    """What a worker is sent."""
    return workers.Reference(name, tuple(options.items()), source, None, (), sha256)


def test_a_worker_executes_the_announced_text_only(evil: tuple[Path, Path]) -> None:
    file, mark = evil
    source = Source(str(file), file.read_text(encoding="utf-8"))
    for sha256 in (None, "", "0" * 64):
        with pytest.raises(InputError, match="has not the hash that was announced"):
            workers._found(message_of("evil", source, sha256))
    with pytest.raises(InputError, match="without its text"):
        workers._found(message_of(str(file)))
    assert not mark.exists()
    model = workers._found(message_of("evil", source, source.sha256))
    assert mark.exists() and model.source == source
    assert workers.Reference.of(model, str(file)).sha256 == source.sha256


HELPED = """from helper import build
"""
HELPER = """from inner.deep import snr
import json, numpy
from equations import MODELS
def build():
    return MODELS["spiked-wigner"].build()
"""


@pytest.fixture
def helped(tmp_path: Path) -> Path:
    """A model file that imports from its folder, twice over."""
    folder = tmp_path / "model"
    (folder / "inner").mkdir(parents=True)
    for name, text in {
        "own.py": HELPED,
        "helper.py": HELPER,
        "inner/__init__.py": "",
        "inner/deep.py": "from . import deeper\nfrom .deeper import snr\n",
        "inner/deeper.py": "snr = 1\n",
        "json.py": "raise SystemError('not this one')\n",
        "unused.py": "",
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder / "own.py"


@pytest.fixture
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules of a model's folder are imported once in a process, as any."""
    monkeypatch.setattr(imported, "_LOADED", {})
    for name in ("helper", "inner", "inner.deep", "inner.deeper"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_the_hash_of_a_model_covers_what_it_imports(helped: Path, forgotten: None) -> None:
    def found() -> Source:
        text = helped.read_text(encoding="utf-8")
        return Source(str(helped), text, imported.imports_beside(str(helped), text))

    first = found()
    assert [name for name, _ in first.imports] == [
        "helper.py",
        "inner/__init__.py",
        "inner/deep.py",
        "inner/deeper.py",
    ]
    assert built(str(helped), {})[0].source == first
    assert replace(first, imports=()).sha256 == hashlib.sha256(HELPED.encode()).hexdigest()
    helped.with_name("unused.py").write_text("x = 1\n")
    assert found() == first
    (helped.parent / "inner" / "deeper.py").write_text("snr = 2\n")
    assert found().sha256 != first.sha256
    with pytest.raises(InputError, match=r"deeper\.py, which .*own\.py imports, has changed"):
        built(str(helped), {})


def test_modules_of_two_folders_are_not_confused(
    helped: Path, tmp_path: Path, forgotten: None
) -> None:
    built(str(helped), {})
    other = tmp_path / "other"
    other.mkdir()
    (other / "own.py").write_text(HELPED, encoding="utf-8")
    (other / "helper.py").write_text(HELPER.replace("from inner.deep import snr", ""))
    with pytest.raises(InputError, match=r"imports helper\.py of its folder, but Python has"):
        built(str(other / "own.py"), {})


def test_a_worker_needs_the_announced_imports(helped: Path, forgotten: None) -> None:
    text = helped.read_text(encoding="utf-8")
    source = Source(str(helped), text, imported.imports_beside(str(helped), text))
    helped.with_name("helper.py").write_text(HELPER + f"open({str(helped)!r} + '.mark', 'w')\n")
    with pytest.raises(InputError, match=r"helper\.py', which .* is not on a worker as it is here"):
        workers._found(message_of("own", source, source.sha256))
    assert not Path(f"{helped}.mark").exists()
    fewer = replace(source, imports=source.imports[1:])
    with pytest.raises(InputError, match="imports files on a worker that it does not import here"):
        workers._found(message_of("own", fewer, fewer.sha256))
    helped.with_name("helper.py").write_text(HELPER, encoding="utf-8")
    assert workers._found(message_of("own", source, source.sha256)).source == source


# numbers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("L=1e400:1", "cannot read the length law '1e400:1'"),
        ("L=1:1e1000000000,2:0", "cannot read the length law"),
        ("location=1e-999999999,1", "cannot read the location law"),
        ("location=0.5x1e400", "cannot read the location law"),
        ("L=1_5", "L = '1_5' is not a number"),
        ("nu=1_5", "nu = '1_5' is not a number"),
        ("nu=\u0663", "is not a number"),
        ("nu=1e400", "nu = '1e400' is too large"),
        ("nu=1e-400", "nu = '1e-400' is too small"),
        ("nu=" + "1" * 5000, "is longer than 60 characters"),
        ("L=" + ",".join(f"{n}:1/3000" for n in range(1, 3001)), "3000 lengths: this model sums"),
    ],
)
def test_hostile_numbers_are_one_sentence(command: Any, setting: str, says: str) -> None:
    given = dict(pair.split("=") for pair in ("L=2", "nu=1", "Delta=0.1", "alpha=1"))
    given.pop(setting.partition("=")[0], None)
    if setting.startswith("location"):
        given.pop("L")
    words = [w for k, v in given.items() for w in ("--set", f"{k}={v}")]
    code, _, message = command("solve", "slr-bayes", *words, "--set", setting)
    assert code == 2 and says in message
    assert message.count("\n") == 1 and len(message) < 500


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("sweep", "--over", "snr=1:2:1_0", "-o", "x.h5"), "cannot read --over"),
        (("sweep", "--over", "snr=1_0:20:3", "-o", "x.h5"), "cannot read --over"),
        (("sweep", "--over", "snr=1:2:1000000000", "-o", "x.h5"), "num up to 1000000"),
        (("sweep", "--over", "snr=1:1e400:3", "-o", "x.h5"), "cannot read --over"),
        (("phase", "--control", "snr", "--within", "1_0:20"), "cannot read --within"),
        (("phase", "--control", "snr", "--within", "0.5:1e400"), "cannot read --within"),
        (("eval", "--set", "snr=1", "--at", "q=0_5"), "cannot read --at"),
    ],
)
def test_numbers_of_other_options(command: Any, arguments: tuple[str, ...], says: str) -> None:
    name, *rest = arguments
    code, _, message = command(name, "spiked-wigner", *rest)
    assert code == 2 and says in message and message.count("\n") == 1


@pytest.mark.parametrize("text", ["1_00", "1e400", "100,2_00", "100.5", "\u0661\u0660\u0660"])
def test_sizes(command: Any, text: str) -> None:
    code, _, message = command("check", "slr-erm", "--D", text, *settings())
    assert code == 2 and "cannot read --D" in message


def test_grids_still_read_what_they_did() -> None:
    snr = next(q for q in built("spiked-wigner", {})[0].controls if q.name == "snr")
    assert grid(snr, "1:1e1:3").tolist() == [1, 5.5, 10]
    assert grid(snr, "1:100:3:log").tolist() == pytest.approx([1, 10, 100])


# tables -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "snr,q,q_error\n2,0.5,0.1\n3,0.6,0.1\n",
        ",snr,q,q_error\n0,2,0.5,0.1\n1,3,0.6,0.1\n",
        '"","snr","q","q_error"\n"1",2,0.5,0.1\n"2",3,0.6,0.1\n',
        "Unnamed: 0,snr,q,q_error\n0,2,0.5,0.1\n1,3,0.6,0.1\n",
        "snr;q;q_error\n2;0.5;0.1\n3;0.6;0.1\n",
        "snr\tq\tq_error\n2\t0.5\t0.1\n3\t0.6\t0.1\n",
        "snr, q, q_error\r\n2, 0.5, 0.1\r\n\r\n3, 0.6, 0.1\r\n",
        "\ufeffsnr,q,q_error\n2,0.5,0.1\n3,0.6,0.1\n",
        "\ufeff\ufeffsnr,q,q_error\n2,0.5,0.1\n3,0.6,0.1",
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_tables_of_other_programs(text: str, encoding: str, tmp_path: Path) -> None:
    file = tmp_path / "runs.csv"
    file.write_bytes(text.encode(encoding))
    rows = measurements.read_table(file, "spiked-wigner", {})
    assert [(row.values["snr"], row.measured["q"]) for row in rows] == [
        (2, (0.5, 0.1)),
        (3, (0.6, 0.1)),
    ]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"snr;q\n2;0,5\n", "q = '0,5' is not a number"),
        (b",snr,q\na,2,0.5\n", "a column without a name"),
        (b"snr,q\n2,1_5\n", "line 2: q = '1_5' is not a number"),
        (b"snr,q\n2,1e400\n", "is too large"),
        (b"snr,q\n2_0,1\n", "line 2: snr = '2_0' is not a number"),
        (b"snr,q\n2,\xff\n", "save it as UTF-8"),
        (b"\xff\xfes", "save it as UTF-8"),
        (b"", "no rows"),
        (b"\x00\x00", "no rows"),
        (b"snr,q\n2,1\x00\n", "is not a number"),
        (b"snr,q\n2," + b"1" * 200_000, "cannot read"),
        (b"snr,q\n2,\x1b[31m1\n", r"q = '\\x1b\[31m1' is not a number"),
    ],
)
def test_damaged_tables_are_one_sentence(data: bytes, says: str, tmp_path: Path) -> None:
    file = tmp_path / "runs.csv"
    file.write_bytes(data)
    with pytest.raises(InputError, match=says):
        measurements.read_table(file, "spiked-wigner", {})


def test_rows_with_the_same_settings_are_resolved_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    resolve = points.resolve

    def counted(*given: Any) -> Any:
        calls.append(given)
        return resolve(*given)

    monkeypatch.setattr(points, "resolve", counted)
    file = tmp_path / "runs.csv"
    lines = (f"{i},1+tanh(chi),{2 + i % 2},0.5,0.1\n" for i in range(1000))
    file.write_text(",activation,L,q_v,q_v_error\n" + "".join(lines), encoding="utf-8")
    given = {n: v for n, _, v in (pair.partition("=") for pair in FIXED[1:])}
    rows = measurements.read_table(file, "slr-erm", given)
    assert len(rows) == 1000 and len(calls) == 2
    assert {row.values["L"] for row in rows} == {2, 3}
    assert Points.of(file, "slr-erm", {}, ["q_v", "error"]).error_of("q_v") == "error"
