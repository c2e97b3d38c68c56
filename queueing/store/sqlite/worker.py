"""Runs changes many at a time on one connection: everything that waits becomes one transaction.

Owns the only access to a connection, so no caller can leave a transaction open. Knows no tables.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import aiosqlite

from queueing.core.errors import StoreError
from queueing.store.database import ChangeKind, Item, Result
from queueing.store.sqlite.connection import SqliteConnection
from queueing.store.sqlite.failures import explain


def _unwatched(_failure: Exception) -> None:
    pass


AnyKind = ChangeKind[Any, Any]
Batch = Mapping[AnyKind, Sequence[Any]]
Outcomes = dict[AnyKind, Sequence[Any]]


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


class Worker:
    """One connection, its thread and the task that feeds it; create it with `open`.

    `inline` works in the calling thread when the event loop next turns: the same batches without a
    thread, for event loops that no thread may wake.
    """

    def __init__(self, begin: str, failed: Callable[[Exception], None]) -> None:
        self._begin = begin
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[AnyKind, list[tuple[Any, asyncio.Future[Any]]]] = {}
        self._batch: Batch = {}
        self._outcomes: Outcomes = {}
        self._wake = asyncio.Event()
        self._closing = False
        self._task: asyncio.Task[None] | None = None
        self._inline: SqliteConnection | None = None

    @classmethod
    async def open(
        cls,
        path: Path | str,
        *,
        begin: str,
        pragmas: Iterable[str],
        inline: bool,
        failed: Callable[[Exception], None] = _unwatched,
    ) -> Self:
        """Connect; `failed` is called with every failure. Raises `sqlite3.Error`."""
        self = cls(begin, failed)
        if inline:
            self._inline = _prepared(
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
        self._task = asyncio.create_task(self._turns(connection), name="store worker")
        return self

    def submit(self, kind: ChangeKind[Item, Result], item: Item) -> asyncio.Future[Result]:
        """Apply an item with the next batch; the future receives the result.

        A cancelled caller changes nothing: its item is applied whole or not at all.
        """
        if self._closing:
            raise StoreError("the database is closed")
        future: asyncio.Future[Result] = self._loop.create_future()
        entries = self._waiting.get(kind)
        if entries is None:
            if not self._waiting:
                self._call()
            self._waiting[kind] = [(item, future)]
        else:
            entries.append((item, future))
        return future

    async def aclose(self) -> None:
        """Apply what waits, then close. Idempotent."""
        if self._closing:
            return
        self._closing = True
        if self._inline is not None:
            self._turn_inline()
            self._inline.close()
        elif self._task is not None:
            self._wake.set()
            await asyncio.wait(
                {self._task}
            )  # unlike awaiting it, leaves the task running when cancelled

    def _call(self) -> None:
        if self._inline is None:
            self._wake.set()
        else:
            self._loop.call_soon(self._turn_inline)

    def _turn_inline(self) -> None:
        if self._waiting and self._inline is not None:
            waiting = self._take()
            failure = None
            try:
                self._run_taken(self._inline)
                _committed(waiting)
            except Exception as error:  # noqa: BLE001 - no caller may wait for ever
                failure = error
            self._answer(waiting, failure)

    async def _turns(self, connection: aiosqlite.Connection) -> None:
        try:
            while self._waiting or not self._closing:
                await self._wake.wait()
                self._wake.clear()
                if self._waiting:
                    await self._turn(connection)
        finally:
            await connection.close()

    async def _turn(self, connection: aiosqlite.Connection) -> None:
        waiting = self._take()
        failure = None
        try:
            await connection.commit()  # runs the batch: see _committing_by
            _committed(waiting)
        except Exception as error:  # noqa: BLE001 - no caller may wait for ever
            failure = error
        self._answer(waiting, failure)

    def _take(self) -> dict[AnyKind, list[tuple[Any, asyncio.Future[Any]]]]:
        waiting, self._waiting = self._waiting, {}
        self._batch = {kind: [item for item, _ in entries] for kind, entries in waiting.items()}
        return waiting

    def _run_taken(self, connection: SqliteConnection) -> None:
        self._outcomes = run_batch(connection, self._begin, self._batch)

    def _answer(
        self,
        waiting: Mapping[AnyKind, Sequence[tuple[Any, asyncio.Future[Any]]]],
        failure: Exception | None,
    ) -> None:
        outcomes, self._outcomes, self._batch = self._outcomes, {}, {}
        for kind, entries in waiting.items():
            answers = [failure] * len(entries) if failure else outcomes[kind]
            for (_, future), answer in zip(entries, answers, strict=True):
                failed = isinstance(answer, Exception)
                if failed:
                    self._failed(answer)
                if future.done():  # its caller was cancelled
                    continue
                if failed:
                    future.set_exception(answer)
                else:
                    future.set_result(answer)


def _prepared(connection: SqliteConnection, pragmas: Iterable[str]) -> SqliteConnection:
    try:
        for pragma in pragmas:
            connection.execute(pragma)
    except BaseException:
        connection.close()
        raise
    return connection


def _committed(kinds: Iterable[AnyKind]) -> None:
    for kind in kinds:
        kind.committed()


def _committing_by(run: Callable[[SqliteConnection], None]) -> type[SqliteConnection]:
    """Return a connection class whose `commit()` calls `run`.

    `commit()` is the one public way to run a whole function in the thread of an aiosqlite
    connection, and a batch then costs one hop between threads.
    """

    class Committing(SqliteConnection):
        def commit(self) -> None:
            run(self)

    return Committing
