"""Deliveries: the jobs whose end people have not seen yet."""

from typing import Protocol

from queueing.core.jobs import Job


class Deliveries(Protocol):
    """Lists the jobs whose end people have not seen, until it is acknowledged.

    Events are hints: any that were missed, by a restart or a lost connection, are found here.
    """

    async def unacknowledged(self, owner: str | None = None) -> list[Job]:
        """Return the jobs that are open, or ended and not yet acknowledged, oldest first.

        `owner` restricts it to that person's jobs.
        """

    async def to_tell(self, after: int, limit: int) -> list[Job]:
        """Return at most `limit` waiting jobs whose number is above `after`, oldest first.

        With 0, those that run and those that ended and are not yet acknowledged come before them,
        however many there are.
        """

    async def acknowledge(self, job: Job) -> None:
        """Note that the person has the job's end: it is not listed again. Idempotent."""
