"""The benchmark of the store measures what it says, on both engines."""

import json
import time
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.postgres import what_is_measured
from benchmarks.store import __main__ as benchmark
from benchmarks.store.delay_proxy import delayed
from benchmarks.store.jobs import Ground, database_in, lives_per_s, raw_lives_per_s
from queueing.store.sql.database import Database
from tests.fakes.programs.postgres_server import (
    NOT_INSTALLED,
    PostgresServer,
    binaries,
    running_server,
)

psycopg = pytest.importorskip("psycopg")

WORKERS = 10
LIVES = 45  # the last transactions are smaller
KEYS = {
    "claim_us",
    "lives_per_s",
    "position_us",
    "raw_lives_per_s",
    "raw_per_s",
    "seed",
    "submit_to_start_ms",
    "submits_per_s",
}

Rows = list[tuple[object, ...]]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "SUBMITS", {1: 30, 10: 100})
    monkeypatch.setattr(benchmark, "LIVES", {1: 20, 10: 100})
    monkeypatch.setattr(benchmark, "QUICK_DEPTHS", (100, 200))
    monkeypatch.setattr(benchmark, "ASKED", 50)


@pytest.mark.usefixtures("few")
def test_sqlite_is_measured_next_to_its_rivals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No one could tell whether the disk or the store is slow."""
    benchmark.main(["--quick", "--json", "--dir", str(tmp_path)])
    found = json.loads(capsys.readouterr().out)
    assert found.keys() == KEYS | {"huey_lives_per_s"}
    assert found["lives_per_s"].keys() == found["huey_lives_per_s"].keys() == {"1", "10"}
    assert min(found["raw_lives_per_s"].values()) > 0
    assert found["claim_us"].keys() == found["position_us"].keys() == {"100", "200"}
    assert found["submit_to_start_ms"].keys() == {"p50", "p99"}


@pytest.mark.thorough
@pytest.mark.usefixtures("few")
def test_postgres_is_measured_over_a_longer_way(capsys: pytest.CaptureFixture[str]) -> None:
    programs = binaries()
    if programs is None:
        pytest.skip(NOT_INSTALLED)
    safe = ("fsync=on", "synchronous_commit=on", "full_page_writes=on")
    with running_server(programs, *safe) as server:
        url = server.url("postgres")
        benchmark.main(["--quick", "--json", "--database", url, "--delay-ms", "1"])
    found = json.loads(capsys.readouterr().out)
    assert found.keys() == KEYS | {"peer_lives_per_s", "server"}
    assert found["server"].keys() == {
        "fsync",
        "full_page_writes",
        "server_version",
        "synchronous_commit",
    }
    assert found["submit_to_start_ms"]["p50"] > 1.0


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
    """A comparison that does less work would make the store look slow, or fast if it fails."""
    ground: Ground = tmp_path
    if engine == "postgres":
        ground = request.getfixturevalue("postgres").url("postgres")
    async with database_in(ground) as own, database_in(ground) as raw:
        await lives_per_s(own, WORKERS, LIVES)
        raw_lives_per_s(raw, WORKERS, LIVES)
        assert await rows_of(own) == await rows_of(raw)
        assert len((await rows_of(raw))[1]) == LIVES


def test_a_server_that_does_not_flush_is_not_measured(postgres: PostgresServer) -> None:
    """Its figures would describe memory instead of a disk."""
    with pytest.raises(SystemExit, match="does not flush"):
        what_is_measured(postgres.url("postgres"))


def test_a_longer_way_costs_each_round_trip_and_not_each_statement(
    postgres: PostgresServer, postgres_template: str
) -> None:
    """A proxy that passes one statement at a time would hide that statements are sent together."""
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
