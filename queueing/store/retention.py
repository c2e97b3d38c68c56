"""Deleting what nobody needs any more, a little at a time so that no job waits long for it."""

import json
import sqlite3
from collections.abc import Iterator, Sequence

from queueing.store import queries

# Deleted pages are overwritten, so a job with pictures costs megabytes of writing.
_AT_ONCE = 20
_MB = 1024 * 1024


def purge_some(connection: sqlite3.Connection, before: float) -> int:
    """Delete some acknowledged jobs that ended before a moment, oldest first; return how many."""
    return connection.execute(queries.PURGE, (before, _AT_ONCE)).rowcount


def drop_some_bytes(connection: sqlite3.Connection, keep_mb: int) -> int:
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
            if dropped == _AT_ONCE:
                break
    return dropped


def erase(connection: sqlite3.Connection, job_ids: Sequence[int]) -> int:
    """Delete those of the jobs that have ended, with all that belongs to them.

    What was made for one of them goes too, such as the question that holds its words; it counts
    only where it was named itself.
    """
    erased = sum(connection.execute(queries.ERASE, (job_id,)).rowcount for job_id in job_ids)
    connection.execute(queries.ERASE_MADE_FOR, (json.dumps(list(job_ids)),))
    return erased


def portions(job_ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """Split jobs into what one transaction deletes."""
    return (job_ids[at : at + _AT_ONCE] for at in range(0, len(job_ids), _AT_ONCE))
