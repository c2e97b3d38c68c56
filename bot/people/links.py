"""Signed links to the originals of results, for chats whose limits are too small for them.

A link needs no sign-in: it names one file of one job and an expiry, and cannot be made without the
key stored in this database.
"""

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable

from bot.core.live_settings import LiveSettings
from bot.core.platform import Notes
from bot.core.queue import ResultFiles
from bot.http.signed_links import Original, Ticket
from bot.people import sql
from bot.people.people import People
from queueing.core.jobs import Job
from queueing.core.ports import Clock
from queueing.store.sql.database import Connection, Database


class LinkEnds:
    """How often the links to a job's files were ended. Every end is durable when it returns."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def end(self, job_id: int) -> None:
        """Count one more end of a job's links; no effect if there is no such job."""

        def change(connection: Connection) -> None:
            connection.execute(sql.END_LINKS, (job_id,))

        await self._database.write(change)

    async def of(self, job_id: int) -> int:
        """Return how often a job's links were ended."""

        def query(connection: Connection) -> int:
            row = connection.execute(sql.LINK_ENDS, (job_id,)).fetchone()
            return 0 if row is None else int(row[0])

        return await self._database.read(query)


_KEY = "links.key"
_DAY_S = 24 * 3600.0


async def key_of(notes: Notes) -> bytes:
    """Return the key that seals links, created on first use; raises `StoreError`."""
    key = await notes.noted(_KEY) or await notes.note_first(_KEY, secrets.token_hex(32))
    return bytes.fromhex(key)


class Links:
    """Makes links and validates them. Implements `LinkReader`.

    `page` is the page's address with a slash at its end, or None if links cannot be followed from
    elsewhere: then none are made. They end `live.kept_days` after their job. `key` is `key_of` the database.
    """

    def __init__(
        self,
        files: ResultFiles,
        ends: LinkEnds,
        people: People,
        clock: Clock,
        *,
        key: bytes,
        page: str | None,
        live: LiveSettings,
    ) -> None:
        self._files = files
        self._ends = ends
        self._people = people
        self._clock = clock
        self._key = key
        self._page = page
        self._live = live

    async def address(self, job: Job, number: int) -> str | None:
        """Return the link to a file of a job, counted from 1; None if none can be made."""
        return None if self._page is None else self._page + (await self.paths(job))(number)

    async def paths(self, job: Job) -> Callable[[int], str]:
        """Return what makes the path of a link to each file of a job, counted from 1."""
        until = int((job.finished_at or job.queued_at) + self._live.kept_days * _DAY_S)
        ends = await self._ends.of(job.id)

        def path(number: int) -> str:
            seal = self._seal(job.id, number, until, ends)
            return f"originals/{job.id}/{number}/{until}/{seal}"

        return path

    async def end(self, job_id: int) -> None:
        """End the links to a job's files made so far. Raises `StoreError`."""
        await self._ends.end(job_id)

    async def ended(self, job_id: int) -> bool:
        """Return whether a job's links were ended, as they are when its result is deleted."""
        return await self._ends.of(job_id) > 0

    async def find(self, ticket: Ticket) -> Original | None:
        """Return the file; None if the link is false or ended, or its job is forgotten or banned."""
        now = self._clock.now()
        expected = self._seal(
            ticket.job_id, ticket.number, ticket.until, await self._ends.of(ticket.job_id)
        )
        ours = hmac.compare_digest(expected.encode(), ticket.seal.encode("utf-8", "replace"))
        if not ours or now >= ticket.until:
            return None
        head = await self._files.head(ticket.job_id, ticket.number)
        if head is None or (await self._people.get(head.owner)).is_banned(now):
            return None
        return Original(name=head.name, size=head.size)

    async def piece(self, ticket: Ticket, start: int, length: int) -> bytes | None:
        """Return some bytes of the file; None as soon as access to it has ended."""
        if await self.find(ticket) is None:
            return None
        return await self._files.piece(ticket.job_id, ticket.number, start, length)

    def _seal(self, job_id: int, number: int, until: int, ends: int) -> str:
        named = f"original {job_id} {number} {until} {ends}".encode()
        return urlsafe_b64encode(hmac.digest(self._key, named, hashlib.sha256)).decode().rstrip("=")
