"""Announced starts: which start may be sent to each server before it is stored, as long as nothing interferes.

A start is certain as it is handed to the writer if its job is still as it was when that was announced:
what was handed to the writer before has been looked at since, and what comes later finds it started.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from queueing.core.jobs import Job
from queueing.store.database import Connection
from queueing.store.jobs import queries


class Announcement(NamedTuple):
    """A server, a job and the number of the sending that may go there."""

    server: str
    job_id: int
    sending: int


@dataclass(slots=True, eq=False)
class _Start:
    announcement: Announcement
    version: int
    stored: bool = False  # the announcement, after which the job was still as it is here
    touched: bool = False  # another change of the job has been asked for since
    sent: asyncio.Future[Any] | None = None  # while the start itself is being stored


class AnnouncedStarts:
    """The announced starts by job, one for each server; used in the event loop only."""

    def __init__(self) -> None:
        self._starts: dict[int, _Start] = {}

    def begin(self, job: Job, backend: str) -> Announcement | None:
        """Note that a start is being announced; None while another may have been sent there."""
        replaced = [
            job_id
            for job_id, start in self._starts.items()
            if job_id == job.id or start.announcement.server == backend
        ]
        if any(self._starts[job_id].sent is not None for job_id in replaced):
            return None
        for job_id in replaced:
            del self._starts[job_id]
        announcement = Announcement(backend, job.id, job.sendings + 1)
        self._starts[job.id] = _Start(announcement, job.version)
        return announcement

    def stored(self, announcement: Announcement, now: Job | None) -> None:
        """Note that an announcement is stored, and how its job was when that was looked at."""
        start = self._starts.get(announcement.job_id)
        if start is not None and start.announcement is announcement and now is not None:
            start.stored = now.version == start.version

    def touch(self, job_id: int) -> None:
        """Note that another change of a job has been asked for."""
        start = self._starts.get(job_id)
        if start is not None:
            start.touched = True

    def is_certain(self, job: Job, backend: str | None) -> bool:
        """Whether nothing can come before a job's start that is handed to the writer now."""
        start = self._starts.get(job.id)
        return (
            start is not None
            and start.stored
            and not start.touched
            and start.sent is None
            and start.version == job.version
            and start.announcement == (backend, job.id, job.sendings + 1)
        )

    def sent(self, job_id: int, storing: asyncio.Future[Any]) -> None:
        """Note that an announced start is being stored, and sent meanwhile."""
        self._starts[job_id].sent = storing

    async def settled(self, job_id: int) -> None:
        """Wait while the start of a job is being stored and sent."""
        start = self._starts.get(job_id)
        if start is not None and start.sent is not None:
            await asyncio.wait([start.sent])

    def started(self, job: Job) -> None:
        """Forget what was announced of a job whose start is stored."""
        start = self._starts.get(job.id)
        if start is not None and start.announcement.sending <= job.sendings:
            del self._starts[job.id]

    def take_unsent(self) -> list[Announcement]:
        """Forget and return what was not sent."""
        unsent = [start.announcement for start in self._starts.values() if start.sent is None]
        for announcement in unsent:
            del self._starts[announcement.job_id]
        return unsent


def announce(connection: Connection, announcements: Sequence[Announcement]) -> Sequence[None]:
    """Note starts of waiting jobs that may be sent before they are stored, each to one server."""
    there = [(job_id, server) for server, job_id, _ in announcements]
    connection.executemany(queries.ONLY_THERE, there)
    connection.executemany(queries.ANNOUNCE, announcements)
    return [None] * len(announcements)
