"""`People`: what is known of people, in the jobs' database, through the same writer."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

from bot.people import sql
from bot.people.api_keys import service_of
from bot.people.users import LanguageTold, Person
from queueing.store import Connection, Database

_FIELDS = tuple(field.name for field in fields(Person))  # in the order of `sql.PERSON_COLUMNS`


class StoredPeople:
    """`People` in the jobs' database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._hearers: set[LanguageTold] = set()

    async def get(self, user: str) -> Person:
        """Return a person; one without any settings when nothing is known."""
        return await self._database.read(lambda connection: _held_to_service(connection, user))

    async def known(self, users: Sequence[str]) -> Sequence[Person]:
        """Return these people, then those whom an admin has banned or given other limits."""

        def query(connection: Connection) -> Sequence[Person]:
            found = {user: _held_to_service(connection, user) for user in users}
            for row in connection.execute(sql.PEOPLE_SET_BY_ADMINS).fetchall():
                found.setdefault(row[0], _person(row))
            return list(found.values())

        return await self._database.read(query)

    async def change(self, user: str, **changes: str | float | None) -> Person:
        """Set some of a person's fields and return the person as they are now."""
        if not changes:
            return await self._database.read(lambda connection: _read(connection, user))
        statement, values = sql.put_settings(tuple(changes)), (user, *changes.values())
        person = await self._database.write(
            lambda connection: _person(connection.execute(statement, values).fetchone())
        )
        if "language" in changes:
            self._tell(user, person.language)
        return person

    @contextmanager
    def telling(self, hearer: LanguageTold) -> Iterator[None]:
        """Notify a listener of each change of a language, once it is durable, until the block ends."""
        self._hearers.add(hearer)
        try:
            yield
        finally:
            self._hearers.discard(hearer)

    def _tell(self, user: str, language: str | None) -> None:
        for hearer in tuple(self._hearers):
            hearer(user, language)

    async def forget(self, user: str) -> None:
        """Delete a person's own settings; what admins set for them stays."""

        def change(connection: Connection) -> None:
            connection.execute(sql.FORGET_CHOICES, (user,))
            connection.execute(sql.DELETE_EMPTY_PERSON, (user,))
            connection.execute(sql.DELETE_UPLOADS_OF, (user,))

        await self._database.write(change)
        self._tell(user, None)


def _read(connection: Connection, user: str) -> Person:
    row = connection.execute(sql.PERSON, (user,)).fetchone()
    return Person(user=user) if row is None else _person(row)


def _person(row: Sequence[Any]) -> Person:
    return Person(**dict(zip(_FIELDS, row, strict=True)))


def _held_to_service(connection: Connection, user: str) -> Person:
    """Return a person, banned with the service they are behind: its key could name anyone."""
    person = _read(connection, user)
    if (service := service_of(user)) is None:
        return person
    longest = max(person, _read(connection, service), key=_banned_until)
    bans = {name: getattr(longest, name) for name in ("banned_at", "banned_until", "ban_reason")}
    return replace(person, **bans)


def _banned_until(person: Person) -> float:
    if person.banned_at is None:
        return float("-inf")
    return float("inf") if person.banned_until is None else person.banned_until
