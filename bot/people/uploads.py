"""Files that people's programs send ahead of the jobs that use them; they expire."""

import secrets
from dataclasses import dataclass
from typing import Protocol

from queueing.core.requests import File

MOST_FILES = 100  # of one person
MOST_BYTES = 256 * 1024 * 1024  # of one person
ALL_BYTES = 4 * 1024 * 1024 * 1024  # of all together
KEPT_S = 24 * 3600.0
PREFIX = "file-"


@dataclass(frozen=True, kw_only=True, slots=True)
class Upload:
    """A file without its bytes. Moments are UNIX seconds."""

    id: str
    user: str
    name: str
    mime: str
    size: int
    created_at: float
    expires_at: float


class NoRoom(Exception):
    """A person, or all together, have stored as much as they may.

    `free_at` is when the next file expires, if any does.
    """

    def __init__(self, free_at: float | None = None) -> None:
        super().__init__(free_at)
        self.free_at = free_at


class Uploads(Protocol):
    """Keeps files. Every change is durable when it returns; each call raises `StoreError`."""

    async def new(self, user: str, file: File, now: float) -> Upload:
        """Store a person's file. Raises `NoRoom`."""

    async def get(self, user: str, name: str, now: float) -> Upload | None:
        """Return a person's file of that id, None if there is none (any more)."""

    async def file(self, user: str, name: str, now: float) -> File | None:
        """Return a person's file with its bytes, None if there is none (any more)."""

    async def piece(self, name: str, start: int, length: int) -> bytes | None:
        """Return up to `length` bytes of a file from `start`, None if it is gone."""

    async def listed(self, user: str, now: float) -> list[Upload]:
        """Return a person's files, newest first."""

    async def delete(self, user: str, name: str) -> bool:
        """Delete a person's file; return False if there was none."""

    async def expire(self, now: float) -> None:
        """Delete what has expired. Idempotent."""


def new_name() -> str:
    """Return a new id."""
    return PREFIX + secrets.token_hex(12)
