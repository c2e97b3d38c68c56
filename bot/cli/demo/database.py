"""Where a demo stores its jobs: in the person's state folder, so that a kill loses nothing.

A scripted demo, and one that finds another demo running, use an empty database that is deleted at
the end.
"""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from bot.cli.demo.options import DemoOptions
from queueing.core.errors import StoreError
from queueing.store.sqlite.file_lock import own

_SUFFIXES = ("", "-wal", "-shm", "-heartbeat")


@contextmanager
def database_of(options: DemoOptions) -> Iterator[Path]:
    """Yield the path of the database this demo uses; it need not exist yet.

    Raises `StoreError` if `fresh` asks to empty a database that another process uses.
    """
    path = options.database or (None if options.say else _kept(options))
    if path is None:
        with tempfile.TemporaryDirectory(prefix="usher-demo-") as folder:
            yield Path(folder) / "demo.sqlite"
        return
    if options.fresh:
        _empty(path)
    yield path


def kept_path() -> Path:
    """Return the database that demos of this person share, whether or not it exists."""
    return Path(platformdirs.user_state_path("usher", appauthor=False)) / "demo.sqlite"


def _kept(options: DemoOptions) -> Path | None:
    """Return the shared database, or None if another demo uses it or it cannot be written."""
    path = kept_path()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        own(path).close()
    except (OSError, StoreError) as error:
        if options.fresh:
            raise StoreError(f"{path} cannot be emptied: {error}") from error
        print(  # the person at the terminal has to know
            f"This demo forgets its jobs when it ends; {path} cannot be used: {error}",
            file=sys.stderr,
        )
        return None
    return path


def _empty(path: Path) -> None:
    """Delete a database that no process uses. Raises `StoreError` if one does."""
    lock = own(path)
    try:
        for suffix in _SUFFIXES:
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    finally:
        lock.close()
