"""What every reader of result files promises."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from bot.core.queue import ResultFiles
from queueing.core.jobs import Job, JobEvent
from queueing.core.requests import File, Output, Result, ResultFile
from queueing.store.jobs import job_reader
from queueing.store.jobs.job_reader import StoredFiles
from queueing.store.jobs.job_store import JobStore
from queueing.store.sql.database import Database
from tests.contracts.store.store_harness import NO_LIMITS, NOW, new, start

DATA = bytes(range(256)) * 40


@pytest.fixture
def files(database: Database) -> ResultFiles:
    return StoredFiles(database)


CAT = File(name="cat.png", mime="image/png", data=DATA)
OUTPUT = Output(text="words", files=(CAT, replace(CAT, data=b"small"), CAT))


async def _result(database: Database) -> int:
    return (await _job(database, Output(text="words", files=(CAT,)))).id


async def _job(database: Database, output: Output, *, files: tuple[File, ...] = ()) -> Job:
    store = JobStore(database)
    asked = replace(new(owner="ada"), files=files)
    job = await start(store, await store.add(asked, NOW, limits=NO_LIMITS))
    return (await store.apply(job, JobEvent.COMPLETE, NOW, output=output)).job


class _Read:
    """A database; `meanwhile` is called before the fourth of its reads."""

    def __init__(self, database: Database, meanwhile: Callable[[], Awaitable[object]]) -> None:
        self._database = database
        self._meanwhile = meanwhile
        self.count = 0

    async def read(self, query: Any) -> Any:
        self.count += 1
        if self.count == 4:
            await self._meanwhile()
        return await self._database.read(query)


async def _nothing() -> None:
    """Do nothing."""


async def test_a_file_is_read_in_pieces(files: ResultFiles, database: Database) -> None:
    """Each viewer would hold a whole video in memory, or a video end in the middle."""
    job = await _result(database)
    assert await files.head(job, 1) == ResultFile(
        owner="ada", name="cat.png", mime="image/png", size=len(DATA)
    )
    assert await files.piece(job, 1, 0, 64) == DATA[:64]
    assert await files.piece(job, 1, 10_000, 999) == DATA[10_000:10_999]
    assert await files.piece(job, 1, len(DATA) - 5, 64) == DATA[-5:]
    assert await files.piece(job, 1, len(DATA) + 5, 64) == b""


async def test_a_result_is_described_without_its_bytes(
    files: ResultFiles, database: Database
) -> None:
    """A list of files would read a video to find its size."""
    job = await _result(database)
    cat = ResultFile(owner="ada", name="cat.png", mime="image/png", size=len(DATA))
    assert await files.result(job) == Result(text="words", files=(cat,))
    assert await files.result(job + 1) is None


async def test_there_are_no_other_files(files: ResultFiles, database: Database) -> None:
    """The text of an answer, or another person's image, could be fetched as a file."""
    job = await _result(database)
    for number in (-1, 0, 2):
        assert await files.head(job, number) is None, number
        assert await files.piece(job, number, 0, 64) is None, number
    assert await files.head(job + 1, 1) is None


async def test_what_was_erased_is_gone(files: ResultFiles, database: Database) -> None:
    """A forgotten image could still be fetched."""
    job = await _result(database)
    await JobStore(database).erase([job])
    assert await files.head(job, 1) is None
    assert await files.piece(job, 1, 0, 64) is None


async def test_a_large_file_is_whole_and_lets_others_be_read_meanwhile(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A video on a slow network would end the connection, or block all other reads."""
    monkeypatch.setattr(job_reader, "PIECE", 4_000)
    job = await _job(database, OUTPUT, files=OUTPUT.files)
    for number, wanted in ((0, OUTPUT), (1, OUTPUT.files)):
        read = _Read(database, _nothing)
        files = StoredFiles(cast("Database", read))
        assert await (files.output, files.inputs)[number](job) == wanted
        assert read.count == 1 + 2 * 3


async def test_a_file_that_is_deleted_while_it_is_read_is_gone(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a video would be delivered as a whole one."""
    monkeypatch.setattr(job_reader, "PIECE", 4_000)
    store = JobStore(database)

    async def shrink() -> None:
        await store.acknowledge(job)
        await store.purge(0.0, keep_mb=0)

    async def erase() -> None:
        await store.erase([job.id])

    for meanwhile in (shrink, erase):
        for number in (0, 1):
            job = await _job(database, OUTPUT, files=OUTPUT.files)
            files = StoredFiles(cast("Database", _Read(database, meanwhile)))
            assert await (files.output, files.inputs)[number](job) is None
            assert await (store.output, store.inputs)[number](job) in {None, ()}
