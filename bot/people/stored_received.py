"""`ReceivedBytes` in the bot's database, for all processes that accept requests together."""

import logging
from collections.abc import Callable

from bot.people import sql
from bot.people.received import HourFull, free_at
from bot.people.users import HOUR_S
from queueing.core.errors import StoreError
from queueing.core.ports import Clock
from queueing.store import Connection, Database

log = logging.getLogger(__name__)

_MB = 1024 * 1024


class StoredReceived:
    """Implements `bot.people.received.ReceivedBytes`; `most_mb()` an hour each, None for no limit."""

    def __init__(self, database: Database, most_mb: Callable[[], int | None], clock: Clock) -> None:
        self._database = database
        self._most_mb = most_mb
        self._clock = clock

    async def take(self, user: str, size: int) -> int | None:
        """Count bytes that are about to be stored. Raises `HourFull`, and `StoreError`."""
        most_mb, now = self._most_mb(), self._clock.now()
        if most_mb is None or not size:
            return None

        def change(connection: Connection) -> int:
            connection.execute(connection.statements.turn, (sql.RECEIVING,))
            connection.execute(sql.EXPIRE_RECEIVED, (now - HOUR_S,))
            sent = connection.execute(sql.RECEIVED_OF, (user,)).fetchall()
            if (at := free_at(sent, size, most_mb * _MB)) is not None:
                raise HourFull(at)
            return int(connection.execute(sql.ADD_RECEIVED, (user, now, size)).fetchone()[0])

        return await self._database.write(change)

    async def give_back(self, entry: int | None) -> None:
        """Stop counting bytes that were not stored; a failure counts them for their hour."""
        if entry is None:
            return
        try:
            await self._database.write(
                lambda connection: connection.execute(sql.DROP_RECEIVED, (entry,))
            )
        except StoreError as error:
            log.warning("files that were not stored count for an hour: %s", error)
