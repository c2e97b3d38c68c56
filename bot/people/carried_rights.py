"""The rights that chats reported about people, which their API keys carry.

A chat reports a person's rights in a place with each call from there. The newest report about each
place counts, for thirty days.
"""

import json
from collections import OrderedDict

from bot.people import sql
from queueing.store.sql.database import Connection, Database

LASTS_S = 30 * 86_400.0
AGAIN_S = 3_600.0  # how long an unchanged report is not stored again
_KNOWN_MOST = 10_000

_Report = tuple[frozenset[str], float]


class CarriedRights:
    """Stores the rights of people by place. Every method raises `StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: OrderedDict[tuple[str, str], _Report] = OrderedDict()

    async def note(self, user: str, place: str, rights: frozenset[str], now: float) -> None:
        """Store a person's rights in a place, such as "discord:41771983423143937"."""
        known, at = self._known.get((user, place), (frozenset(), float("-inf")))
        if known == rights and now - at < AGAIN_S:
            return
        if rights or await self.of(user, now):
            await self._store(user, place, rights, now)
        self._known[user, place] = rights, now
        self._known.move_to_end((user, place))
        if len(self._known) > _KNOWN_MOST:
            self._known.popitem(last=False)

    async def _store(self, user: str, place: str, rights: frozenset[str], now: float) -> None:
        def change(connection: Connection) -> None:
            connection.execute(sql.DROP_OLD_RIGHTS, (now - LASTS_S,))
            connection.execute(sql.DROP_RIGHTS, (user, place))
            if rights:
                written = json.dumps(sorted(rights))
                connection.execute(sql.ADD_RIGHTS, (user, place, written, now))

        await self._database.write(change)

    async def of(self, user: str, now: float) -> frozenset[str]:
        """Return the rights that a person has in any place."""
        rows = await self._database.rows(sql.RIGHTS_OF, (user, now - LASTS_S))
        return frozenset(str(right) for (written,) in rows for right in json.loads(str(written)))

    def forget(self, user: str) -> None:
        """Store a person's next report even if it is unchanged, because theirs were deleted."""
        for key in [each for each in self._known if each[0] == user]:
            del self._known[key]
