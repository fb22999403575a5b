"""What comes from others is data: no text of a table, a file or a message is ever executed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from replica import cli

EVIL = """open({mark!r}, "w").close()
from equations import MODELS
def build():
    return MODELS["spiked-wigner"].build()
"""
FIXED = ("L=2", "nu=1", "Delta=0.1", "lam_k=1", "lam_v=1", "alpha=3")


@pytest.fixture
def call() -> Any:
    def run(*arguments: Any) -> tuple[int, str]:
        result = CliRunner().invoke(cli.app, [str(a) for a in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stderr

    return run


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
@pytest.mark.parametrize("command", ["show", "csv"])
def test_an_activation_is_never_executed(
    call: Any, tmp_path: Path, command: str, which: int
) -> None:
    mark = tmp_path / "touched"
    text = exploits(mark)[which]
    if command == "show":
        code, message = call("show", "slr-erm", "--set", f"activation={text}")
    else:
        quoted = text.replace('"', '""')
        table = tmp_path / "runs.csv"
        table.write_text(f'activation,q_v,q_v_error\n"{quoted}",1,1\n', encoding="utf-8")
        code, message = call("check", "slr-erm", "--csv", table, *settings())
    assert not mark.exists()
    assert code == 2 and message.startswith("replica: ") and message.count("\n") == 1


def test_a_model_file_named_by_a_table_is_not_executed(call: Any, tmp_path: Path) -> None:
    mark, evil = tmp_path / "touched", tmp_path / "evil.py"
    evil.write_text(EVIL.format(mark=str(mark)), encoding="utf-8")
    table = tmp_path / "runs.csv"
    table.write_text(f"model,snr,q,error\n{evil},2,0.5,9\n", encoding="utf-8")
    code, message = call("check", "--csv", table)
    assert not mark.exists()
    assert code == 2 and "evil.py" in message
    code, _ = call("check", evil, "--csv", table)  # named by the user, executed
    assert mark.exists() and code == 0
