"""Databases on a PostgreSQL server that a benchmark makes and drops."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from os import getpid
from urllib.parse import urlsplit

import psycopg

_numbers = count(1)


@contextmanager
def new_database(server: str) -> Iterator[str]:
    """Make a database on the server and drop it afterwards; give its address."""
    name = f"usher_benchmark_{getpid()}_{next(_numbers)}"
    with closing(psycopg.connect(server, autocommit=True)) as administering:
        administering.execute(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0")
        try:
            yield urlsplit(server)._replace(path=f"/{name}").geturl()
        finally:
            administering.execute(f"DROP DATABASE {name} WITH (FORCE)")


def what_is_measured(server: str) -> dict[str, str]:
    """Return the settings that matter. Raises `SystemExit` if the server does not flush its commits."""
    with closing(psycopg.connect(server, autocommit=True)) as asking:
        names = ("server_version", "fsync", "synchronous_commit", "full_page_writes")
        rows = {name: asking.execute(f"SHOW {name}").fetchone() for name in names}
    found = {name: str(row[0]) for name, row in rows.items() if row is not None}
    if "off" in {found["fsync"], found["synchronous_commit"]}:
        raise SystemExit(f"the server does not flush its commits: {found}")
    return found
