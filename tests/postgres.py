"""Fixtures: one PostgreSQL server per worker of the tests, and a new database for each test."""

from collections.abc import Iterator

import pytest

from bot.app.setup import MIGRATIONS
from tests.fakes.programs.postgres_server import (
    NOT_INSTALLED,
    PostgresServer,
    binaries,
    running_server,
)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Return a server, started when a test first needs one; without one installed, skip."""
    pytest.importorskip("psycopg", reason="PostgreSQL needs usher-bot[postgres]")
    programs = binaries()
    if programs is None:
        pytest.skip(NOT_INSTALLED)
    with running_server(programs) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_template(postgres: PostgresServer) -> str:
    """Return a database with today's tables, which one test after another uses."""
    import psycopg  # noqa: PLC0415  # an extra: the tests of SQLite need none

    from queueing.store.postgres.schema import migrate  # noqa: PLC0415  # as above
    from queueing.store.sql.migrations import QUEUE  # noqa: PLC0415  # as above

    name = postgres.database()
    with psycopg.connect(postgres.url(name), cursor_factory=psycopg.RawCursor) as plain:
        migrate(plain, (QUEUE, MIGRATIONS))
    return name


@pytest.fixture
def postgres_url(postgres: PostgresServer, postgres_template: str) -> str:
    """Return the address of a database with today's tables and nothing in them.

    A new one for each test would be thousands of files, and most of the time of all these tests.
    """
    postgres.empty(postgres_template)
    return postgres.url(postgres_template)


@pytest.fixture
def empty_postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """Provide a new database without any table; each takes eight megabytes as long as it exists."""
    name = postgres.database()
    yield postgres.url(name)
    postgres.sql(f"DROP DATABASE {name} WITH (FORCE)")
