"""By whom the bot is used, in the bot's database: how many jobs each person had, and is called."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from bot.history import sql
from queueing.core.jobs import JobState
from queueing.store import Connection, Database


@dataclass(kw_only=True, slots=True)
class Usage:
    """How many jobs of people have ended since a moment, and are open; by user."""

    jobs: Counter[str] = field(default_factory=Counter)
    waiting: Counter[str] = field(default_factory=Counter)
    running: Counter[str] = field(default_factory=Counter)

    @property
    def users(self) -> set[str]:
        """Everyone it says something about."""
        return {*self.jobs, *self.waiting, *self.running}


class StoredUsage:
    """Reads; the jobs are others' to write."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def since(self, moment: float) -> Usage:
        """Return how many jobs ended since a moment, and are open now. Raises `StoreError`."""
        return await self._database.read(lambda connection: _usage(connection, moment))

    async def names(self) -> Mapping[str, str]:
        """Return how people are shown, by user, as far as it is known. Raises `StoreError`."""

        def query(connection: Connection) -> Mapping[str, str]:
            names = {user: name for user, name in connection.execute(sql.KEY_NAMES) if name}
            return names | {f"web:{id_}": name for id_, name in connection.execute(sql.WEB_NAMES)}

        return await self._database.read(query)


def _usage(connection: Connection, since: float) -> Usage:
    usage = Usage()
    for statement in (sql.ENDED_BY_OWNER, sql.UNDELIVERED_BY_OWNER):
        for owner, jobs in connection.execute(statement, (since,)):
            usage.jobs[owner] += jobs
    for owner, state, count in connection.execute(sql.OPEN_BY_OWNER):
        counts = usage.running if state == JobState.PROCESSING else usage.waiting
        counts[owner] += count
    return usage
