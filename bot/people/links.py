"""Signed links to result files that are too large for a chat.

A link works without signing in. It names one file of one job and an expiry, and can only be created
with the key in this database.
"""

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

from bot.core.live_settings import LiveSettings
from bot.core.platform import Notes
from bot.core.queue import ResultFiles
from bot.http.signed_links import Original, Ticket
from bot.people import sql
from bot.people.people import People
from queueing.core.jobs import Job
from queueing.core.ports import Clock
from queueing.store.sql.database import Database


class LinkEnds:
    """Counts how often the links to a job's files were revoked. Changes are durable on return."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def end(self, job_id: int) -> None:
        """Revoke a job's links by raising its count. Does nothing if there is no such job."""
        await self._database.execute(sql.END_LINKS, (job_id,))

    async def of(self, job_id: int) -> int:
        """Return how often a job's links were revoked."""
        row = await self._database.row(sql.LINK_ENDS, (job_id,))
        return 0 if row is None else int(row[0])


_KEY = "links.key"
_DAY_S = 24 * 3600.0


async def key_of(notes: Notes) -> bytes:
    """Return the key that signs links, creating it on first use. Raises `StoreError`."""
    key = await notes.noted(_KEY) or await notes.note_first(_KEY, secrets.token_hex(32))
    return bytes.fromhex(key)


@dataclass(eq=False, repr=False)
class Links:
    """Creates and validates links. Implements `LinkReader`.

    `page` is the page's URL with a final slash, or None if other machines cannot reach it. Without
    it, no links are created. Links expire `live.kept_days` after their job ended. `key` comes from
    `key_of`.
    """

    files: ResultFiles
    ends: LinkEnds
    people: People
    clock: Clock
    _: KW_ONLY
    key: bytes
    page: str | None
    live: LiveSettings

    async def address(self, job: Job, number: int) -> str | None:
        """Return the link to a job's file, counted from 1, or None if links cannot be created."""
        return None if self.page is None else self.page + (await self.paths(job))(number)

    async def paths(self, job: Job) -> Callable[[int], str]:
        """Return a function that builds the path of a link to a file, given its number from 1."""
        until = int((job.finished_at or job.queued_at) + self.live.kept_days * _DAY_S)
        ends = await self.ends.of(job.id)

        def path(number: int) -> str:
            seal = self._seal(job.id, number, until, ends)
            return f"originals/{job.id}/{number}/{until}/{seal}"

        return path

    async def end(self, job_id: int) -> None:
        """Revoke all existing links to a job's files. Raises `StoreError`."""
        await self.ends.end(job_id)

    async def ended(self, job_id: int) -> bool:
        """Return whether a job's links were revoked, which deleting its result does."""
        return await self.ends.of(job_id) > 0

    async def find(self, ticket: Ticket) -> Original | None:
        """Return the file that a link names.

        None if the link is invalid, expired or revoked, if the job was erased, or if its owner is
        banned.
        """
        now = self.clock.now()
        expected = self._seal(
            ticket.job_id, ticket.number, ticket.until, await self.ends.of(ticket.job_id)
        )
        ours = hmac.compare_digest(expected.encode(), ticket.seal.encode("utf-8", "replace"))
        if not ours or now >= ticket.until:
            return None
        head = await self.files.head(ticket.job_id, ticket.number)
        if head is None or (await self.people.get(head.owner)).is_banned(now):
            return None
        return Original(name=head.name, size=head.size)

    async def piece(self, ticket: Ticket, start: int, length: int) -> bytes | None:
        """Return bytes of the file, or None once the link is no longer valid."""
        if await self.find(ticket) is None:
            return None
        return await self.files.piece(ticket.job_id, ticket.number, start, length)

    def _seal(self, job_id: int, number: int, until: int, ends: int) -> str:
        named = f"original {job_id} {number} {until} {ends}".encode()
        return urlsafe_b64encode(hmac.digest(self.key, named, hashlib.sha256)).decode().rstrip("=")
