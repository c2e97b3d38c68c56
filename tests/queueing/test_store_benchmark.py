"""The raw loop that the store is measured by writes what the store writes, row by row."""

import time
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.delay_proxy import delayed
from benchmarks.store_jobs import Ground, database_in
from benchmarks.store_lives import live, live_raw
from benchmarks.store_postgres import what_is_measured
from queueing.store import Database
from tests.fakes.postgres_server import PostgresServer

psycopg = pytest.importorskip("psycopg")

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


def test_a_server_that_does_not_flush_is_not_measured(postgres: PostgresServer) -> None:
    """Its figures would be those of a memory."""
    with pytest.raises(SystemExit, match="does not flush"):
        what_is_measured(postgres.url("postgres"))


def test_a_longer_way_costs_each_round_trip_and_not_each_statement(
    postgres: PostgresServer, postgres_template: str
) -> None:
    """A proxy that let one statement pass at a time would hide that they go together."""
    late_s, statements = 0.03, 100
    with (
        delayed(postgres.url(postgres_template), late_s * 1000) as url,
        closing(psycopg.connect(url, autocommit=True)) as connection,
    ):
        began = time.perf_counter()
        connection.execute("SELECT 1")
        once_s = time.perf_counter() - began
        with connection.pipeline():
            for _ in range(statements):
                connection.execute("SELECT 1")
        together_s = time.perf_counter() - began - once_s
    assert once_s >= late_s
    assert late_s <= together_s < late_s * statements
