"""A store of every kind, new for each test, and a database with the bot's tables."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from bot.app.setup import MIGRATIONS
from queueing.core.jobs import JobEvent
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from queueing.store.sql.database import Database
from tests.contracts.store.store_harness import ENGINES, NO_LIMITS, NOW, Open, new, url_of


@pytest.fixture(params=ENGINES)
async def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Open]:
    """Provide a function that closes the store and opens it again, as a restart does."""
    url = url_of(request.param, request, tmp_path)
    opened: list[JobStore] = []

    async def open_store() -> JobStore:
        for store in opened:
            await store.aclose()
        opened.append(JobStore(await open_database(url)))
        return opened[-1]

    yield open_store
    for store in opened:
        await store.aclose()


@pytest.fixture
async def store(reopen: Open) -> JobStore:
    return await reopen()


@pytest.fixture(params=ENGINES)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    url = url_of(request.param, request, tmp_path)
    database = await open_database(url, migrations=(MIGRATIONS,))
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
