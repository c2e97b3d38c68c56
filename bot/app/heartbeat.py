"""A heartbeat other processes can see: a file beside the database, written while the bot runs.

A container's health check reads it; a hung event loop stops writing it. Moments are those of the
machine's monotonic clock, which no one can set, and count since the boot that is named with them.
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
    """When the bot last wrote, and what keeps it from accepting requests, if anything."""

    at: float
    boot: str
    trouble: str | None = None


def file_of(database: Path) -> Path:
    """Return the heartbeat file of a database's owner, whichever link names the database."""
    there = database.resolve()
    return there.with_name(f"{there.name}-heartbeat")


async def beat(database: Path, look: Callable[[], str | None] = lambda: None) -> None:
    """Write the file until cancelled; it is then removed, so that a stopped bot is not alive.

    `look` is called each time, in a thread, and returns what keeps the bot from accepting requests.
    """
    file = file_of(database)
    try:
        while True:
            await asyncio.to_thread(_write, file, look)
            await asyncio.sleep(EVERY_S)
    finally:
        file.unlink(missing_ok=True)


def health(database: Path) -> str | None:
    """Return what is wrong with the bot of a database, None if it is alive and well."""
    sign = _read(file_of(database))
    if sign is None or sign.boot != _boot() or not 0 <= time.monotonic() - sign.at < LATE_S:
        return "no sign of life"
    if is_owned(database) is False:  # it ended before it could remove the file
        return "no sign of life"
    return sign.trouble


def is_alive(database: Path) -> bool:
    """Return whether a running bot has written the file recently, healthy or not."""
    return health(database) != "no sign of life"


def _write(file: Path, look: Callable[[], str | None]) -> None:
    sign = Heartbeat(at=time.monotonic(), boot=_boot(), trouble=look())
    partial = file.with_name(f"{file.name}.partial")
    try:
        with open(partial, "w", encoding="utf-8", opener=_private) as opened:
            json.dump(asdict(sign), opened)
        partial.replace(file)
    except OSError as error:  # usually a full disk: no reason to stop
        log.warning("the heartbeat could not be written: %s", error)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _read(file: Path) -> Heartbeat | None:
    try:
        return Heartbeat(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # missing, or of another version
        return None


def _boot() -> str:
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return ""  # if the system does not name its boots, the monotonic clock alone counts
