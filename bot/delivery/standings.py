"""Finds status messages that no longer match their jobs' state.

While jobs wait, it checks the head of every queue regularly, even if no queue moved, because waits
depend on decisions made elsewhere. It checks whole queues when their wait reason changes and every
few seconds, and single messages when a time they show has passed. It never sends anything. It works
in small batches, so a call that arrives in between is never delayed by a long queue.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence

from bot.core.content import Content
from bot.core.queue import QueueStatus
from bot.delivery.rate_limit import HEAD
from bot.delivery.status_message import StatusMessage
from queueing.core.concurrency import TaskGroup
from queueing.core.errors import StoreError
from queueing.core.events import QueuesMoved
from queueing.core.jobs import Job, JobState
from queueing.core.ports import Clock
from queueing.core.status import Standing

_Question = tuple[Job, asyncio.Future[Standing | None]]


class StandingReader:
    """Reads the standings of jobs for all messages. Answers only while `run` is running."""

    def __init__(self, status: QueueStatus) -> None:
        self._status = status
        self._asked: list[_Question] = []
        self._decided: list[_Question] = []
        self._open: dict[int, _Question] = {}  # the latest question about each job
        self._wake = asyncio.Event()
        self._ready = asyncio.Event()

    async def of(self, job: Job) -> Standing | None:
        """Return a job's standing, or None if it is unknown. Raises `StoreError`."""
        if job.state is not JobState.PENDING:  # needs no forecast
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
        """Answer a question about a job that has since changed, using its old state.

        The caller then asks again. Without this, it would wait for a planning decision that other
        jobs in its batch need and the changed job does not.
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
        """Wait for a planning decision on these jobs. Later questions wait separately."""
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


log = logging.getLogger(__name__)

_REST_S, _LONG_REST_S = 0.1, 0.25
_REST_EACH_S = 0.0005  # per message, between the two bounds above
_HEADS_S = 0.5
_WHOLE_S = 8.0
_WHOLE_EACH_S = 0.004  # per message, so that long queues are read less often
_NEAR = 2 * HEAD  # may have reached the head since the last check
_AT_ONCE = 50  # messages checked per batch, about 5 ms
_SCANNED = 1000  # messages scanned per batch, about 2 ms


class StaleMessages:
    """Compares the content of open jobs' messages with their jobs' present state.

    `messages` are all messages. `draw` returns the content a message should show. `stale` is called
    for every message whose content differs.
    """

    def __init__(
        self,
        *,
        status: QueueStatus,
        messages: Collection[StatusMessage],
        draw: Callable[[StatusMessage, Standing], Content],
        stale: Callable[[StatusMessage], None],
        clock: Clock,
    ) -> None:
        self._status = status
        self._messages = messages
        self._draw = draw
        self._stale = stale
        self._clock = clock
        self._turned: set[str] = set()
        self._moved = asyncio.Event()
        self._heads_at = self._whole_at = 0.0

    def moved(self, queues: QueuesMoved) -> None:
        """Schedule a check of queues that moved. Never blocks."""
        self._turned |= queues.turned
        self._moved.set()

    async def run(self) -> None:
        """Check messages repeatedly, as long as there are any, until cancelled."""
        while True:
            if not any(_open(message) for message in self._messages):
                await self._moved.wait()
            try:
                await self._check_all()
            except StoreError as error:
                log.warning("cannot read the positions of waiting jobs: %s", error)
            except Exception:
                log.exception("could not update the positions of waiting jobs")
            rest_s = _REST_EACH_S * len(self._messages)
            await asyncio.sleep(min(max(rest_s, _REST_S), _LONG_REST_S))

    async def _check_all(self) -> None:
        now, turned = self._clock.now(), self._turned
        whole_s = max(_WHOLE_S, _WHOLE_EACH_S * len(self._messages))
        if whole := now - self._whole_at >= whole_s:
            self._whole_at = now
        if heads := self._moved.is_set() or now - self._heads_at >= _HEADS_S:
            self._heads_at = now
        self._turned = set()
        self._moved.clear()

        def asked(message: StatusMessage) -> bool:
            queue = whole or message.current.model in turned
            return queue or (heads and _near(message)) or message.expires <= now

        found: list[StatusMessage] = []
        everyone = list(self._messages)
        for first in range(0, len(everyone), _SCANNED):
            if first:
                await asyncio.sleep(0)  # let other ready tasks run first
            scanned = everyone[first : first + _SCANNED]
            found += [message for message in scanned if _watched(message) and asked(message)]
        if len(found) > _AT_ONCE:
            found.sort(key=_near, reverse=True)
        for first in range(0, len(found), _AT_ONCE):
            if first or len(everyone) > _SCANNED:
                await asyncio.sleep(0)
            several = found[first : first + _AT_ONCE]
            await self._check([message for message in several if _watched(message)])

    async def _check(self, messages: Sequence[StatusMessage]) -> None:
        if not messages:
            return
        standings = await self._status.standings([message.current for message in messages])
        for message in messages:
            standing = standings.get(message.current.id)
            if standing is None or standing.job.version < message.current.version:
                continue  # the job changed during the read; another event follows
            if standing.job.state is not message.current.state:
                continue  # likewise, its event is on its way
            message.take(standing.job)  # no event reports that a job left the overflow
            message.stand(standing)
            if message.job.state.final:  # its answer is being read aloud
                message.changed = True
                self._stale(message)
            elif message.shown is not None and self._draw(message, standing) != message.shown:
                message.moved = True
                message.changed |= message.outdated(self._clock.now())
                self._stale(message)


def _open(message: StatusMessage) -> bool:
    """Return whether the message shows an open job, possibly in an edit still in flight."""
    return not (message.muted or message.dropped or message.current.state.final)


def _watched(message: StatusMessage) -> bool:
    return _open(message) and not message.changed


def _near(message: StatusMessage) -> bool:
    """Return whether its job runs or was last seen near the head of its queue."""
    if message.current.state is JobState.PROCESSING or not message.stood:
        return True
    if message.position is None:
        # The position is unknown at present, or the job is in the overflow.
        return message.current.seq is not None
    return message.position <= _NEAR
