"""Signed links to result files: their format, their validation, and the response.

Anyone with the link gets the file, without signing in and without a key.
"""

import re
from dataclasses import dataclass
from typing import Protocol

from aiohttp import web

from backends.common.file_types import mime_of
from bot.http.files import FileSender, Sendable

PATH = "/originals/{job}/{number}/{until}/{seal}"

_NUMBER = re.compile(r"[0-9]{1,15}", re.ASCII)
_HEADERS = {
    "Cache-Control": "private, no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_LINK = re.compile(r"(?:/+v1)*/+originals/")
_HEAD = 64  # bytes that identify a file


@dataclass(frozen=True, kw_only=True, slots=True)
class Ticket:
    """The contents of a link: a job's file (counted from 1), its expiry, and the signature."""

    job_id: int
    number: int
    until: int
    seal: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Original:
    """A file that a link gives access to."""

    name: str
    size: int


class LinkReader(Protocol):
    """Validates links. Every method raises `StoreError`."""

    async def find(self, ticket: Ticket) -> Original | None:
        """Return the file, or None if the link is invalid, expired or revoked."""

    async def piece(self, ticket: Ticket, start: int, length: int) -> bytes | None:
        """Return bytes of the file, or None if the link is no longer valid."""

    async def ended(self, job_id: int) -> bool:
        """Return whether a job's links were revoked, which deleting its result does."""


def is_signed_link(request: web.Request) -> bool:
    """Return whether a request uses a signed link, which any page may do."""
    return _LINK.match(request.path) is not None


async def answer(
    request: web.Request, links: LinkReader | None, sender: FileSender, *, whose: str
) -> web.StreamResponse:
    """Send a link's file. Every invalid link gets the same 404."""
    ticket = _ticket(request)
    found = await links.find(ticket) if links is not None and ticket is not None else None
    if links is None or ticket is None or found is None:
        raise web.HTTPNotFound
    head = await links.piece(ticket, 0, _HEAD)
    if head is None:
        raise web.HTTPNotFound

    async def piece(start: int, length: int) -> bytes | None:
        return await links.piece(ticket, start, length)

    file = Sendable(
        name=found.name,
        mime=mime_of(head) or "application/octet-stream",
        size=found.size,
        tag=ticket.seal,
        piece=piece,
    )
    return await sender.send(request, file, whose=whose, headers=_HEADERS)


def _ticket(request: web.Request) -> Ticket | None:
    said = request.match_info
    numbers = [said["job"], said["number"], said["until"]]
    if not all(_NUMBER.fullmatch(each) for each in numbers):
        return None
    job_id, number, until = map(int, numbers)
    return Ticket(job_id=job_id, number=number, until=until, seal=said["seal"])
