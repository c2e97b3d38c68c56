"""Turns SQLite's errors into texts that explain what the operator can do."""

import sqlite3

from queueing.core.errors import StoreError
from queueing.store.sql.database import DISK_FULL, Damaged, DiskFull

_TEXTS = {
    sqlite3.SQLITE_READONLY: "the database cannot be written: give the file and its folder to the user that runs Usher",
    sqlite3.SQLITE_CANTOPEN: "the database cannot be opened: its folder must exist and be writable",
    sqlite3.SQLITE_PERM: "the database cannot be opened: give the file and its folder to the user that runs Usher",
    sqlite3.SQLITE_BUSY: "another program holds the database: close it and try again",
    sqlite3.SQLITE_LOCKED: "another program holds the database: close it and try again",
    sqlite3.SQLITE_CORRUPT: "the database is damaged: stop Usher and restore the newest backup",
    sqlite3.SQLITE_NOTADB: "the file is no database: name another file, or restore the newest backup",
    sqlite3.SQLITE_IOERR: "the disk does not work: look at the system's log, then restore the newest backup if needed",
}
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


def explain(error: Exception) -> Exception:
    """Return a `StoreError` for an error of the database engine, anything else unchanged."""
    if not isinstance(error, sqlite3.Error):
        return error
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return error
    primary = code & 0xFF  # the upper bits only refine it
    if primary == sqlite3.SQLITE_FULL:
        explained: StoreError = DiskFull(DISK_FULL)
    elif primary in _TEXTS:
        kind = Damaged if primary in _DAMAGE else StoreError
        explained = kind(f"{_TEXTS[primary]} ({error})")
    else:
        return error
    explained.__cause__ = error
    return explained
