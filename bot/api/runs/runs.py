"""Tracks the progress of programs' open jobs for the callers who wait.

The chunks of an answer are kept until the job ends, so that a caller who reconnects gets them from
the start. Events are recorded as soon as a job is accepted, before the caller knows it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from bot.core.origin import Origin, origin_in
from bot.core.queue import JobReader, QueueStatus
from bot.people.api_keys import PLATFORM
from queueing.core.concurrency import TaskGroup, came
from queueing.core.constructors import altering
from queueing.core.errors import StoreError
from queueing.core.events import (
    Erased,
    Event,
    EventsMissed,
    JobChanged,
    Produced,
    Progressed,
    Stopping,
)
from queueing.core.jobs import Job, JobState
from queueing.core.requests import Chat, File, Output, Progress
from queueing.core.snapshot import Reason, WaitCause
from queueing.core.status import Standing

log = logging.getLogger(__name__)

CHUNKS_AT_ONCE = 100
"""Chunks that are written without a pause. More would delay other answers."""
LOOK_EVERY_S = 2.0
"""How often a single query reads the places of all waiting jobs, in seconds."""
STUCK_LOOKS = 3
"""How many looks in a row must find a reason before it counts as permanent; one may be outdated."""
_NEVER_ENDS = frozenset({WaitCause.KEPT, WaitCause.PINNED})
_altered = altering(Job)


class Run:
    """The progress of a job, from its acceptance to its end.

    - `chunks`: the pieces of the latest attempt's answer. Empty if the first pieces were missed;
      the whole answer then comes with the job's end.
    - `restarts`: how many attempts ended after their first piece. An answer that was partly read
      cannot start over.
    - `gaps`: how many of these restarts may only be missed events, so the attempt may continue.
    - `left`: set when this process stops and leaves the job to the next one.
    - `stuck`: why the job cannot start until an operator or admin changes something.
    - `output`: the job's output, for the first caller who takes it. Others read the stored one.
    """

    def __init__(self, job: Job) -> None:
        self.job = without_words(job)
        self.chunks: list[str] = []
        self.restarts = 0
        self.gaps = 0
        self.preview: File | None = None
        self.fraction: float | None = None
        self.standing: Standing | None = None
        self.left = False
        self._stuck_looks = 0
        self.output: Output | None = None
        self._from_the_start = False  # known since before the latest attempt, and no events missed
        self._watches: set[asyncio.Event] = set()

    @property
    def waits(self) -> bool:
        """Whether the job has not started."""
        return self.job.state is JobState.PENDING

    @property
    def stuck(self) -> Reason | None:
        """Why the job cannot start until someone changes something, or None."""
        lasting = self.waits and self._stuck_looks >= STUCK_LOOKS
        return self.standing.reason if lasting and self.standing is not None else None

    def chunks_after(self, sent: int) -> list[str]:
        """Return the next chunks after the first `sent`, at most `CHUNKS_AT_ONCE`."""
        return self.chunks[sent : sent + CHUNKS_AT_ONCE]

    @property
    def watched(self) -> bool:
        """Whether a caller is waiting."""
        return bool(self._watches)

    @contextmanager
    def watch(self) -> Iterator[asyncio.Event]:
        """Provide an event that is set initially and whenever something changes."""
        event = asyncio.Event()
        event.set()
        self._watches.add(event)
        try:
            yield event
        finally:
            self._watches.discard(event)

    async def until_final(
        self, news: asyncio.Event, ends: float, *, or_stuck: bool = False
    ) -> bool:
        """Wait for the job's end, until a time of the loop's clock. Returns whether it ended."""
        while not self.job.state.final:
            if self.left or (or_stuck and self.stuck is not None):
                return False
            left_s = ends - asyncio.get_running_loop().time()
            if left_s <= 0:
                return False
            news.clear()
            await came(news, left_s)
        return True

    def change(self, job: Job) -> None:
        """Record a change of the job."""
        if job.version < self.job.version:
            return
        if job.state is JobState.PENDING and self.job.state is not JobState.PENDING:
            self.restarts += bool(self.chunks)
            self.chunks, self.preview, self.fraction = [], None, None
        self._from_the_start |= job.state is JobState.PENDING
        self.job = without_words(job)
        self._notify()

    def hear(self, event: Progressed | Produced) -> None:
        """Record an attempt's progress, or the job's output if a caller is waiting."""
        if isinstance(event, Progressed):
            self.progress(event.progress)
        elif self.watched:
            self.output = event.output

    def progress(self, progress: Progress) -> None:
        """Record an attempt's progress."""
        if self._from_the_start:
            self.chunks += progress.chunks
        self.preview = progress.preview or self.preview
        if progress.fraction is not None:
            self.fraction = progress.fraction
        self._notify()

    def take_output(self) -> Output | None:
        """Return the output and forget it."""
        output, self.output = self.output, None
        return output

    def gap(self) -> None:
        """Record that progress events were missed, so the collected chunks are incomplete."""
        self.restarts += bool(self.chunks)
        self.gaps += bool(self.chunks)
        self.chunks = []
        self._from_the_start = False
        self._notify()

    def stand(self, standing: Standing) -> None:
        """Record the job's place in the queue."""
        self.standing = standing
        reason = standing.reason
        is_stuck = reason is not None and reason.why in _NEVER_ENDS
        self._stuck_looks = self._stuck_looks + 1 if is_stuck else 0
        self._notify()

    def leave(self) -> None:
        """Record that this process is stopping."""
        self.left = True
        self._notify()

    def _notify(self) -> None:
        for event in self._watches:
            event.set()


