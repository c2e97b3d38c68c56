"""Deleting what nobody needs any more, a little at a time so that no job waits long for it."""

import sqlite3

from queueing.store import queries

_AT_ONCE = 500
_MB = 1024 * 1024


def purge_some(connection: sqlite3.Connection, before: float) -> int:
    """Delete some acknowledged jobs that ended before a moment, oldest first; return how many."""
    return connection.execute(queries.PURGE, (before, _AT_ONCE)).rowcount


def drop_bytes(connection: sqlite3.Connection, keep_mb: int) -> None:
    """Delete the oldest files and texts of acknowledged jobs beyond a size.

    What has not been delivered, or may still run, keeps its bytes whatever the size.
    """
    kept = 0
    for job_id, size in connection.execute(queries.BYTES_NEWEST_FIRST).fetchall():
        kept += size
        if kept > keep_mb * _MB and connection.execute(queries.DROPPABLE, (job_id,)).fetchone():
            connection.execute(queries.DROP_INPUTS, (job_id,))
            connection.execute(queries.DROP_OUTPUTS, (job_id,))
