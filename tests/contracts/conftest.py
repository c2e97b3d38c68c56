"""A store of every kind, new for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from queueing.core.ports import Store
from tests.contracts.store_harness import ENGINES, Open


@pytest.fixture(params=ENGINES)
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    return ENGINES[request.param](tmp_path)


@pytest.fixture
async def store(reopen: Open) -> AsyncIterator[Store]:
    store = await reopen()
    yield store
    await store.aclose()
