"""Deliveries: which jobs people have not been told the end of."""

from typing import Protocol

from queueing.core.jobs import Job


class Deliveries(Protocol):
    """Names what is to be told, until it is acknowledged. Every call raises `StoreError`.

    Events are hints: what was missed of them, by a restart or a lost connection, is found here.
    """

    async def to_tell(self, after: int, limit: int) -> list[Job]:
        """Return at most `limit` waiting jobs whose number is above `after`, oldest first.

        With 0, those that run and those that ended and are not yet acknowledged come before them,
        however many there are.
        """

    async def unacknowledged(self, owner: str | None = None) -> list[Job]:
        """Return the jobs that are open, or ended and not yet acknowledged, oldest first.

        `owner` leaves out those of others.
        """

    async def acknowledge(self, job: Job) -> None:
        """Note that the person has the job's end: it is told no more. Idempotent, durable."""
