"""How changes and queries of any kind run inside a transaction that several of them share."""

from collections.abc import Callable, Sequence
from typing import Any

import psycopg

from queueing.store.database import ChangeKind, Connection


def change_nothing(_: Connection) -> None:
    """Change nothing: the transaction itself is what is tried."""


def _changed(connection: Connection, changes: Sequence[Callable[[Connection], Any]]) -> list[Any]:
    """Run changes; if one raises, the whole batch starts again, each in its own transaction.

    A savepoint for each would cost two more ways to the server and back.
    """
    return [change(connection) for change in changes]


def _asked(connection: Connection, queries: Sequence[Callable[[Connection], Any]]) -> list[Any]:
    results: list[Any] = []
    for query in queries:
        try:
            results.append(query(connection))
        except psycopg.Error:
            raise  # the transaction is spoilt for the others: each is asked alone
        except Exception as error:  # noqa: BLE001 - it goes to the one who asked
            results.append(error)
    return results


CHANGES: ChangeKind[Callable[[Connection], Any], Any] = ChangeKind(run=_changed)
QUERIES: ChangeKind[Callable[[Connection], Any], Any] = ChangeKind(run=_asked)
