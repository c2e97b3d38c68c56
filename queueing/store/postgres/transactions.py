"""Runs batches on one session, each as one transaction.

Only this class has access to the session, so no caller can leave a transaction open. Knows no
tables.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import psycopg

from queueing.core.errors import Fenced, StoreError
from queueing.core.leases import Lease
from queueing.store.postgres.connection import Plain, PostgresConnection, PostgresCursor, numbered
from queueing.store.postgres.failures import AWAY, explain, is_away, may_be_repeated
from queueing.store.postgres.session import Session
from queueing.store.sql.batcher import Batch, Batcher, Outcomes
from queueing.store.sql.database import DatabaseAway

MUTE_S = 30.0
_TRIES = 5  # of a transaction that conflicts with another one


@dataclass(frozen=True, kw_only=True, slots=True)
class Manner:
    """How transactions begin: with these statements, all of which must succeed.

    `numbered` transactions, those of the writer, get a transaction id. If a commit gets no answer,
    the server is asked by this id whether it happened. With a `lease`, each transaction first
    increments the counter in the row of its role, which locks the row. It is aborted if the row has
    another epoch, or a lower count than before.
    """

    begin: Sequence[str]
    numbered: bool
    lease: Lease | None = None


WRITING = Manner(begin=("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",), numbered=True)
# A weaker lock would not fence. The holder is compared too, because after a restored backup another
# holder may have the same epoch.
FENCE = (
    "UPDATE roles SET written = written + 1 WHERE name = ? AND epoch = ? AND holder = ?"
    " RETURNING written"
)
WRITTEN = "SELECT written FROM roles WHERE name = ? AND epoch = ? AND holder = ?"
FENCED = "another process has taken over the role {}: this one writes nothing more"
WENT_BACK = (
    "the database has gone back in time: it lacks transactions that it had confirmed, because a"
    " standby without them has taken over or a backup was restored; jobs accepted since then may"
    " be lost"
)
READING = Manner(begin=("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",), numbered=False)


class _CommitUnanswered(Exception):
    """The session was lost after the commit was sent."""

    def __init__(self, number: int, written: int, outcomes: Outcomes) -> None:
        super().__init__(number)
        self.number = number
        self.written = written
        self.outcomes = outcomes


class PostgresTransactions(Batcher):
    """One session with its thread and the task that feeds it."""

    def __init__(
        self,
        session: Session,
        manner: Manner,
        *,
        inline: bool,
        failed: Callable[[Exception], None],
    ) -> None:
        super().__init__(failed, inline=inline)
        self._session = session
        self._manner = manner
        self._undone = 0
        self.written = 0  # the highest confirmed count of the role's transactions
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="postgres")
        self._start()

    async def aclose(self) -> None:
        """Apply the waiting items, then close. Does not wait for an absent server. Idempotent."""
        self._session.stop()
        await super().aclose()

    def _run_inline(self) -> None:
        self._outcomes = self._apply(self._batch)

    async def _run(self) -> None:
        """Turn `_batch` into `_outcomes`. Cuts the connection if the server is silent for `MUTE_S`.

        Network timeouts do not detect a frozen server, or a proxy that accepts everything and
        answers nothing.
        """
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._threads, self._apply, self._batch)
        try:
            await self._done(work)
        except asyncio.CancelledError:
            self._session.stop()
            await self._done(work)
            self._outcomes = work.result()
            raise
        self._outcomes = work.result()

    async def _done(self, work: asyncio.Future[Outcomes]) -> None:
        while not (await asyncio.wait({work}, timeout=MUTE_S))[0]:
            self._session.hang_up()

    async def _close(self) -> None:
        self._session.drop()
        self._threads.shutdown(wait=False)

    # ------------------------------------------------------------ in the thread

    def _explained(self, error: Exception) -> Exception:
        return explain(error)

    def _concerns_all(self, explained: Exception) -> bool:
        return isinstance(explained, DatabaseAway | Fenced)

    def _transaction(self, batch: Batch) -> Outcomes:
        tries = 0
        while True:
            tries += 1
            try:
                return self._once(self._session.usable(), batch)
            except _CommitUnanswered as unanswered:
                try:
                    happened = self._has_happened(unanswered.number, unanswered.written)
                except StoreError:
                    self._undo(batch)
                    raise
                if happened:
                    self.written = unanswered.written
                    return self._finished(batch, unanswered.outcomes, self._session.usable())
                self._undo(batch)
            except Exception as error:
                self._undo(batch)
                lost = is_away(error) and tries == 1
                if not lost and not (may_be_repeated(error) and tries < _TRIES):
                    raise

    def _once(self, plain: Plain, batch: Batch) -> Outcomes:
        number, written, outcomes = 0, 0, None
        try:
            with plain.pipeline() as pipeline:
                connection = PostgresConnection(plain, pipeline)
                numbering, fence = self._begin(connection)
                outcomes = {kind: kind.run(connection, items) for kind, items in batch.items()}
                number = int(numbering.fetchone()[0]) if numbering else 0
                written = self._pass(fence)
                committing = connection.execute("COMMIT")
            _expect_commit(committing)
        except Exception as error:
            if number and outcomes is not None and is_away(error):
                raise _CommitUnanswered(number, written, outcomes) from error
            self._end(plain, error)
            raise
        self.written = written
        return self._finished(batch, outcomes, plain)

    def _begin(
        self, connection: PostgresConnection
    ) -> tuple[PostgresCursor | None, PostgresCursor | None]:
        """Begin a transaction and send its fencing statements, without waiting for the results.

        Returns the cursors of its transaction id and of the fence.
        """
        for statement in self._manner.begin:
            connection.execute(statement)
        numbering = fence = None
        if self._manner.numbered:
            numbering = connection.execute("SELECT pg_current_xact_id()::text")
        if self._manner.lease is not None:
            fence = connection.execute(FENCE, of_role(self._manner.lease))
        return numbering, fence

    def _pass(self, fence: PostgresCursor | None) -> int:
        """Return the count of this transaction, checked before the commit.

        Raises `Fenced` if the process has lost the role or the database has lost earlier commits.
        """
        if fence is None or self._manner.lease is None:
            return 0
        row = fence.fetchone()
        if row is None:
            raise Fenced(FENCED.format(self._manner.lease.name))
        written = int(row[0])
        if written <= self.written:
            raise Fenced(WENT_BACK)
        return written

    def _end(self, plain: Plain, error: Exception) -> None:
        """Close any open transaction after a failure."""
        try:
            if is_away(error):
                self._session.drop()
            elif not plain.closed:
                # psycopg also marks statements as prepared that followed the failed one. It forgets
                # them on a rollback, but only if the text of that statement is new.
                self._undone += 1
                plain.execute(f"ROLLBACK -- {self._undone}")
        except psycopg.Error:
            self._session.drop()

    def _finished(self, batch: Batch, outcomes: Outcomes, plain: Plain) -> Outcomes:
        connection = PostgresConnection(plain)
        for kind in batch:
            kind.after(connection)
        return outcomes

    def _undo(self, batch: Batch) -> None:
        for kind in batch:
            kind.undone()

    def _has_happened(self, number: int, written: int) -> bool:
        """Ask the server, once it answers again, whether a transaction was committed.

        Nothing else may be written before this is known. Otherwise there could be jobs that no
        caller knows about.
        """
        while True:
            self._session.drop()
            plain = self._session.wait_for()
            try:
                row = plain.execute("SELECT pg_xact_status($1::xid8)", [str(number)]).fetchone()
            except psycopg.errors.InvalidParameterValue:
                return False  # after a crash: an id this high was never stored
            except psycopg.Error as error:
                if is_away(error):
                    continue
                raise DatabaseAway(AWAY) from error
            if row is None or row[0] != "in progress":
                return row is not None and row[0] == "committed" and self._counts(plain, written)
            self._session.pause()

    def _counts(self, plain: Plain, written: int) -> bool:
        """Return whether the role's count includes a transaction.

        A server that lost it may have given the same transaction id to another one.
        """
        if self._manner.lease is None:
            return True
        row = plain.execute(numbered(WRITTEN), of_role(self._manner.lease)).fetchone()
        return row is not None and int(row[0]) >= written


def of_role(lease: Lease) -> tuple[str, int, str]:
    """Return the parameters that identify the row of a role."""
    return lease.name, lease.epoch, lease.holder


def _expect_commit(committing: PostgresCursor) -> None:
    """Raise `StoreError` if the server answered a commit with a rollback instead of an error."""
    if committing.status != "COMMIT":
        raise StoreError("the database server rolled back a transaction: see its log")
