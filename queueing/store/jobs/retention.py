"""Deletes expired data in small portions, so that jobs do not have to wait long."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import cycle, islice

from queueing.store.jobs import queries
from queueing.store.sql.database import Connection, Database

_MB = 1024 * 1024
_LOOKED_AT_ONCE = 200


class StoredUpkeep:
    """Deletes jobs permanently."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def purge(self, before: float, *, keep_mb: int | None = None) -> int:
        """Delete acknowledged jobs that ended before `before`, with their files.

        With `keep_mb`, also deletes the oldest outputs and inputs beyond that total size. Deleted
        data is overwritten. Returns the number of jobs deleted.
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
        """Delete those of the given jobs that have ended, with their files.

        Ended jobs whose `parent` is one of them are deleted too, but not counted. The data is
        overwritten in the store's files before this returns, as far as the file system writes in
        place; earlier backups keep it. Returns the number deleted.
        """
        erased = 0
        for some in _portions(job_ids):
            erased += await self._database.write(partial(_erase, job_ids=some))
        await self._database.write_and_scrub(lambda _connection: None)
        return erased


def _purge_some(connection: Connection, before: float) -> int:
    """Delete some acknowledged jobs, oldest end first. Returns how many."""
    return connection.execute(queries.PURGE, (before, queries.DELETED_AT_ONCE)).rowcount


def _drop_some_bytes(connection: Connection, keep_mb: int) -> int:
    """Delete the files and texts of some acknowledged jobs beyond a size. Returns how many jobs.

    Jobs that are open or not delivered keep their files at any size.
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
    """Delete the ended jobs of one portion, with everything that belongs to them.

    Jobs made for them are deleted too, such as a question that contains a transcript. Only jobs in
    `job_ids` are counted.
    """
    erasing = [connection.execute(queries.ERASE, (job_id,)) for job_id in job_ids]
    erased = sum(cursor.rowcount for cursor in erasing)
    # The statement has a fixed number of parameters.
    filled = islice(cycle(job_ids), queries.DELETED_AT_ONCE)
    connection.execute(queries.ERASE_MADE_FOR, tuple(filled))
    return erased


def _portions(job_ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """Split jobs into portions for one transaction each."""
    size = queries.DELETED_AT_ONCE
    return (job_ids[at : at + size] for at in range(0, len(job_ids), size))
