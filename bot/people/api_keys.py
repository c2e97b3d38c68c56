"""API keys: a key is a person, wherever they use it. Stored as digests; a key is shown once."""

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from bot.people import sql
from bot.people.names import IdForm, NameForms
from queueing.store.sql.database import Connection, Database

USED_EVERY_S = 60.0  # a key's last use is no more exact than that: each call would write otherwise


PREFIX = "ush_"
SERVICE = "service:"
"""Begins the ids of services, which are people with limits of their own."""
_BYTES = 32
_FORM = re.compile(r"ush_[A-Za-z0-9_-]{43}", re.ASCII)
MOST_KEYS = 20  # of one person
LOCAL = "api:local"
"""The person of calls without a key, where none is needed."""
NAMING: Mapping[str, NameForms] = {
    "service": NameForms(
        person=IdForm(
            pattern=r"service:[a-z0-9][a-z0-9-]{0,39}(/[A-Za-z0-9@._-]{1,64})?",
            example="service:n8n",
        )
    ),
    "api": NameForms(person=IdForm(pattern=LOCAL, example=LOCAL)),
}
"""How people of the API are named; those of a service after the service."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiKey:
    """A key as it is listed; only its owner knows the secret.

    `user` is the person it stands for, `user_name` how they are shown. With `people`, it stands for
    a service whose callers name the people behind them. `style` is the client it was made for.
    Moments are UNIX seconds; `used_at` is None until its first use, `expires_at` for a key that
    works until it is revoked.
    """

    id: int
    user: str
    user_name: str
    name: str
    created_at: float
    used_at: float | None = None
    people: bool = False
    style: str = ""
    expires_at: float | None = None

    def is_expired(self, now: float) -> bool:
        """Whether the key has stopped working by itself."""
        return self.expires_at is not None and now >= self.expires_at

    @property
    def is_service(self) -> bool:
        """Whether the key was made for a service and not for the person who made it."""
        return self.user.startswith(SERVICE)


class TooManyKeys(Exception):
    """The person has as many keys as they may."""


class ApiKeys:
    """Keeps keys. Every change is durable when it returns; each call raises `StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def new(
        self,
        user: str,
        user_name: str,
        *,
        name: str,
        now: float,
        people: bool = False,
        style: str = "",
        expires_at: float | None = None,
    ) -> tuple[ApiKey, str]:
        """Make a key and return it with its secret, which exists nowhere else.

        The person's expired keys are forgotten. Raises `TooManyKeys`.
        """
        secret = new_secret()
        service = int(user.startswith(SERVICE))
        made = (user, user_name, name, digest(secret), now)
        values = (*made, service, int(people), style, expires_at)

        def change(connection: Connection) -> ApiKey:
            connection.execute(connection.statements.turn, (sql.ADDING_KEYS,))
            connection.execute(sql.DROP_EXPIRED_KEYS, (user, now))
            if len(connection.execute(sql.KEYS_OF, (user,)).fetchall()) >= MOST_KEYS:
                raise TooManyKeys
            connection.execute(sql.ADD_KEY, values)
            row = connection.execute(sql.KEY_BY_DIGEST, (digest(secret),)).fetchone()
            return _key(row)

        return await self._database.write(change), secret

    async def by_secret(self, secret: str) -> ApiKey | None:
        """Return the key of a secret, also an expired one; None where it is not known (any more)."""
        wanted = digest(secret)

        def query(connection: Connection) -> ApiKey | None:
            row = connection.execute(sql.KEY_BY_DIGEST, (wanted,)).fetchone()
            return None if row is None else _key(row)

        return await self._database.read(query)

    async def used(self, key: ApiKey, now: float) -> None:
        """Note that a key was used, at most once a minute. Idempotent."""
        if key.used_at is not None and now - key.used_at < USED_EVERY_S:
            return
        await self._database.write(
            lambda connection: connection.execute(sql.NOTE_KEY_USED, (now, key.id, now))
        )

    async def listed(self, user: str) -> list[ApiKey]:
        """Return a person's keys, oldest first."""

        def query(connection: Connection) -> list[ApiKey]:
            return [_key(row) for row in connection.execute(sql.KEYS_OF, (user,))]

        return await self._database.read(query)

    async def services(self) -> list[ApiKey]:
        """Return the keys of all services, oldest first."""

        def query(connection: Connection) -> list[ApiKey]:
            return [_key(row) for row in connection.execute(sql.SERVICE_KEYS)]

        return await self._database.read(query)

    async def revoke(self, user: str, number: int) -> bool:
        """End a person's key at once; return False where they have none of that number."""

        def change(connection: Connection) -> bool:
            return connection.execute(sql.REVOKE_KEY, (number, user)).rowcount > 0

        return await self._database.write(change)

    async def revoke_all(self, user: str) -> int:
        """End all of a person's keys and return how many there were. Idempotent."""

        def change(connection: Connection) -> int:
            return connection.execute(sql.REVOKE_KEYS_OF, (user,)).rowcount

        return await self._database.write(change)


def service_of(user: str) -> str | None:
    """Return the service that a person is behind, None if there is none."""
    service, _, person = user.partition("/")
    return service if person and service.startswith(SERVICE) else None


def new_secret() -> str:
    """Return a new key: 32 random bytes."""
    return PREFIX + secrets.token_urlsafe(_BYTES)


def looks_like_key(text: str) -> bool:
    """Return whether a text has the form of a key; nothing else is looked up."""
    return _FORM.fullmatch(text) is not None


def digest(secret: str) -> bytes:
    """Return what is stored of a key.

    Without salt or a slow hash: 32 random bytes are in no dictionary, and each call asks.
    """
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()


def _key(row: tuple[object, ...]) -> ApiKey:
    number, user, user_name, name, created_at, used_at, people, style, expires_at = row
    return ApiKey(
        id=int(str(number)),
        user=str(user),
        user_name=str(user_name),
        name=str(name),
        created_at=float(str(created_at)),
        used_at=None if used_at is None else float(str(used_at)),
        people=bool(people),
        style=str(style),
        expires_at=None if expires_at is None else float(str(expires_at)),
    )
