"""Asks where jobs stand, for all messages that are drawn in one turn of the event loop together.

Each question may cost a forecast, so many simultaneous questions are answered from one.
"""

import asyncio
from collections.abc import Sequence

from bot.core.status import QueueStatus
from queueing.core.concurrency import TaskGroup
from queueing.core.jobs import Job, JobState
from queueing.core.status import Standing

_Question = tuple[Job, asyncio.Future[Standing | None]]


class Inquiry:
    """One for all messages; answers while `run` is running."""

    def __init__(self, status: QueueStatus) -> None:
        self._status = status
        self._asked: list[_Question] = []
        self._decided: list[_Question] = []
        self._open: dict[int, _Question] = {}  # the last of each
        self._wake = asyncio.Event()
        self._ready = asyncio.Event()

    async def of(self, job: Job) -> Standing | None:
        """Return where a job stands, None if it is unknown. Raises `StoreError`."""
        if job.state is not JobState.PENDING:  # known without a forecast
            return (await self._status.standings([job])).get(job.id)
        answer: asyncio.Future[Standing | None] = asyncio.get_running_loop().create_future()
        self._asked.append((job, answer))
        self._open[job.id] = (job, answer)
        self._wake.set()
        try:
            return await answer
        finally:
            if self._open.get(job.id) == (job, answer):
                del self._open[job.id]

    def changed(self, job: Job) -> None:
        """Answer with a job as it was if it has changed since: its questioner asks once more.

        Others that are asked about with it may wait for a decision; it need not.
        """
        asked = self._open.get(job.id)
        if asked is not None and asked[0].version < job.version and not asked[1].done():
            asked[1].set_result(Standing(job=asked[0], shown=asked[0].state.value))

    async def run(self) -> None:
        """Answer until cancelled."""
        async with TaskGroup() as waits:
            waits.create_task(self._answer())
            while True:
                await self._wake.wait()
                self._wake.clear()
                asked, self._asked = self._asked, []
                waits.create_task(self._wait_for(asked))

    async def _wait_for(self, asked: Sequence[_Question]) -> None:
        """Wait for a decision about these jobs; what is asked later waits for its own."""
        await self._status.decided([job for job, _ in asked])
        self._decided.extend(asked)
        self._ready.set()

    async def _answer(self) -> None:
        while True:
            await self._ready.wait()
            self._ready.clear()
            asked, self._decided = self._decided, []
            asked = [(job, answer) for job, answer in asked if not answer.done()]
            try:
                found = await self._status.standings([job for job, _ in asked])
            except Exception as error:  # noqa: BLE001  # it is raised for the callers
                for _, answer in asked:
                    if not answer.done():
                        answer.set_exception(error)
            else:
                for job, answer in asked:
                    if not answer.done():
                        answer.set_result(found.get(job.id))
