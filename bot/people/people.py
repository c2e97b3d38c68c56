"""People's own settings and admins' settings for them, stored in the jobs' database."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any

from bot.people import sql
from bot.people.api_keys import service_of
from queueing.store.sql.database import Connection, Database

HOUR_S = 3600.0
NO_LIMIT = -1
"""Value of `Person.per_hour` and `Person.gpu_per_day` for no limit, whatever the role's limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Person:
    """One person's settings. None means not set. Times are UNIX seconds.

    The fields `image_model` to `style` and `edit_model` to `transcribe_model` are the person's
    defaults. `ask_model_at` is when `ask_model` was set. If `aloud` is 1, answers to the person's
    recordings are also read aloud. `lane`, `max_open`, `per_hour` and `gpu_per_day` (in seconds)
    override the role's. `banned_until` is None for a permanent ban.
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
        """Return whether the person is banned at a time."""
        return self.banned_at is not None and (self.banned_until is None or now < self.banned_until)


_FIELDS = tuple(field.name for field in fields(Person))  # in the order of `sql.PERSON_COLUMNS`

LanguageTold = Callable[[str, str | None], None]
"""Called when a person chooses a language; None means the language of the chat."""


class People:
    """Reads and writes people's settings. Writes are durable on return."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._listeners: set[LanguageTold] = set()

    async def get(self, user: str) -> Person:
        """Return a person; one without any settings if none are stored.

        The ban of a service also applies to its people, unless their own ban lasts longer.
        """
        return await self._database.read(lambda connection: _with_service_ban(connection, user))

    async def known(self, users: Sequence[str]) -> Sequence[Person]:
        """Return these people, then all others whom an admin has banned or given own limits."""

        def query(connection: Connection) -> Sequence[Person]:
            found = {user: _with_service_ban(connection, user) for user in users}
            for row in connection.execute(sql.PEOPLE_SET_BY_ADMINS).fetchall():
                found.setdefault(row[0], _person(row))
            return list(found.values())

        return await self._database.read(query)

    async def change(self, user: str, **changes: str | float | None) -> Person:
        """Change some of a person's fields and return the updated person."""
        if not changes:
            return await self._database.read(lambda connection: _read(connection, user))
        statement, values = sql.put_settings(tuple(changes)), (user, *changes.values())
        person = await self._database.write(
            lambda connection: _person(connection.execute(statement, values).fetchone())
        )
        if "language" in changes:
            self._notify(user, person.language)
        return person

    @contextmanager
    def telling(self, listener: LanguageTold) -> Iterator[None]:
        """Call a listener after each durable change of a language, inside the block."""
        self._listeners.add(listener)
        try:
            yield
        finally:
            self._listeners.discard(listener)

    def _notify(self, user: str, language: str | None) -> None:
        for listener in tuple(self._listeners):
            listener(user, language)

    async def forget(self, user: str) -> None:
        """Delete a person's own settings. Those set by admins stay."""

        def change(connection: Connection) -> None:
            connection.execute(sql.FORGET_CHOICES, (user,))
            connection.execute(sql.DELETE_EMPTY_PERSON, (user,))
            connection.execute(sql.DELETE_UPLOADS_OF, (user,))
            connection.execute(sql.DELETE_RIGHTS_OF, (user,))

        await self._database.write(change)
        self._notify(user, None)


def _read(connection: Connection, user: str) -> Person:
    row = connection.execute(sql.PERSON, (user,)).fetchone()
    return Person(user=user) if row is None else _person(row)


def _person(row: Sequence[Any]) -> Person:
    return Person(**dict(zip(_FIELDS, row, strict=True)))


def _with_service_ban(connection: Connection, user: str) -> Person:
    """Return a person with the ban of their service applied, because its key can name anyone."""
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
