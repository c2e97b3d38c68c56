"""Databases on a PostgreSQL server for the benchmarks of the store, and the raw loop on them.

Every figure is with `fsync` and `synchronous_commit`; a server without them is refused.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count
from os import getpid
from typing import Any

import psycopg

from queueing.store.jobs.rows import Row
from queueing.store.postgres.address import read_address
from queueing.store.postgres.connection import Plain
from queueing.store.postgres.dialect import numbered
from queueing.store.postgres.session import connect

_numbers = count(1)


@contextmanager
def new_database(server: str) -> Iterator[str]:
    """Make a database on the server and drop it afterwards; its address is what is given."""
    name = f"usher_benchmark_{getpid()}_{next(_numbers)}"
    with closing(psycopg.connect(server, autocommit=True)) as administering:
        administering.execute(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0")
        try:
            yield make_conninfo_url(server, name)
        finally:
            administering.execute(f"DROP DATABASE {name} WITH (FORCE)")


def make_conninfo_url(server: str, name: str) -> str:
    """Return the address of another database on the same server."""
    begin, slash, _ = server.rpartition("/")
    options = server.rpartition("?")
    return f"{begin}{slash}{name}" + (f"?{options[2]}" if options[1] else "")


def what_is_measured(server: str) -> dict[str, str]:
    """Return what matters of a server. Raises `SystemExit` if it does not flush its commits."""
    with closing(psycopg.connect(server, autocommit=True)) as asking:
        names = ("server_version", "fsync", "synchronous_commit", "full_page_writes")
        rows = {name: asking.execute(f"SHOW {name}").fetchone() for name in names}
    found = {name: str(row[0]) for name, row in rows.items() if row is not None}
    if "off" in {found["fsync"], found["synchronous_commit"]}:
        raise SystemExit(f"the server does not flush its commits: {found}")
    return found


class PlainSession:
    """The raw loop's session: one pipeline for each transaction, as fast as psycopg can be asked."""

    def __init__(self, url: str) -> None:
        self._plain: Plain = connect(read_address(url))
        self._pipeline: Any = None

    def begin(self) -> None:
        """Begin a transaction; nothing is awaited before its end."""
        self._pipeline = self._plain.pipeline()
        self._pipeline.__enter__()
        self._plain.execute("BEGIN")

    def executemany(self, sql: str, rows: Sequence[Row]) -> None:
        """Send a statement for each row."""
        self._plain.cursor().executemany(numbered(sql), rows)

    def commit(self) -> None:
        """Commit, and wait for all answers."""
        self._plain.execute("COMMIT")
        self._pipeline.__exit__(None, None, None)

    def settle(self) -> None:
        """Let the server know what is in its tables, as it would after a while."""
        self._plain.execute("VACUUM ANALYZE")

    def close(self) -> None:
        """End the session."""
        self._plain.close()
