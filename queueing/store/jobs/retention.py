"""Deletes data past its retention, a little at a time so that no job waits long for it."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import cycle, islice

from queueing.store.jobs import queries
from queueing.store.sql.database import Connection, Database

_MB = 1024 * 1024
_LOOKED_AT_ONCE = 200


class StoredUpkeep:
    """Deletes jobs for good."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def purge(self, before: float, *, keep_mb: int | None = None) -> int:
        """Delete acknowledged ended jobs older than `before` with their bytes.

        With `keep_mb`, also the oldest outputs and inputs beyond that size. Deleted data is
        overwritten. Returns the number of jobs deleted.
        """
        deleted = dropped = 0
        while some := await self._database.write(
            lambda connection: _purge_some(connection, before)
        ):
            deleted += some
        if keep_mb is not None:
            while some := await self._database.write(lambda c: _drop_some_bytes(c, keep_mb)):
                dropped += some
        if deleted or dropped:
            await self._database.write_and_scrub(lambda _connection: None)
        return deleted

    async def erase(self, job_ids: Sequence[int]) -> int:
        """Delete the given jobs that have ended, with their files and references from other jobs.

        Ended jobs whose `parent` is one of them are deleted too, uncounted. Their bytes are
        overwritten in the store's files before this returns, as far as the file system writes in
        place; earlier backups keep them. Returns the number deleted.
        """
        erased = 0
        for some in _portions(job_ids):
            erased += await self._database.write(partial(_erase, job_ids=some))
        await self._database.write_and_scrub(lambda _connection: None)
        return erased


def _purge_some(connection: Connection, before: float) -> int:
    """Delete some acknowledged jobs that ended before a moment, oldest first; return how many."""
    return connection.execute(queries.PURGE, (before, queries.DELETED_AT_ONCE)).rowcount


def _drop_some_bytes(connection: Connection, keep_mb: int) -> int:
    """Delete files and texts of some acknowledged jobs beyond a size; return of how many jobs.

    A job that has not been delivered, or may still run, keeps its bytes at any size.
    """
    kept, beyond = 0, []
    for job_id, size in connection.execute(queries.BYTES_NEWEST_FIRST).fetchall():
        kept += size
        if kept > keep_mb * _MB:
            beyond.append((job_id,))
    for at in range(0, len(beyond), _LOOKED_AT_ONCE):
        some = beyond[at : at + _LOOKED_AT_ONCE]
        found = connection.selectmany(queries.DROPPABLE, some)
        droppable = [key for key, rows in zip(some, found, strict=True) if rows]
        if droppable:
            droppable = droppable[: queries.DELETED_AT_ONCE]
            emptied = [(b"", *key) for key in droppable]
            connection.executemany(queries.DROP_INPUTS, emptied)
            connection.executemany(queries.DROP_OUTPUTS, droppable)
            return len(droppable)
    return 0


def _erase(connection: Connection, job_ids: Sequence[int]) -> int:
    """Delete those of one of the `_portions` of jobs that have ended, with all that belongs to them.

    What was made for one of them goes too, such as the question that holds its words; it counts
    only where it was named itself.
    """
    erasing = [connection.execute(queries.ERASE, (job_id,)) for job_id in job_ids]
    erased = sum(cursor.rowcount for cursor in erasing)
    filled = islice(
        cycle(job_ids), queries.DELETED_AT_ONCE
    )  # the statement has a fixed number of slots
    connection.execute(queries.ERASE_MADE_FOR, tuple(filled))
    return erased


def _portions(job_ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """Split jobs into portions that one transaction deletes."""
    size = queries.DELETED_AT_ONCE
    return (job_ids[at : at + size] for at in range(0, len(job_ids), size))
