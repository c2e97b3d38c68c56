"""Runs batches on one connection to SQLite, each as one transaction.

Owns the only access to a connection, so no caller can leave a transaction open. Knows no tables.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

import aiosqlite

from queueing.store.sql.batcher import Batch, Batcher, Outcomes, unwatched
from queueing.store.sqlite.connection import SqliteConnection
from queueing.store.sqlite.failures import explain


def run_batch(connection: SqliteConnection, begin: str, batch: Batch) -> Outcomes:
    """Apply a batch in one transaction, or each item in its own when that fails.

    So an item that cannot be written only delays its neighbours. If no transaction can even begin,
    because another program holds the file, it is not tried again for each item: every try waits as
    long as the engine is told to.
    """
    try:
        connection.execute(begin)
    except sqlite3.Error as error:
        return {kind: [explain(error)] * len(items) for kind, items in batch.items()}
    try:
        return _transaction(connection, batch)
    except Exception as error:  # noqa: BLE001 - whatever it is, it goes to the one who asked
        if connection.in_transaction:  # a full disk makes SQLite roll back by itself
            connection.execute("ROLLBACK")
        for kind in batch:
            kind.undone()
        if sum(map(len, batch.values())) == 1:
            return {kind: [explain(error)] for kind in batch}
    return {
        kind: [run_batch(connection, begin, {kind: [item]})[kind][0] for item in items]
        for kind, items in batch.items()
    }


def _transaction(connection: SqliteConnection, batch: Batch) -> Outcomes:
    outcomes = {kind: kind.run(connection, items) for kind, items in batch.items()}
    connection.execute("COMMIT")
    for kind in batch:
        kind.after(connection)
    return outcomes


class Worker(Batcher):
    """One connection, its thread and the task that feeds it; create it with `open`."""

    def __init__(self, begin: str, failed: Callable[[Exception], None], *, inline: bool) -> None:
        super().__init__(failed, inline=inline)
        self._begin = begin
        self._plain: SqliteConnection | None = None
        self._threaded: aiosqlite.Connection | None = None

    @classmethod
    async def open(
        cls,
        path: Path | str,
        *,
        begin: str,
        pragmas: Iterable[str],
        inline: bool,
        failed: Callable[[Exception], None] = unwatched,
    ) -> Self:
        """Connect; `failed` is called with every failure. Raises `sqlite3.Error`."""
        self = cls(begin, failed, inline=inline)
        if inline:
            self._plain = _prepared(
                sqlite3.connect(path, isolation_level=None, factory=SqliteConnection), pragmas
            )
            return self
        connection = await aiosqlite.connect(
            path, isolation_level=None, factory=_committing_by(self._run_taken)
        )
        try:
            for pragma in pragmas:
                await connection.execute_fetchall(pragma)
        except BaseException:
            await connection.close()
            raise
        self._threaded = connection
        self._start()
        return self

    def _run_inline(self) -> None:
        if self._plain is not None:
            self._run_taken(self._plain)

    async def _run(self) -> None:
        if self._threaded is None:
            return
        try:
            await self._threaded.commit()  # runs the batch: see _committing_by
        except asyncio.CancelledError:
            await self._close()  # in the same thread, hence after the batch
            raise

    async def _close(self) -> None:
        if self._plain is not None:
            self._plain.close()
        if self._threaded is not None:
            await self._threaded.close()

    def _run_taken(self, connection: SqliteConnection) -> None:
        self._outcomes = run_batch(connection, self._begin, self._batch)


def _prepared(connection: SqliteConnection, pragmas: Iterable[str]) -> SqliteConnection:
    try:
        for pragma in pragmas:
            connection.execute(pragma)
    except BaseException:
        connection.close()
        raise
    return connection


def _committing_by(run: Callable[[SqliteConnection], None]) -> type[SqliteConnection]:
    """Return a connection class whose `commit()` calls `run`.

    `commit()` is the one public way to run a whole function in the thread of an aiosqlite
    connection, and a batch then costs one hop between threads.
    """

    class Committing(SqliteConnection):
        def commit(self) -> None:
            run(self)

    return Committing
