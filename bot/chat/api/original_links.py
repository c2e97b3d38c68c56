"""Links to the originals of results: their contents, and the port that validates them."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class Ticket:
    """The contents of a link: a file of a job, counted from 1, an expiry, and the seal."""

    job_id: int
    number: int
    until: int
    seal: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Original:
    """A file that a link gives access to."""

    name: str
    size: int


class Originals(Protocol):
    """Validates links."""

    async def find(self, ticket: Ticket) -> Original | None:
        """Return the file, None if the link is invalid or has ended."""

    async def piece(self, ticket: Ticket, start: int, length: int) -> bytes | None:
        """Return some bytes of the file; None as soon as the link is no longer valid."""
