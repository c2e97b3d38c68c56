"""By whom the bot is used, in the bot's database: how many jobs each person had, and is called."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from bot.monitoring import sql
from queueing.core.jobs import JobState
from queueing.store.sql.database import Connection, Database


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
    """Reads; the jobs are others' to write.

    `name_in(reply_to)` returns how the person of a job was shown, from where the job came from;
    "" where that does not say.
    """

    def __init__(self, database: Database, name_in: Callable[[str], str]) -> None:
        self._database = database
        self._name_in = name_in

    async def since(self, moment: float) -> Usage:
        """Return how many jobs ended since a moment, and are open now. Raises `StoreError`."""
        return await self._database.read(lambda connection: _usage(connection, moment))

    async def names(self, users: Collection[str]) -> Mapping[str, str]:
        """Return how these people are shown, as far as it is known. Raises `StoreError`.

        People of a chat are called as in their newest job that is kept: the chat may have renamed
        them since.
        """

        def query(connection: Connection) -> Mapping[str, str]:
            told = {user: self._told(connection, user) for user in users}
            told |= {user: name for user, name in connection.execute(sql.KEY_NAMES) if name}
            told |= {f"web:{id_}": name for id_, name in connection.execute(sql.WEB_NAMES)}
            return {user: told[user] for user in users if told[user]}

        return await self._database.read(query)

    def _told(self, connection: Connection, user: str) -> str:
        rows = connection.execute(sql.NEWEST_ORIGIN, (user,)).fetchall()
        return self._name_in(rows[0][0]) if rows else ""


def _usage(connection: Connection, since: float) -> Usage:
    usage = Usage()
    for statement in (sql.ENDED_BY_OWNER, sql.UNDELIVERED_BY_OWNER):
        for owner, jobs in connection.execute(statement, (since,)):
            usage.jobs[owner] += jobs
    for owner, state, count in connection.execute(sql.OPEN_BY_OWNER):
        counts = usage.running if state == JobState.PROCESSING else usage.waiting
        counts[owner] += count
    return usage
