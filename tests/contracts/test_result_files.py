"""What every reader of the files of results promises."""

import pytest

from queueing.core.jobs import JobEvent
from queueing.core.requests import File, Output
from queueing.core.storage import Result, ResultFile, ResultFiles
from queueing.store import Database, JobStore, StoredFiles
from tests.contracts.store_harness import NO_LIMITS, NOW, new, start

DATA = bytes(range(256)) * 40


@pytest.fixture
def files(database: Database) -> ResultFiles:
    return StoredFiles(database)


async def _result(database: Database) -> int:
    store = JobStore(database)
    job = await start(store, await store.add(new(owner="ada"), NOW, limits=NO_LIMITS))
    made = (File(name="cat.png", mime="image/png", data=DATA),)
    await store.apply(job, JobEvent.COMPLETE, NOW, output=Output(text="words", files=made))
    return job.id


async def test_a_file_is_read_in_pieces(files: ResultFiles, database: Database) -> None:
    """A film would be in memory whole for each who looks at it, or end in the middle."""
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
    """A list of files would read a film to tell its size."""
    job = await _result(database)
    cat = ResultFile(owner="ada", name="cat.png", mime="image/png", size=len(DATA))
    assert await files.result(job) == Result(text="words", files=(cat,))
    assert await files.result(job + 1) is None


async def test_there_are_no_other_files(files: ResultFiles, database: Database) -> None:
    """The words of an answer, or another person's picture, could be had as a file."""
    job = await _result(database)
    for number in (-1, 0, 2):
        assert await files.head(job, number) is None, number
        assert await files.piece(job, number, 0, 64) is None, number
    assert await files.head(job + 1, 1) is None


async def test_what_was_erased_is_gone(files: ResultFiles, database: Database) -> None:
    """A forgotten picture could still be had."""
    job = await _result(database)
    await JobStore(database).erase([job])
    assert await files.head(job, 1) is None
    assert await files.piece(job, 1, 0, 64) is None
