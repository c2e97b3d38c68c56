"""Ownership of a database file: only one process at a time writes it, in a suitable location."""

import logging
import os
import sqlite3
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path

from queueing.core.errors import StoreError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger(__name__)

_TAKEN = "another Usher runs on this database: stop it first, or name another file"
_PATIENCE_S = 0.5  # another process may be testing the lock
_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "afs"})


LOST = (
    "the database's file was deleted or replaced while Usher was running: new jobs would be lost;"
    " stop Usher, put the file back and start again"
)


class FileLock:
    """Makes this process the only writer of a database, until closed or until the process ends.

    `file` is the open and locked database file itself, since the lock file could be deleted.
    """

    def __init__(self, path: Path, lock: sqlite3.Connection, file: int) -> None:
        self._path = path
        self._lock = lock
        self._file: int | None = file

    def lost(self) -> str | None:
        """Return what to do if the file is not the one that was opened, or None if it is."""
        if self._file is None:
            return None
        ours = os.fstat(self._file)
        try:
            there = self._path.stat()
        except OSError:
            return LOST
        return None if (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino) else LOST

    def close(self) -> None:
        """Release the database. Call it only after all connections are closed. Idempotent."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        self._lock.close()


def own(path: Path) -> FileLock:
    """Become the only process that writes a database, until closed or until the process ends.

    The lock is an exclusive SQLite lock on an empty file next to the database. It works the same on
    every system, is released when the process ends, and does not block readers of the database.
    Links are resolved first, so that every path to the file uses the same lock. Where possible, the
    file itself is locked as well. New files are readable only by their owner, and access by other
    accounts to an existing file is removed. Raises `StoreError`, which says what to do.
    """
    path = path.resolve()
    folder = path.parent
    if not folder.is_dir():
        raise StoreError(f"the folder {folder} does not exist: create it, or name another")
    if path.is_dir():
        raise StoreError("the database is a folder: name a file in it")
    for needed in (folder, path):
        if needed.exists() and not os.access(needed, os.W_OK):
            raise StoreError(
                f"{needed} is read-only: let the user that runs Usher write the file and its folder"
            )
    local = not _warn_of_network(folder)
    with ExitStack() as opened:
        lock = locked(path)
        opened.callback(lock.close)
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        opened.callback(os.close, file)
        if os.fstat(file).st_nlink > 1:
            raise StoreError(
                "the file has a hard link, through which another Usher could write it: remove the"
                " link, or copy the file"
            )
        if local:
            _lock_file(file)
        _hide(path)
        opened.pop_all()
    return FileLock(path, lock, file)


def made_by(path: Path) -> Sequence[Path]:
    """Return the files that make up a database, whether or not they exist."""
    return [path, *(path.with_name(path.name + end) for end in ("-wal", "-shm", ".lock"))]


def _hide(path: Path) -> None:
    """Remove other accounts' access to the files. Access by a group is left to the operator."""
    for file in made_by(path):
        with suppress(FileNotFoundError):
            mode = file.stat().st_mode & 0o777
            if os.name == "nt" or not mode & 0o007:
                continue
            try:
                file.chmod(mode & ~0o007)
            except PermissionError:
                log.warning("%s: any account on this machine can open it (%03o)", file, mode)
            else:
                log.warning("%s: removed the access of other accounts (it was %03o)", file, mode)


def is_owned(path: Path) -> bool | None:
    """Return whether a process owns the database, or None if none ever did."""
    lock = _lock_of(path.resolve())
    if not lock.exists():
        return None
    try:
        with closing(sqlite3.connect(f"{lock.as_uri()}?mode=ro", uri=True, timeout=0)) as asking:
            asking.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.Error as error:
        return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
    return False


def _lock_of(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def locked(path: Path) -> sqlite3.Connection:
    """Acquire the lock next to a database. Raises `StoreError` if another process has it."""
    file = _lock_of(path)
    with suppress(OSError):  # SQLite reports the reason, below
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
    lock = sqlite3.connect(file, timeout=_PATIENCE_S, isolation_level=None, check_same_thread=False)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error as error:
        lock.close()
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        raise StoreError(_TAKEN) from error
    return lock


def _lock_file(file: int) -> None:
    """Lock the file itself with `flock`, which does not interfere with SQLite's locks."""
    if fcntl is None:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise StoreError(_TAKEN) from error
    except OSError as error:  # the file system has no such locks; the lock file suffices
        log.debug("the database's file cannot be locked: %s", error)


def _warn_of_network(folder: Path) -> bool:
    """Warn if the folder is on a network file system, where SQLite's locks and WAL do not work.

    Returns whether it is. Can tell on Linux only.
    """
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    kinds = {Path(fields[1]): fields[2] for fields in map(str.split, mounts)}
    at = folder.resolve()
    while at not in kinds and at != at.parent:
        at = at.parent
    remote = kinds.get(at) in _NETWORK
    if remote:
        log.warning("%s is on a network file system: jobs can be lost, use a local disk", folder)
    return remote
