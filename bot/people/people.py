"""What is stored about people: their settings, those made by admins, and their reported rights.

A chat reports a person's rights in a place with each call from there, and their API keys carry them.
The newest report about each place counts, for thirty days. While the keys are in use, the chat is
asked again.
"""

import json
from collections import OrderedDict
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


LASTS_S = 30 * 86_400.0
AGAIN_S = 3_600.0  # how long an unchanged report is not stored again
FRESH_S = 300.0  # how long a report is not asked for again
_KNOWN_MOST = 10_000
_ASKED_MOST = 100  # reports at a time

_Report = tuple[frozenset[str], float]


@dataclass(frozen=True, slots=True)
class StaleReport:
    """A report about a person whose keys are in use, to be asked for again."""

    user: str
    place: str
    at: float


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

    async def stale(self, now: float) -> list[StaleReport]:
        """Return the oldest reports that are no longer fresh, of people whose keys are in use."""
        values = (now - LASTS_S, now - FRESH_S, now - FRESH_S, _ASKED_MOST)
        rows = await self._database.rows(sql.STALE_RIGHTS, values)
        return [StaleReport(str(user), str(place), float(str(at))) for user, place, at in rows]

    async def renew(self, old: StaleReport, rights: frozenset[str], now: float) -> None:
        """Store a person's rights of now, unless a call has reported them since."""
        which = (old.user, old.place, old.at)
        if rights:
            values = (json.dumps(sorted(rights)), now, *which)
            await self._database.execute(sql.RENEW_RIGHTS, values)
        else:
            await self._database.execute(sql.DROP_STALE_RIGHTS, which)
        self._known.pop((old.user, old.place), None)

    async def of(self, user: str, now: float) -> frozenset[str]:
        """Return the rights that a person has in any place."""
        rows = await self._database.rows(sql.RIGHTS_OF, (user, now - LASTS_S))
        return frozenset(str(right) for (written,) in rows for right in json.loads(str(written)))

    def forget(self, user: str) -> None:
        """Store a person's next report even if it is unchanged, because theirs were deleted."""
        for key in [each for each in self._known if each[0] == user]:
            del self._known[key]
