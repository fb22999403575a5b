"""All numerics in float64, without touching the global configuration; hypothesis without a
deadline; the command line in this process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import pytest
from hypothesis import settings

from replica import cli

# Programs that tests compile are kept in the repository and not in the home of who runs them; the
# processes of one run share them.
os.environ.setdefault("REPLICA_CACHE", str(Path(__file__).parents[1] / "build" / "test-cache"))
settings.register_profile("replica", deadline=None, max_examples=50)
settings.load_profile("replica")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The notebooks, the longest file, first: with one file per process at a time the others fill
    up the rest.
    """
    items.sort(key=lambda item: "test_notebooks" not in item.nodeid)


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    """Every test runs in float64."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Run ``replica ARGS`` in this process: (exit code, stdout, stderr)."""

    def run(*args: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["replica", *args])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capsys.readouterr()
        return int(end.value.code or 0), out, err

    return run
