"""How changes and queries of any kind run inside a transaction that several of them share."""

from collections.abc import Callable, Sequence
from typing import Any

import psycopg

from queueing.store.sql.database import ChangeKind, Connection


def change_nothing(_: Connection) -> None:
    """Change nothing: the transaction itself is what is tried."""


def _changed(connection: Connection, changes: Sequence[Callable[[Connection], Any]]) -> list[Any]:
    return [_in_savepoint(connection, change) for change in changes]


def _in_savepoint(connection: Connection, change: Callable[[Connection], Any]) -> Any:
    """Run a change that alone is undone if it raises, so that its neighbours need not wait.

    Both statements are under way with the change's own and cost no further way to the server.
    """
    connection.execute("SAVEPOINT change")
    try:
        result = change(connection)
    except psycopg.Error:
        raise  # the whole transaction is spoilt: it starts again, each change alone
    except Exception as error:  # noqa: BLE001 - it goes to the one who asked
        connection.execute("ROLLBACK TO SAVEPOINT change")
        result = error
    connection.execute("RELEASE SAVEPOINT change")
    return result


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
