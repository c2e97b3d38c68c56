"""Decided: whether the router has looked at a job since it was accepted.

Most jobs start at once. A look at one between its acceptance and its start would cost a forecast and
tell of a wait that has ended before anyone could read of it.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from queueing.core.concurrency import timeout
from queueing.core.jobs import Job, JobState
from queueing.engine.fleet.running_jobs import Slot

PATIENCE_S = 0.5  # then a job is told to wait, whatever the router is doing


class Decided:
    """Tells when the router has decided about new jobs."""

    def __init__(self, slots: Callable[[], Mapping[int, Slot]]) -> None:
        """Create it; `slots` returns those that are occupied, by job id."""
        self._slots = slots
        self._newest = 0  # job accepted
        self._seen = 0  # the newest in the last step that has ended
        self._stepped = asyncio.Event()

    def accepted(self, job_id: int) -> None:
        """Note a new job: nothing is decided about it yet."""
        self._newest = max(self._newest, job_id)

    def step(self) -> Callable[[], None]:
        """Begin a step of the router; returns what ends it."""
        newest = self._newest

        def ended() -> None:
            self._seen = newest
            self._stepped.set()

        return ended

    async def about(self, jobs: Collection[Job]) -> None:
        """Wait until each of these jobs is running or waits for a reason, for a moment at most."""
        if not self._open(jobs):
            return
        with suppress(TimeoutError):
            async with timeout(PATIENCE_S):
                while self._open(jobs):
                    self._stepped.clear()
                    await self._stepped.wait()

    def _open(self, jobs: Collection[Job]) -> bool:
        waiting = [job for job in jobs if job.state is JobState.PENDING and not job.held]
        slots = self._slots() if waiting else {}
        return any(
            self._seen < job.id <= self._newest
            if (slot := slots.get(job.id)) is None
            else slot.job.state is JobState.PENDING  # its start is being stored
            for job in waiting
        )
