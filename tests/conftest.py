"""All numerics in float64, without touching the global configuration; hypothesis without a deadline."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import pytest
from hypothesis import settings

settings.register_profile("replica", deadline=None, max_examples=50)
settings.load_profile("replica")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The notebooks, the longest file, first: with one file per process at a time the others fill up the rest."""
    items.sort(key=lambda item: "test_notebooks" not in item.nodeid)


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    """Every test runs in float64."""
    with jax.enable_x64(True):
        yield
