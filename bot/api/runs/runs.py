"""Open jobs of programs: keeps the progress of each for the callers who wait.

The chunks of a job's answer are kept until it has ended, so that a caller who reconnects reads it
from the beginning. Events are recorded from acceptance on, before the caller knows the job.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

from bot.core.origin import Origin, origin_in
from bot.core.queue import JobReader, QueueStatus
from queueing.core.concurrency import TaskGroup, timeout
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

PLATFORM = "api"
CHUNKS_AT_ONCE = 100
"""Chunks of an answer that are written in one turn: a flood must not hold up other answers."""
LOOK_EVERY_S = 2.0
"""How often the places of waiting jobs are read, all in one query."""
STUCK_LOOKS = 3
"""After how many looks in a row a reason counts as lasting: a measurement may still end it."""
_NEVER_ENDS = frozenset({WaitCause.KEPT, WaitCause.PINNED})
_altered = altering(Job)


class Run:
    """A job of a program, from its acceptance to its end.

    `chunks` are the pieces of its newest attempt's answer, none where the first of them were missed:
    then only the end tells the answer, whole. `restarts` counts the attempts that ended
    after their first piece: an answer that was partly read cannot start over. `gaps` counts those
    of them that may go on elsewhere, because only the news of them were missed. `left` is set when
    this process stops, and the job is left to the next. `stuck` is the reason why a job cannot start
    until an operator or an admin changes something. `output` is what the job has produced, for the
    first caller who takes it: the others read what is stored.
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
        self._from_the_start = False  # known before its newest attempt began, and nothing missed
        self._watches: set[asyncio.Event] = set()

    @property
    def waits(self) -> bool:
        """Whether the job has not started."""
        return self.job.state is JobState.PENDING

    @property
    def stuck(self) -> Reason | None:
        """Why the job never starts as things stand, None if it may."""
        lasting = self.waits and self._stuck_looks >= STUCK_LOOKS
        return self.standing.reason if lasting and self.standing is not None else None

    def chunks_after(self, sent: int) -> list[str]:
        """Return the next chunks after the first `sent`, as many as are written in one turn."""
        return self.chunks[sent : sent + CHUNKS_AT_ONCE]

    @property
    def watched(self) -> bool:
        """Whether a caller waits for it."""
        return bool(self._watches)

    @contextmanager
    def watch(self) -> Iterator[asyncio.Event]:
        """Provide an event that is set whenever something is new, and at the beginning."""
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
        """Wait for the end, at most until a time of the loop's clock; return whether it came."""
        while not self.job.state.final:
            if self.left or (or_stuck and self.stuck is not None):
                return False
            left_s = ends - asyncio.get_running_loop().time()
            if left_s <= 0:
                return False
            news.clear()
            await wait(news, left_s)
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
        self._tell()

    def hear(self, event: Progressed | Produced) -> None:
        """Take what an attempt reports, or what the job has produced if a caller will take that."""
        if isinstance(event, Progressed):
            self.progress(event.progress)
        elif self.watched:
            self.output = event.output

    def progress(self, progress: Progress) -> None:
        """Record what a running attempt reports."""
        if self._from_the_start:
            self.chunks += progress.chunks
        self.preview = progress.preview or self.preview
        if progress.fraction is not None:
            self.fraction = progress.fraction
        self._tell()

    def take_output(self) -> Output | None:
        """Return what is kept of what the job has produced, once."""
        output, self.output = self.output, None
        return output

    def gap(self) -> None:
        """Record that progress was missed: what was written of the answer has a hole."""
        self.restarts += bool(self.chunks)
        self.gaps += bool(self.chunks)
        self.chunks = []
        self._from_the_start = False
        self._tell()

    def stand(self, standing: Standing) -> None:
        """Record the job's place in line."""
        self.standing = standing
        reason = standing.reason
        is_stuck = reason is not None and reason.why in _NEVER_ENDS
        self._stuck_looks = self._stuck_looks + 1 if is_stuck else 0
        self._tell()

    def leave(self) -> None:
        """Record that this process stops."""
        self.left = True
        self._tell()

    def _tell(self) -> None:
        for event in self._watches:
            event.set()


class Runs:
    """All current runs. `on_event` listens to the queue."""

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
        """Record an event of the queue; never blocks."""
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
                self.stopping = False  # another process may have taken the queue over
                for run in self._runs.values():
                    run.gap()
                self._doubt(*self._runs)

    @contextmanager
    def watch(self, job: Job) -> Iterator[tuple[Run, asyncio.Event]]:
        """Provide the run of a job, and an event that is set whenever it has something new.

        A run that is not known was perhaps over before it was watched, so its job is read once more.
        """
        if job.id not in self._runs and not job.state.final:
            self._doubt(job.id)
        run = self._of(job)
        with self._reads(job), run.watch() as news:
            if run.waits:
                self._waiting.set()
            yield run, news

    def _reads(self, job: Job) -> AbstractContextManager[None]:
        """Have a chat's job told as programs' jobs are."""
        return nullcontext() if is_api_job(job) else self._reading(job.id)

    def is_watched(self, job: Job) -> bool:
        """Return whether a caller is waiting for a job."""
        run = self._runs.get(job.id)
        return run is not None and run.watched

    def open(self) -> None:
        """Serve the callers, perhaps once more."""
        self._closed = False

    def close(self) -> None:
        """Leave all jobs to the next process, and tell those who wait for them."""
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
        """Read the places of waiting jobs."""
        while True:
            waiting = [run for run in self._runs.values() if run.waits and run.watched]
            if not waiting:
                self._waiting.clear()
                await self._waiting.wait()
                continue
            await self._look(waiting)
            await asyncio.sleep(LOOK_EVERY_S)

    async def _keep_states(self) -> None:
        """Read jobs whose events may have been missed."""
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
            log.warning("job %d cannot be read: %s", job_id, error)
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
            log.warning("places in line cannot be read: %s", error)
            return
        for run in waiting:
            if (standing := standings.get(run.job.id)) is not None:
                run.stand(standing)


def without_words(job: Job) -> Job:
    """Return a job without what only its server reads of a conversation.

    That is up to 8 MB, and would be in memory as long as a caller waits.
    """
    request = job.request
    if not isinstance(request, Chat) or request.passed_on is None:
        return job
    return _altered(job, request=request.model_copy(update={"passed_on": None}))


async def wait(news: asyncio.Event, within_s: float) -> None:
    """Wait for news, for at most that many seconds."""
    with suppress(TimeoutError):
        async with timeout(within_s):
            await news.wait()


def api_origin(job: Job) -> Origin | None:
    """Return where a program's job came from, None for a job of a chat."""
    if f'"{PLATFORM}"' not in job.reply_to:  # most jobs are from chats
        return None
    origin = origin_in(job.reply_to)
    return origin if origin is not None and origin.platform == PLATFORM else None


def is_api_job(job: Job) -> bool:
    """Return whether a job came from a program."""
    return api_origin(job) is not None
