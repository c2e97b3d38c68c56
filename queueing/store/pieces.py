"""Reads a part of a blob, so that large files need not be in memory to be sent."""

import sqlite3


def bytes_of(
    connection: sqlite3.Connection, table: str, row: int, start: int, length: int
) -> bytes:
    """Return up to `length` bytes from `start` of the column `data` of a row, by its rowid.

    Raises `sqlite3.Error` where there is no such row.
    """
    with connection.blobopen(table, "data", row, readonly=True) as blob:
        blob.seek(min(start, len(blob)))
        return blob.read(length)
