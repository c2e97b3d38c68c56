"""Runs batches on one session, each as one transaction.

Owns the only access to a session, so no caller can leave a transaction open. Knows no tables.
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
_TRIES = 5  # of a transaction that another one was in the way of


@dataclass(frozen=True, kw_only=True, slots=True)
class Manner:
    """How transactions begin: with these statements, all of which must succeed.

    `numbered` is the writer's: its transactions get a number by which the server is asked, after a
    commit that was not answered, whether it happened. With a `lease`, each begins by counting
    itself in the row of its post, which it locks, and nothing is stored once that has another epoch
    or a lower count than before.
    """

    begin: Sequence[str]
    numbered: bool
    lease: Lease | None = None


WRITING = Manner(begin=("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",), numbered=True)
# A weaker lock is no fence. After a restored backup the epoch may be another holder's, too.
FENCE = (
    "UPDATE posts SET written = written + 1 WHERE name = ? AND epoch = ? AND holder = ?"
    " RETURNING written"
)
WRITTEN = "SELECT written FROM posts WHERE name = ? AND epoch = ? AND holder = ?"
FENCED = "another process has taken over the post {}: nothing more is written here"
WENT_BACK = (
    "the database has gone back in time: it lacks transactions that it had confirmed, because a"
    " stand-by without them has taken over or a backup was restored; jobs accepted since then may be"
    " lost"
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
    """One session, its thread and the task that feeds it."""

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
        self.written = 0  # the highest count of the post's transactions that was confirmed
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="postgres")
        self._start()

    async def aclose(self) -> None:
        """Apply what waits, then close; a server that is away is not waited for. Idempotent."""
        self._session.stop()
        await super().aclose()

    def _run_inline(self) -> None:
        self._outcomes = self._apply(self._batch)

    async def _run(self) -> None:
        """Turn `_batch` into `_outcomes`; a server that stays mute is hung up on.

        The network's own time-outs do not notice one that is frozen, or a proxy that swallows all.
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
        """Begin a transaction: what must hold for each of them is asked here, unanswered yet.

        Returns the cursors of its number and of the fence.
        """
        for statement in self._manner.begin:
            connection.execute(statement)
        numbering = fence = None
        if self._manner.numbered:
            numbering = connection.execute("SELECT pg_current_xact_id()::text")
        if self._manner.lease is not None:
            fence = connection.execute(FENCE, of_post(self._manner.lease))
        return numbering, fence

    def _pass(self, fence: PostgresCursor | None) -> int:
        """Return the count of this transaction, before anything is committed.

        Raises `Fenced` unless the post is still this process's, in a database that knows its writes.
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
        """Leave no transaction open after a failure."""
        try:
            if is_away(error):
                self._session.drop()
            elif not plain.closed:
                # The driver counts statements as prepared that came after the one that failed, and
                # forgets them with a rollback, but only with one whose text it has not seen yet.
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
        """Ask, once the server answers again, whether a transaction was committed.

        It must be known before anything else is written: jobs would be where no one looks.
        """
        while True:
            self._session.drop()
            plain = self._session.wait_for()
            try:
                row = plain.execute("SELECT pg_xact_status($1::xid8)", [str(number)]).fetchone()
            except psycopg.errors.InvalidParameterValue:
                return False  # after a crash: so high a number was never stored
            except psycopg.Error as error:
                if is_away(error):
                    continue
                raise DatabaseAway(AWAY) from error
            if row is None or row[0] != "in progress":
                return row is not None and row[0] == "committed" and self._counts(plain, written)
            self._session.pause()

    def _counts(self, plain: Plain, written: int) -> bool:
        """Return whether the post's count includes a transaction.

        A server that lacks it may have given its number to another.
        """
        if self._manner.lease is None:
            return True
        row = plain.execute(numbered(WRITTEN), of_post(self._manner.lease)).fetchone()
        return row is not None and int(row[0]) >= written


def of_post(lease: Lease) -> tuple[str, int, str]:
    """Return the values by which the row of a post is found."""
    return lease.name, lease.epoch, lease.holder


def _expect_commit(committing: PostgresCursor) -> None:
    """Raise `StoreError` for a commit that was none: it is answered without an error."""
    if committing.status != "COMMIT":
        raise StoreError("the database server undid a transaction: see its log")
