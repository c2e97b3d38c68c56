"""Files that programs upload for later jobs. They expire."""

import secrets
from dataclasses import dataclass
from typing import Any

from bot.people import sql
from queueing.core.requests import File
from queueing.store.sql.database import Connection, Database

MOST_FILES = 100  # per person
MOST_BYTES = 256 * 1024 * 1024  # per person
ALL_BYTES = 4 * 1024 * 1024 * 1024  # of all people together
KEPT_S = 24 * 3600.0
PREFIX = "file-"


@dataclass(frozen=True, kw_only=True, slots=True)
class Upload:
    """An uploaded file without its content. Times are UNIX seconds."""

    id: str
    user: str
    name: str
    mime: str
    size: int
    created_at: float
    expires_at: float


class NoRoom(Exception):
    """Raised if a person's files, or all files together, have reached their limit.

    `free_at` is when the next file expires, if any file does.
    """

    def __init__(self, free_at: float | None = None) -> None:
        super().__init__(free_at)
        self.free_at = free_at


class Uploads:
    """Stores uploaded files. Changes are durable on return. Every method raises `StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def new(self, user: str, file: File, now: float) -> Upload:
        """Store a person's file. Raises `NoRoom`."""
        upload = Upload(
            id=new_name(),
            user=user,
            name=file.name,
            mime=file.mime,
            size=len(file.data),
            created_at=now,
            expires_at=now + KEPT_S,
        )

        def change(connection: Connection) -> Upload:
            connection.execute(connection.statements.turn, (sql.ADDING_UPLOADS,))
            connection.execute(sql.EXPIRE_UPLOADS, (now,))
            _require_room(connection, upload)
            values = (upload.id, user, upload.name, upload.mime, upload.size)
            times = (upload.created_at, upload.expires_at)
            connection.insert_files(sql.ADD_UPLOAD, [(*values, *times, file.data)])
            return upload

        return await self._database.write(change)

    async def get(self, user: str, name: str, now: float) -> Upload | None:
        """Return a person's file by id, or None if it does not exist or has expired."""
        row = await self._database.row(sql.UPLOAD, (name, user, now))
        return None if row is None else _upload(row)

    async def file(self, user: str, name: str, now: float) -> File | None:
        """Return a person's file with its content, or None if it does not exist or has expired."""

        def query(connection: Connection) -> File | None:
            row = connection.execute(sql.UPLOAD, (name, user, now)).fetchone()
            data = connection.execute(sql.UPLOAD_DATA, (name, user, now)).fetchone()
            if row is None or data is None:
                return None
            upload = _upload(row)
            return File(name=upload.name, mime=upload.mime, data=bytes(data[0]))

        return await self._database.read(query)

    async def piece(self, name: str, start: int, length: int) -> bytes | None:
        """Return up to `length` bytes of a file from `start`, or None if it is gone."""
        return await self._database.read(
            lambda connection: connection.piece("uploads", {"id": name}, start, length)
        )

    async def listed(self, user: str, now: float) -> list[Upload]:
        """Return a person's files, newest first."""
        return await self._database.read(lambda connection: _of(connection, user, now))

    async def delete(self, user: str, name: str) -> bool:
        """Delete a person's file. Returns False if it did not exist."""
        return await self._database.write(
            lambda connection: connection.execute(sql.DELETE_UPLOAD, (name, user)).rowcount > 0
        )

    async def expire(self, now: float) -> None:
        """Delete expired files. Idempotent."""
        await self._database.execute(sql.EXPIRE_UPLOADS, (now,))


def new_name() -> str:
    """Return a new id."""
    return PREFIX + secrets.token_hex(12)


def _require_room(connection: Connection, upload: Upload) -> None:
    mine = _of(connection, upload.user, upload.created_at)
    size = sum(each.size for each in mine) + upload.size
    (everything,) = connection.execute(sql.UPLOADS_SIZE).fetchone()
    if len(mine) >= MOST_FILES or size > MOST_BYTES:
        raise NoRoom(min((each.expires_at for each in mine), default=None))
    if int(everything) + upload.size > ALL_BYTES:
        raise NoRoom


def _of(connection: Connection, user: str, now: float) -> list[Upload]:
    return [_upload(row) for row in connection.execute(sql.UPLOADS_OF, (user, now))]


def _upload(row: Any) -> Upload:
    name, user, shown, mime, size, created_at, expires_at = row
    return Upload(
        id=str(name),
        user=str(user),
        name=str(shown),
        mime=str(mime),
        size=int(size),
        created_at=float(created_at),
        expires_at=float(expires_at),
    )
