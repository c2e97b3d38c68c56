"""Ownership: one process at a time writes a database, to a place it may write and can trust."""

import logging
import os
import sqlite3
from pathlib import Path

from queueing.errors import StoreError

log = logging.getLogger(__name__)

_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "afs"})


def own(path: Path) -> sqlite3.Connection:
    """Become the one process that writes here, until the connection is closed or we die.

    The lock is SQLite's own on an empty file beside the database: the same on every system, gone
    with the process, and no obstacle to those who only read the database. Raises `StoreError` saying what to do.
    """
    folder = path.absolute().parent
    if not folder.is_dir():
        raise StoreError(f"the folder {folder} does not exist: create it, or name another")
    for needed in (folder, path):
        if needed.exists() and not os.access(needed, os.W_OK):
            raise StoreError(
                f"{needed} is read-only: let the user that runs Usher write the file and its folder"
            )
    _warn_of_network(folder)
    lock = sqlite3.connect(
        path.with_name(path.name + ".lock"),
        timeout=0,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error as error:
        lock.close()
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        raise StoreError(
            "another Usher runs on this database: stop it first, or name another file"
        ) from error
    return lock


def _warn_of_network(folder: Path) -> None:
    """Warn where SQLite's locks and WAL are known not to hold; Linux only, silent elsewhere."""
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    kinds = {Path(fields[1]): fields[2] for fields in map(str.split, mounts)}
    at = folder.resolve()
    while at not in kinds and at != at.parent:
        at = at.parent
    if kinds.get(at) in _NETWORK:
        log.warning("%s is on a network file system: jobs can be lost, use a local disk", folder)
