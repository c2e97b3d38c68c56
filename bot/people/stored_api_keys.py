"""API keys in the bot's database. Nothing of a key but its digest is ever written."""

from bot.people import sql
from bot.people.api_keys import MOST_KEYS, SERVICE, ApiKey, TooManyKeys, digest, new_secret
from queueing.store import Connection, Database

USED_EVERY_S = 60.0  # a key's last use is no more exact than that: each call would write otherwise


class StoredApiKeys:
    """Implements `bot.people.api_keys.ApiKeys`."""

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
        """Make a key and return it with its secret. Raises `TooManyKeys`.

        The person's expired keys are forgotten.
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
        """Return the key of a secret; None where it is not known (any more)."""
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
