"""What is known of people: their own and admins' settings for them, in the jobs' database."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any

from bot.people import sql
from bot.people.api_keys import service_of
from queueing.store.sql.database import Connection, Database

HOUR_S = 3600.0
NO_LIMIT = -1
"""In `Person.per_hour` and `Person.gpu_per_day`: without a limit, regardless of the role."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Person:
    """One person; None for what is not set. Moments are UNIX seconds.

    `image_model` to `style` and `edit_model` to `transcribe_model` are their own defaults,
    `ask_model_at` is when `ask_model` was set; with `aloud` 1, answers to their recordings are read
    aloud as well.
    `lane`, `max_open`, `per_hour` and `gpu_per_day` (seconds) override their role's.
    `banned_until` is None for a ban without end.
    """

    user: str
    language: str | None = None
    image_model: str | None = None
    ask_model: str | None = None
    size: str | None = None
    style: str | None = None
    lane: str | None = None
    max_open: int | None = None
    per_hour: int | None = None
    banned_at: float | None = None
    banned_until: float | None = None
    ban_reason: str | None = None
    ask_model_at: float | None = None
    edit_model: str | None = None
    video_model: str | None = None
    music_model: str | None = None
    speak_model: str | None = None
    transcribe_model: str | None = None
    aloud: int | None = None
    gpu_per_day: int | None = None

    def is_banned(self, now: float) -> bool:
        """Return whether a ban holds at that moment."""
        return self.banned_at is not None and (self.banned_until is None or now < self.banned_until)


_FIELDS = tuple(field.name for field in fields(Person))  # in the order of `sql.PERSON_COLUMNS`

LanguageTold = Callable[[str, str | None], None]
"""Called when a person chooses a language, or (None) leaves it to their chats."""


class People:
    """Reads and writes what is known of people. Every write is durable when it returns."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._hearers: set[LanguageTold] = set()

    async def get(self, user: str) -> Person:
        """Return a person; one without any settings when nothing is known.

        A person behind a service is banned as long as the service is, or longer by their own ban.
        """
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
