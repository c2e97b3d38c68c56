"""Preparations: attempts that are ready to be sent, made when they start or while another job runs.

A prepared attempt has reached no server. It is sent when its start is recorded, and dropped when another
job starts in its place or its own has changed.
"""

import asyncio
from dataclasses import dataclass

from queueing.core.jobs import Job
from queueing.core.ports import Fetch, Report
from queueing.core.quick import altering
from queueing.core.requests import Progress
from queueing.core.undisturbed import undisturbed
from queueing.core.world import Start
from queueing.engine.attempts import Sending, Target

_altered = altering(Job)


class _Heard:
    """Receives an attempt's progress, which begins when there is a reader."""

    def __init__(self) -> None:
        self.report: Report | None = None

    def __call__(self, progress: Progress) -> None:
        if self.report is not None:
            self.report(progress)


@dataclass(slots=True, eq=False)
class Prepared:
    """An attempt that is sent once its start is recorded."""

    start: Start
    target: Target
    sent: asyncio.Task[Fetch]
    heard: _Heard
    recorded: asyncio.Future[None]

    def fits(self, start: Start, target: Target) -> bool:
        """Whether it is an attempt at this start, and nothing has kept it from being ready."""
        own, job = self.start.job, start.job
        return (
            not self.sent.done()
            and self.target == target
            and (own.id, own.version, own.sendings) == (job.id, job.version, job.sendings)
        )

    def record(self) -> None:
        """Let it be sent. Idempotent."""
        if not self.recorded.done():
            self.recorded.set_result(None)

    async def run(self, report: Report) -> Fetch:
        """Report to this reader from now on and return the result; cancelling cancels the attempt."""
        self.heard.report = report
        return await self.sent

    async def drop(self) -> bool:
        """Give it up, on its server too; return whether it may have been sent. Idempotent."""
        was_recorded = not self.recorded.cancel() and not self.recorded.cancelled()
        if not self.sent.done():
            self.sent.cancel()
            await asyncio.wait([self.sent])
        if not self.sent.cancelled():
            self.sent.exception()  # reported already, or of no further use
        return was_recorded


class Preparations:
    """Keeps at most one attempt for each server that is ready ahead of its turn."""

    def __init__(self, sending: Sending) -> None:
        self._sending = sending
        self._ahead: dict[str, Prepared] = {}
        self._dropping: set[asyncio.Task[bool]] = set()

    def prepare(self, start: Start) -> None:
        """Prepare an attempt whose turn will probably come, in place of another one there."""
        ahead = self._ahead.get(start.backend)
        if ahead is not None and ahead.fits(start, self._sending.target(start)):
            return
        self._drop(start.backend)
        if self._sending.stays_ready(start.backend):
            self._ahead[start.backend] = self._prepared(start)

    def take(self, start: Start) -> Prepared:
        """Return an attempt for a start that is being stored."""
        ahead = self._ahead.get(start.backend)
        if ahead is None or not ahead.fits(start, self._sending.target(start)):
            self.forget(start.job.id)
            self._drop(start.backend)
            return self._prepared(start)
        del self._ahead[start.backend]
        return ahead

    def forget(self, job_id: int) -> None:
        """Drop what is prepared for a job."""
        for backend, ahead in list(self._ahead.items()):
            if ahead.start.job.id == job_id:
                self._drop(backend)

    async def aclose(self) -> None:
        """Drop everything. Idempotent."""
        for backend in list(self._ahead):
            self._drop(backend)
        if self._dropping:
            await asyncio.wait(self._dropping)

    def _prepared(self, start: Start) -> Prepared:
        heard, recorded = _Heard(), asyncio.get_running_loop().create_future()
        after = _altered(start.job, sendings=start.job.sendings + 1)
        send = self._sending.send(after, start.backend, heard, lambda: undisturbed(recorded))
        sent = asyncio.create_task(send, name=f"sending of job {start.job.id}")
        return Prepared(start, self._sending.target(start), sent, heard, recorded)

    def _drop(self, backend: str) -> None:
        ahead = self._ahead.pop(backend, None)
        if ahead is not None:
            dropping = asyncio.create_task(ahead.drop(), name=f"dropping {ahead.start.job.id}")
            self._dropping.add(dropping)
            dropping.add_done_callback(self._dropping.discard)
