"""Deleting what nobody needs any more, a little at a time so that no job waits long for it."""

from collections.abc import Iterator, Sequence
from itertools import cycle, islice

from queueing.store.database import Connection
from queueing.store.jobs import queries

_MB = 1024 * 1024


def purge_some(connection: Connection, before: float) -> int:
    """Delete some acknowledged jobs that ended before a moment, oldest first; return how many."""
    return connection.execute(queries.PURGE, (before, queries.DELETED_AT_ONCE)).rowcount


def drop_some_bytes(connection: Connection, keep_mb: int) -> int:
    """Delete files and texts of some acknowledged jobs beyond a size; return of how many jobs.

    What has not been delivered, or may still run, keeps its bytes whatever the size.
    """
    kept = dropped = 0
    for job_id, size in connection.execute(queries.BYTES_NEWEST_FIRST).fetchall():
        kept += size
        if kept > keep_mb * _MB and connection.execute(queries.DROPPABLE, (job_id,)).fetchone():
            connection.execute(queries.DROP_INPUTS, (job_id,))
            connection.execute(queries.DROP_OUTPUTS, (job_id,))
            dropped += 1
            if dropped == queries.DELETED_AT_ONCE:
                break
    return dropped


def erase(connection: Connection, job_ids: Sequence[int]) -> int:
    """Delete those of one of the `portions` of jobs that have ended, with all that belongs to them.

    What was made for one of them goes too, such as the question that holds its words; it counts
    only where it was named itself.
    """
    erased = sum(connection.execute(queries.ERASE, (job_id,)).rowcount for job_id in job_ids)
    filled = islice(cycle(job_ids), queries.DELETED_AT_ONCE)  # the statement has room for so many
    connection.execute(queries.ERASE_MADE_FOR, tuple(filled))
    return erased


def portions(job_ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """Split jobs into what one transaction deletes."""
    size = queries.DELETED_AT_ONCE
    return (job_ids[at : at + size] for at in range(0, len(job_ids), size))
