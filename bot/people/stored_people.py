"""`People`: what is known of people, in the same database as the jobs, by the same writer."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import fields, replace
from weakref import WeakValueDictionary

from bot.people import sql
from bot.people.users import HOUR_S, LanguageTold, Person
from queueing.store import Connection, Database

_FIELDS = tuple(field.name for field in fields(Person))  # in the order of `sql.PERSON_COLUMNS`


class StoredPeople:
    """`People` in the database of the jobs."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # Weak: a lock is kept as long as somebody holds it or waits for it.
        self._hearers: set[LanguageTold] = set()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, user: str) -> AsyncIterator[None]:
        """Let a person's calls through one by one: what is counted must be spent before the next."""
        lock = self._turns.get(user)
        if lock is None:
            lock = self._turns[user] = asyncio.Lock()
        async with lock:
            yield

    async def get(self, user: str) -> Person:
        """Return a person; one without any settings when nothing is known."""
        return await self._database.read(lambda connection: _read(connection, user))

    async def change(self, user: str, **changes: str | float | None) -> Person:
        """Set some of a person's fields and return the person as they are now."""

        def change(connection: Connection) -> Person:
            person = replace(_read(connection, user), **changes)  # type: ignore[arg-type]
            connection.execute(sql.PUT_PERSON, [getattr(person, name) for name in _FIELDS])
            return person

        person = await self._database.write(change)
        if "language" in changes:
            self._tell(user, person.language)
        return person

    @contextmanager
    def telling(self, hearer: LanguageTold) -> Iterator[None]:
        """Tell somebody of each change of a language, once it is durable, until the block ends."""
        self._hearers.add(hearer)
        try:
            yield
        finally:
            self._hearers.discard(hearer)

    def _tell(self, user: str, language: str | None) -> None:
        for hearer in tuple(self._hearers):
            hearer(user, language)

    async def spend(self, user: str, job_id: int, now: float) -> None:
        """Count an accepted job against its owner's hour. Idempotent; forgets older hours."""

        def change(connection: Connection) -> None:
            connection.execute(sql.SPEND, (job_id, user, now))
            connection.execute(sql.DELETE_SPENT_BEFORE, (now - HOUR_S,))

        await self._database.write(change)

    async def give_back(self, job_id: int) -> None:
        """Count a job no longer: it failed. Idempotent."""
        await self._database.write(lambda connection: connection.execute(sql.GIVE_BACK, (job_id,)))

    async def spent(self, user: str, now: float) -> tuple[float, ...]:
        """Return when the jobs of a person's last hour were accepted, oldest first."""

        def query(connection: Connection) -> tuple[float, ...]:
            rows = connection.execute(sql.SPENT_BETWEEN, (user, now - HOUR_S, now))
            return tuple(float(row[0]) for row in rows)

        return await self._database.read(query)

    async def forget(self, user: str) -> None:
        """Delete a person's own settings; what admins set for them stays.

        So do the numbers of this hour's jobs, until the hour is over: forgetting is no way around
        a quota.
        """

        def change(connection: Connection) -> None:
            person = _read(connection, user)
            kept = Person(
                user=user,
                lane=person.lane,
                max_open=person.max_open,
                per_hour=person.per_hour,
                banned_at=person.banned_at,
                banned_until=person.banned_until,
                ban_reason=person.ban_reason,
            )
            connection.execute(sql.DELETE_PERSON, (user,))
            if kept != Person(user=user):
                connection.execute(sql.PUT_PERSON, [getattr(kept, name) for name in _FIELDS])

        await self._database.write(change)
        self._tell(user, None)


def _read(connection: Connection, user: str) -> Person:
    row = connection.execute(sql.PERSON, (user,)).fetchone()
    return Person(user=user) if row is None else Person(**dict(zip(_FIELDS, row, strict=True)))