class Runs:
    """All current runs."""

    def __init__(
        self,
        standings: QueueStatus,
        jobs: JobReader,
        reading: Callable[[int], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> None:
        self._standings = standings
        self._jobs = jobs
        self._reading = reading
        self.stopping = False
        self._closed = False
        self._runs: dict[int, Run] = {}
        self._waiting = asyncio.Event()
        self._doubtful: set[int] = set()
        self._doubts = asyncio.Event()

    def on_event(self, event: Event) -> None:
        """Record a queue event. Never blocks."""
        match event:
            case Progressed() | Produced():
                if run := self._runs.get(event.job_id):
                    run.hear(event)
            case JobChanged(job=job):
                if (run := self._runs.get(job.id)) or (run := self._begun(job)):
                    run.change(job)
                    self._settle(run)
            case Erased(job_ids=job_ids):
                for job_id in job_ids:
                    self._runs.pop(job_id, None)
            case Stopping():
                self.stopping = True
            case EventsMissed():
                self.stopping = False  # another process may have taken over the queue
                for run in self._runs.values():
                    run.gap()
                self._doubt(*self._runs)

    @contextmanager
    def watch(self, job: Job) -> Iterator[tuple[Run, asyncio.Event]]:
        """Provide the run of a job, and an event that is set whenever the run changes.

        The job of an unknown run is read again, because it may have ended before the watch began.
        """
        if job.id not in self._runs and not job.state.final:
            self._doubt(job.id)
        run = self._of(job)
        with self._reads(job), run.watch() as news:
            if run.waits:
                self._waiting.set()
            yield run, news

    def _reads(self, job: Job) -> AbstractContextManager[None]:
        """Subscribe to the progress of a chat's job. That of programs' jobs is always reported."""
        return nullcontext() if is_api_job(job) else self._reading(job.id)

    def is_watched(self, job: Job) -> bool:
        """Return whether a caller is waiting for a job."""
        run = self._runs.get(job.id)
        return run is not None and run.watched

    def open(self) -> None:
        """Accept callers, even after `close`."""
        self._closed = False

    def close(self) -> None:
        """Leave all jobs to the next process, and notify the callers who wait for them."""
        self._closed = True
        for run in self._runs.values():
            run.leave()
        self._runs.clear()

    async def run(self) -> None:
        """Keep runs up to date for their callers, until cancelled."""
        async with TaskGroup() as tasks:
            tasks.create_task(self._keep_places())
            tasks.create_task(self._keep_states())

    async def _keep_places(self) -> None:
        while True:
            waiting = [run for run in self._runs.values() if run.waits and run.watched]
            if not waiting:
                self._waiting.clear()
                await self._waiting.wait()
                continue
            await self._look(waiting)
            await asyncio.sleep(LOOK_EVERY_S)

    async def _keep_states(self) -> None:
        """Read the jobs whose events may have been missed."""
        while True:
            while self._doubtful:
                await self._make_sure(self._doubtful.pop())
            self._doubts.clear()
            await self._doubts.wait()

    def _doubt(self, *job_ids: int) -> None:
        self._doubtful.update(job_ids)
        self._doubts.set()

    async def _make_sure(self, job_id: int) -> None:
        try:
            job = await self._jobs.get(job_id)
        except StoreError as error:
            log.warning("cannot read job %d: %s", job_id, error)
            self._doubt(job_id)
            await asyncio.sleep(LOOK_EVERY_S)
            return
        if job is None:
            self._runs.pop(job_id, None)
        elif run := self._runs.get(job_id):
            run.change(job)
            self._settle(run)

    def _of(self, job: Job) -> Run:
        run = self._runs.get(job.id)
        if run is None:
            run = Run(job)
            run.left = self._closed
            if not job.state.final:
                self._runs[job.id] = run
        return run

    def _begun(self, job: Job) -> Run | None:
        return None if job.state.final or not is_api_job(job) else self._of(job)

    def _settle(self, run: Run) -> None:
        if run.job.state.final:
            self._runs.pop(run.job.id, None)
        elif run.waits:
            self._waiting.set()

    async def _look(self, waiting: list[Run]) -> None:
        try:
            standings = await self._standings.standings([run.job for run in waiting])
        except StoreError as error:
            log.warning("cannot read the places of waiting jobs: %s", error)
            return
        for run in waiting:
            if (standing := standings.get(run.job.id)) is not None:
                run.stand(standing)


def without_words(job: Job) -> Job:
    """Return a job without the part of a conversation that only its server reads.

    It takes up to 8 MB, which would stay in memory while a caller waits.
    """
    request = job.request
    if not isinstance(request, Chat) or request.passed_on is None:
        return job
    return _altered(job, request=request.model_copy(update={"passed_on": None}))


def api_origin(job: Job) -> Origin | None:
    """Return where a program's job came from, or None for a chat's job."""
    if f'"{PLATFORM}"' not in job.reply_to:  # most jobs are from chats
        return None
    origin = origin_in(job.reply_to)
    return origin if origin is not None and origin.platform == PLATFORM else None


def is_api_job(job: Job) -> bool:
    """Return whether a job came from a program."""
    return api_origin(job) is not None
