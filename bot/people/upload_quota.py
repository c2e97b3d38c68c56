"""Limits the bytes of files that each person sends within an hour, to protect the disk.

Files in requests are counted in the database, across processes. Files sent to a page are kept and
counted in the memory of the process that serves the page. A restart resets that count.
"""

import logging
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from bot.core.live_settings import LiveSettings
from bot.people import sql
from bot.people.people import HOUR_S
from queueing.core.errors import StoreError
from queueing.core.ports import Clock
from queueing.store.sql.database import Connection, Database

log = logging.getLogger(__name__)

_MB = 1024 * 1024


class HourFull(Exception):
    """Raised when a person has reached the hourly limit.

    `free_at` is when this upload would fit.
    """

    def __init__(self, free_at: float) -> None:
        super().__init__(free_at)
        self.free_at = free_at


@dataclass(eq=False, repr=False)
class ReceivedBytes:
    """Counts bytes of requests in the database, at most `files_per_hour_mb` per person."""

    database: Database
    live: LiveSettings
    clock: Clock

    async def take(self, user: str, size: int) -> int | None:
        """Count bytes before they are stored. Returns the entry to pass to `give_back`.

        Concurrent calls never exceed the limit together. Raises `HourFull` and `StoreError`.
        """
        most_mb, now = self.live.files_per_hour_mb, self.clock.now()
        if most_mb is None or not size:
            return None

        def change(connection: Connection) -> int:
            connection.execute(connection.statements.turn, (sql.RECEIVING,))
            connection.execute(sql.EXPIRE_RECEIVED, (now - HOUR_S,))
            sent = connection.execute(sql.RECEIVED_OF, (user,)).fetchall()
            if (at := free_at(sent, size, most_mb * _MB)) is not None:
                raise HourFull(at)
            return int(connection.execute(sql.ADD_RECEIVED, (user, now, size)).fetchone()[0])

        return await self.database.write(change)

    async def give_back(self, entry: int | None) -> None:
        """Take back the count for bytes that were not stored.

        If that fails, the bytes count until their hour is over.
        """
        if entry is None:
            return
        try:
            await self.database.execute(sql.DROP_RECEIVED, (entry,))
        except StoreError as error:
            log.warning("files that were not stored count against the hourly limit: %s", error)


def free_at(sent: Sequence[tuple[float, int]], size: int, most: int) -> float | None:
    """Return when `size` more bytes fit after those in `sent` (oldest first); None if they fit now.

    A file larger than the whole limit is accepted in an hour without other files, because other
    limits apply to single files.
    """
    left, free = sum(each for _, each in sent), None
    for at, each in sent:
        if left + size <= most:
            break
        left, free = left - each, at + HOUR_S
    return free


class Received:
    """Counts bytes sent to a page in memory, at most `files_per_hour_mb` per person."""

    def __init__(self, live: LiveSettings, clock: Clock) -> None:
        self._live = live
        self._clock = clock
        self._sent: defaultdict[str, deque[tuple[float, int]]] = defaultdict(deque)

    def fits_at(self, user: str, size: int) -> float | None:
        """Return when `size` more bytes of a person fit; None if they fit now."""
        most_mb = self._live.files_per_hour_mb
        if most_mb is None or not size:
            return None
        return free_at(self._of(user), size, most_mb * _MB)

    def note(self, user: str, size: int) -> None:
        """Count bytes that were stored."""
        if size and self._live.files_per_hour_mb is not None:
            self._of(user).append((self._clock.now(), size))

    def _of(self, user: str) -> deque[tuple[float, int]]:
        sent = self._sent[user]
        while sent and sent[0][0] <= self._clock.now() - HOUR_S:
            sent.popleft()
        return sent
