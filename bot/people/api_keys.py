"""API keys. A key identifies a person. Only its digest is stored, and it is shown once."""

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from bot.people import sql
from bot.people.names import IdForm, NameForms
from queueing.store.sql.database import Connection, Database

USED_EVERY_S = 60.0  # the precision of `used_at`, so that not every call writes


PLATFORM = "api"
PREFIX = "ush_"
SERVICE = "service:"
"""Prefix of the ids of services, which are people with their own limits."""
_BYTES = 32
_FORM = re.compile(r"ush_[A-Za-z0-9_-]{43}", re.ASCII)
MOST_KEYS = 20  # per person
LOCAL = "api:local"
"""The person of calls without a key, if keys are not required."""
KEY = IdForm(pattern=r"api:[^\n]{0,40}@[a-z]+:[A-Za-z0-9-]{1,64}", example="api:laptop@telegram:42")
"""The form of a key's name: its label and its person, who chose the label."""
NAMING: Mapping[str, NameForms] = {
    "service": NameForms(
        person=IdForm(
            pattern=r"service:[a-z0-9][a-z0-9-]{0,39}(/[A-Za-z0-9@._-]{1,64})?",
            example="service:n8n",
        )
    ),
    PLATFORM: NameForms(person=IdForm(pattern=LOCAL, example=LOCAL), rights=(KEY,), place=KEY),
}
"""Forms of the names of API users. The people of a service are named after the service."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiKey:
    """A key without its secret, which only its owner knows.

    `user` is the person that it identifies, and `user_name` the display name. With `people`, it
    identifies a service whose calls name the people that they are for. `style` is the client that
    the key was created for. Times are UNIX seconds. `used_at` is None until the first use.
    `expires_at` is None for a key that is valid until it is revoked.
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
        """Return whether the key has expired."""
        return self.expires_at is not None and now >= self.expires_at

    @property
    def room(self) -> str:
        """The key's name in the operator's settings, where it is a room and a right."""
        return f"{PLATFORM}:{self.name}@{self.user}"

    @property
    def is_service(self) -> bool:
        """Whether the key belongs to a service rather than to the person who created it."""
        return self.user.startswith(SERVICE)


class TooManyKeys(Exception):
    """Raised when a person has the maximum number of keys."""


class ApiKeys:
    """Stores keys. Changes are durable on return. Every method raises `StoreError`."""

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
        """Create a key and return it with its secret, which is not stored.

        Deletes the person's expired keys. Raises `TooManyKeys`.
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
        """Return the key with this secret, even if expired. Returns None if unknown or revoked."""
        row = await self._database.row(sql.KEY_BY_DIGEST, (digest(secret),))
        return None if row is None else _key(row)

    async def used(self, key: ApiKey, now: float) -> None:
        """Record the use of a key, at most once a minute. Idempotent."""
        if key.used_at is not None and now - key.used_at < USED_EVERY_S:
            return
        await self._database.execute(sql.NOTE_KEY_USED, (now, key.id, now))

    async def listed(self, user: str) -> list[ApiKey]:
        """Return a person's keys, oldest first."""
        return [_key(row) for row in await self._database.rows(sql.KEYS_OF, (user,))]

    async def services(self) -> list[ApiKey]:
        """Return the keys of all services, oldest first."""
        return [_key(row) for row in await self._database.rows(sql.SERVICE_KEYS)]

    async def revoke(self, user: str, number: int) -> bool:
        """Revoke a person's key at once. Returns False if there is no key with this number."""
        return await self._database.write(
            lambda connection: connection.execute(sql.REVOKE_KEY, (number, user)).rowcount > 0
        )

    async def revoke_all(self, user: str) -> int:
        """Revoke all of a person's keys and return their number. Idempotent."""
        return await self._database.write(
            lambda connection: connection.execute(sql.REVOKE_KEYS_OF, (user,)).rowcount
        )


def service_of(user: str) -> str | None:
    """Return the service that a person belongs to, or None."""
    service, _, person = user.partition("/")
    return service if person and service.startswith(SERVICE) else None


def new_secret() -> str:
    """Generate a new key from 32 random bytes."""
    return PREFIX + secrets.token_urlsafe(_BYTES)


def looks_like_key(text: str) -> bool:
    """Return whether a text looks like a key. Only such texts are looked up."""
    return _FORM.fullmatch(text) is not None


def digest(secret: str) -> bytes:
    """Return the stored form of a key.

    Salt and a slow hash are unnecessary: 32 random bytes are in no dictionary, and every call
    computes this.
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
