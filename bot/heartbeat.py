"""A sign of life other processes can see: a file beside the database, touched while the bot runs.

A container's health check reads it; a hung event loop stops touching it.
"""

import asyncio
import time
from pathlib import Path

EVERY_S = 10.0
LATE_S = 60.0


def file_of(database: Path) -> Path:
    """Return where the sign of life of a database's owner is."""
    return database.with_name(f"{database.name}-heartbeat")


async def beat(database: Path) -> None:
    """Touch the file until cancelled; it is removed then, so that a stopped bot is not alive."""
    file = file_of(database)
    try:
        while True:
            await asyncio.to_thread(file.touch)
            await asyncio.sleep(EVERY_S)
    finally:
        file.unlink(missing_ok=True)


def is_alive(database: Path) -> bool:
    """Return whether a running bot has touched the file lately."""
    try:
        return time.time() - file_of(database).stat().st_mtime < LATE_S
    except OSError:
        return False
