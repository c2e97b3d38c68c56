"""Links to the originals of results: what one says, and the port that knows which are good."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class Ticket:
    """What a link says: a file of a job, counted from 1, until a moment, and the seal on it."""

    job_id: int
    number: int
    until: int
    seal: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Original:
    """A file that a link is good for."""

    name: str
    size: int


class Originals(Protocol):
    """Knows which links are good."""

    async def find(self, ticket: Ticket) -> Original | None:
        """Return the file, None where the link is not good or no longer."""

    async def piece(self, ticket: Ticket, start: int, length: int) -> bytes | None:
        """Return some bytes of the file; None as soon as the link is no longer good."""
