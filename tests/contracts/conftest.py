"""A store of every kind, new for each test, and a database that holds the bot's tables, too."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from bot.chat.records.stored_records import MIGRATIONS
from queueing.core.jobs import JobEvent
from queueing.core.storage import Store
from queueing.store import Database, JobStore, open_database
from tests.contracts.store_harness import ENGINES, NO_LIMITS, NOW, Open, new


@pytest.fixture(params=ENGINES)
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    engine = ENGINES[request.param]
    url = engine.url(request, tmp_path)

    async def open_store() -> Store:
        return JobStore(await open_database(url, inline=engine.inline))

    return open_store


@pytest.fixture
async def store(reopen: Open) -> AsyncIterator[Store]:
    store = await reopen()
    yield store
    await store.aclose()


@pytest.fixture(params=ENGINES)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    engine = ENGINES[request.param]
    url = engine.url(request, tmp_path)
    database = await open_database(url, migrations=(MIGRATIONS,), inline=engine.inline)
    yield database
    await database.aclose()


@pytest.fixture
async def job_ids(database: Database) -> tuple[int, ...]:
    """Return three jobs that ended and were not delivered."""
    store = JobStore(database)
    made, origin = [], '{"language": "de", "within": ["40", "41"]}'
    for _ in range(3):
        job = await store.add(replace(new(), reply_to=origin), NOW, limits=NO_LIMITS)
        made.append((await store.apply(job, JobEvent.CANCEL, NOW)).job)
    return tuple(job.id for job in made)
