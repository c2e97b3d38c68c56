"""A heartbeat for other processes: a file next to the database, rewritten while the bot runs.

A container's health check reads it. If the event loop hangs, the file is no longer written. Times
are those of the machine's monotonic clock, which cannot be set. They count from a boot, whose id is
stored with them.
"""

import asyncio
import json
import logging
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from queueing.store.sqlite.file_lock import is_owned

EVERY_S = 10.0
LATE_S = 60.0
_BOOT = Path("/proc/sys/kernel/random/boot_id")

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Heartbeat:
    """The last heartbeat. `trouble` is why the bot accepts no requests, or None."""

    at: float
    boot: str
    trouble: str | None = None


def file_of(database: Path) -> Path:
    """Return the heartbeat file of a database. Resolves links to the database."""
    there = database.resolve()
    return there.with_name(f"{there.name}-heartbeat")


async def beat(database: Path, look: Callable[[], str | None] = lambda: None) -> None:
    """Write the file until cancelled, then remove it, so that a stopped bot does not look alive.

    `look` is called in a thread each time. It returns why the bot accepts no requests, or None.
    """
    file = file_of(database)
    try:
        while True:
            await asyncio.to_thread(_write, file, look)
            await asyncio.sleep(EVERY_S)
    finally:
        file.unlink(missing_ok=True)


def health(database: Path) -> str | None:
    """Return what is wrong with the bot of a database; None if it is healthy."""
    sign = _read(file_of(database))
    if sign is None or sign.boot != _boot() or not 0 <= time.monotonic() - sign.at < LATE_S:
        return "no heartbeat"
    if is_owned(database) is False:  # it was killed before it could remove the file
        return "no heartbeat"
    return sign.trouble


def is_alive(database: Path) -> bool:
    """Return whether a running bot wrote the file recently, healthy or not."""
    return health(database) != "no heartbeat"


def _write(file: Path, look: Callable[[], str | None]) -> None:
    sign = Heartbeat(at=time.monotonic(), boot=_boot(), trouble=look())
    partial = file.with_name(f"{file.name}.partial")
    try:
        with open(partial, "w", encoding="utf-8", opener=_private) as opened:
            json.dump(asdict(sign), opened)
        partial.replace(file)
    except OSError as error:  # usually a full disk, which is no reason to stop
        log.warning("cannot write the heartbeat: %s", error)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _read(file: Path) -> Heartbeat | None:
    try:
        return Heartbeat(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # missing, or from another version
        return None


def _boot() -> str:
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return ""  # without boot ids, only the monotonic clock counts
