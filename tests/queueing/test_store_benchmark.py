"""The raw loop that the store is measured by writes what the store writes, row by row."""

from pathlib import Path

import pytest

from benchmarks.store_jobs import Ground, database_in
from benchmarks.store_lives import live, live_raw
from queueing.store import Database

WORKERS = 10
LIVES = 45  # the last transactions are smaller

Rows = list[tuple[object, ...]]


async def rows_of(database: Database) -> tuple[Rows, Rows]:
    jobs = "SELECT * FROM jobs ORDER BY id"
    outputs = "SELECT * FROM outputs ORDER BY job_id, number"
    return await database.read(
        lambda connection: (
            connection.execute(jobs).fetchall(),
            connection.execute(outputs).fetchall(),
        )
    )


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
async def test_the_raw_loop_leaves_the_rows_of_the_store(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A limit that does less work would make the store look slow, one that fails looks fast."""
    ground: Ground = tmp_path
    if engine == "postgres":
        ground = request.getfixturevalue("postgres").url("postgres")
    async with database_in(ground) as own, database_in(ground) as raw:
        await live(own, WORKERS, LIVES)
        live_raw(raw, WORKERS, LIVES)
        assert await rows_of(own) == await rows_of(raw)
        assert len((await rows_of(raw))[1]) == LIVES
