"""Job runner: runs one job on a backend and stores its outcome.

What runs where is decided by the scheduler, or by recovery after a restart.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, KeysView
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from queueing.core.concurrency import TaskGroup, timeout
from queueing.core.errors import (
    KeyRefused,
    ModelCrashed,
    NotLoaded,
    OutOfMemory,
    ProblemKind,
    StaleJob,
    StoreError,
    Unavailable,
    UnknownFailure,
    UnreadableAnswer,
    problem,
)
from queueing.core.events import JobChanged, Progressed
from queueing.core.jobs import Job, JobEvent
from queueing.core.ports import Clock
from queueing.core.requests import Progress
from queueing.core.snapshot import Start
from queueing.core.specs import ModelSpec, is_far_above
from queueing.engine.attempt_sender import (
    Attempted,
    AttemptSender,
    Lost,
    NeverBegan,
    ProgressEstimate,
    watched,
)
from queueing.engine.event_bus import EventBus
from queueing.engine.fleet.fleet import Fleet
from queueing.engine.fleet.learned_times import LearnedTimes
from queueing.engine.loader import Loader
from queueing.engine.outcomes import Outcomes
from queueing.planning.retry import FIRST_PAUSE_S, Fail, Retry, after_failure, after_loss
from queueing.store.jobs.job_store import JobStore

log = logging.getLogger(__name__)
GIVE_WAY_S = 0.25  # how long fetching a result waits for the next start to be sent


@dataclass(slots=True, eq=False)
class _Attempt:
    """An attempt in progress."""

    task: asyncio.Task[None]
    backend: str | None = None  # None for an attempt that only returns its job to the queue
    started: asyncio.Future[None] | None = None  # done once the start is stored or this is over
    sent: asyncio.Event = field(default_factory=asyncio.Event)  # set when sent or over
    finished: bool = False  # the server has finished; the output has yet to be fetched and stored
    crowded: bool = False  # the server crashed with other jobs there, or after this one's end
    stored: bool = False  # the output is stored; the slot was freed earlier


@dataclass(kw_only=True, eq=False, repr=False)
class JobRunner:
    """Runs each attempt in its own task and makes all its state changes."""

    jobs: JobStore
    fleet: Fleet
    clock: Clock
    sending: AttemptSender
    outcomes: Outcomes
    loader: Loader
    times: LearnedTimes
    bus: EventBus
    runner: str
    _attempts: dict[int, _Attempt] = field(default_factory=dict, init=False)
    # resolved once the next starts are stored
    _ended_now: list[asyncio.Future[None]] = field(default_factory=list, init=False)
    # servers that keep running their jobs after the bot stops
    _left: frozenset[str] = field(default_factory=frozenset, init=False)

    def __post_init__(self) -> None:
        self.attempt_ended: Callable[[], None] = lambda: None

    # ------------------------------------------------------------ the way in

    def begin(self, start: Start, ends_at: float, work: TaskGroup) -> asyncio.Future[None]:
        """Occupy the slot immediately and run the job in a new task.

        The future resolves once the start is stored or another change has preempted it. It raises
        `StoreError` if the store fails; the job does not start then.
        """
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.fleet.jobs.occupy(start.job, start.backend, ends_at)
        attempt = self._spawn(start.job, lambda: self._process(start, started), work, start.backend)
        attempt.started = started
        return started

    def recover(self, job: Job, work: TaskGroup) -> None:
        """Resume a job that was running when the previous run of the bot ended.

        The job occupies its slot while its server is queried and watched.
        """
        spec, backend = self.fleet.catalog.models.get(job.model), job.backend
        if spec is None or backend is None or backend not in self.fleet.serving(spec):
            self._spawn(job, lambda: self._lost(job), work)
            return
        self.fleet.copies.found(spec, backend)
        now, usual_s = self.clock.now(), self.times.service(job, backend).median_s
        # Nobody measured how long the server worked while the bot was down: at most a usual job.
        taken_s = min(usual_s, max(0.0, now - (job.started_at or now)))
        self.fleet.jobs.occupy(job, backend, now + usual_s, taken_s=taken_s)
        attempt = partial(self.sending.resume, job, backend)
        self._spawn(job, lambda: self._run(job, backend, attempt), work, backend).sent.set()

    def cancel(self, job_id: int) -> None:
        """Stop the work on a job that is already stored as ended. Idempotent."""
        attempt = self._attempts.get(job_id)
        if attempt is not None:
            attempt.task.cancel()

    @property
    def under_way(self) -> KeysView[int]:
        """The ids of jobs with an attempt in progress, until its end is stored."""
        return self._attempts.keys()

    def at(self, backend: str) -> frozenset[int]:
        """Return the jobs with an attempt on a backend, even if only their output is fetched."""
        return frozenset(
            job_id for job_id, attempt in self._attempts.items() if attempt.backend == backend
        )

    def take_ended(self) -> list[asyncio.Future[None]]:
        """Return the futures that ended attempts wait for, each only once.

        The caller resolves them once the next starts are on their way.
        """
        ended, self._ended_now = self._ended_now, []
        return ended

    async def stop(self, grace_s: float) -> None:
        """Give running jobs `grace_s` seconds to end, then leave the rest to their servers.

        A job that its server cannot resume later is stopped and returns to its place in the queue.
        """
        tasks = [attempt.task for attempt in self._attempts.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=grace_s)
        self._left = self.sending.leave()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _spawn(
        self,
        job: Job,
        steps: Callable[[], Awaitable[None]],
        work: TaskGroup,
        backend: str | None = None,
    ) -> _Attempt:
        task = work.create_task(self._guarded(job, steps), name=f"job {job.id}")
        attempt = _Attempt(task, backend)
        self._attempts[job.id] = attempt
        # A callback, because a task that is cancelled before its first step never runs its body.
        attempt.task.add_done_callback(lambda _task: self._end_attempt(job.id))
        return attempt

    def _end_attempt(self, job_id: int) -> None:
        attempt = self._attempts.pop(job_id)
        if attempt.started is not None:
            _resolve(attempt.started)
        attempt.sent.set()
        self.attempt_ended()
        self.fleet.jobs.vacate(job_id)
        self.fleet.jobs.meter.forget(job_id)
        if not attempt.stored:
            self.bus.fleet_changed()

    async def _guarded(self, job: Job, steps: Callable[[], Awaitable[None]]) -> None:
        try:
            await steps()
        except asyncio.CancelledError:
            # A job that its server has finished or keeps running stays in state processing. The
            # next run fetches or watches it.
            attempt = self._attempts[job.id]
            if not attempt.finished and attempt.backend not in self._left:
                await self.outcomes.give_back(job, JobEvent.RELEASE)
            raise
        except Exception:
            log.exception("job %d: stopped by a bug", job.id)
            await self.outcomes.give_back(job, JobEvent.FAIL, problem=problem(ProblemKind.BUG))

    # ------------------------------------------------------------ the steps of an attempt

    async def _process(self, start: Start, started: asyncio.Future[None]) -> None:
        begun = await self._start(start, started)
        if begun is not None:
            sent = self._attempts[begun.job.id].sent.set
            attempt = partial(self.sending.send, begun.job, start.backend, sent)
            await self._run(begun.job, start.backend, attempt)

    async def _start(self, start: Start, started: asyncio.Future[None]) -> JobChanged | None:
        """Store a start. Returns None if another change came first or the store failed."""

        def follow(change: JobChanged) -> None:
            _resolve(started)
            self.fleet.jobs.begun(change.job)
            self.bus.publish(change)

        try:
            starting = self.jobs.apply(
                start.job,
                JobEvent.START,
                self.clock.now(),
                runner=self.runner,
                backend=start.backend,
                suspect=start.job.suspect,
            )
            return await self.bus.after(starting, follow)
        except StaleJob:
            return None
        except StoreError as error:
            if not started.done():
                started.set_exception(error)
            return None

    async def _run(self, job: Job, backend: str, attempt: Attempted) -> None:
        spec = self.fleet.catalog.spec_of(job.model)
        try:
            pace = ProgressEstimate(self.fleet.jobs.slots[job.id].ends_at, self.clock.now())
            fetch = await watched(attempt, spec.timeouts, lambda p: self._progressed(job, pace, p))
            # The server has finished, so the slot is free: fetching overlaps with the next job.
            self.fleet.jobs.vacate(job.id)
            self._attempts[job.id].finished = True
            self.fleet.health.worked(backend)
            self.times.job_ended(job, backend)
            await self._give_way(backend)
            output = await self.sending.fetch(fetch, job)
        except Lost:
            await self._lost(job)
        except StoreError as error:
            # The inputs could not be read and nothing was sent, so the job is not to blame.
            log.warning("job %d: %s", job.id, error)
            await self.outcomes.conclude(
                job, JobEvent.RELEASE, not_before=self.clock.now() + FIRST_PAUSE_S
            )
        except Exception as error:  # noqa: BLE001 - every failure of an attempt is the job's outcome
            await self._failed(job, spec, backend, error)
        else:
            taken_s = self.fleet.jobs.meter.taken_s(job.id)
            await self.outcomes.conclude(job, JobEvent.COMPLETE, output=output, gpu_s=taken_s)
            self._attempts[job.id].stored = True

    async def _give_way(self, backend: str) -> None:
        """Let the next job start in the free slot before this result is fetched.

        The server is idle until that job is sent.
        """
        written = asyncio.get_running_loop().create_future()
        self._ended_now.append(written)
        with suppress(TimeoutError):
            async with timeout(GIVE_WAY_S):
                await written
                for attempt in list(self._attempts.values()):
                    if attempt.backend == backend:
                        await attempt.sent.wait()

    def _progressed(self, job: Job, pace: ProgressEstimate, progress: Progress) -> None:
        ends_at = pace.heard(progress, self.clock.now())
        if progress.ahead:
            self.fleet.jobs.hold(job.id)
        elif ends_at:
            self.fleet.jobs.expect(job.id, ends_at)
        if progress.fraction is not None:
            self.fleet.jobs.reach(job.id, progress.fraction)
        self.bus.publish(Progressed(job_id=job.id, progress=progress))

    # ------------------------------------------------------------ outcomes

    async def _failed(self, job: Job, spec: ModelSpec, backend: str, error: Exception) -> None:
        alone = self._note_error(job, backend, error)
        far = is_far_above(job.request, self.sending.usual(job, backend))
        outcome = after_failure(
            job,
            error,
            spec,
            self.clock.now(),
            alone=alone,
            lost_in_a_row=self.fleet.load_failures.of(job.model).count,
            far=far,
        )
        self.fleet.jobs.vacate(job.id)
        if isinstance(error, OutOfMemory) and not far:  # an oversized job must not evict others
            for host in self.fleet.catalog.hosts_of[backend]:
                await self.loader.relieve(host)
        log.warning("job %d on %s: %s: %s", job.id, backend, type(error).__name__, error)
        await self._conclude(job, outcome)

    async def _conclude(self, job: Job, outcome: Retry | Fail) -> None:
        """Store the outcome of a job that has no result."""
        if isinstance(outcome, Fail):
            await self.outcomes.conclude(job, JobEvent.FAIL, problem=outcome.problem)
            return
        await self.outcomes.conclude(
            job,
            JobEvent.RETRY if outcome.charged else JobEvent.RELEASE,
            not_before=outcome.not_before,
            suspect=outcome.suspect,
        )

    def _note_error(self, job: Job, backend: str, error: Exception) -> bool:
        """Record what an error says about its server. Returns whether the job ran alone there."""
        match error:
            case KeyRefused():
                self.fleet.health.doubt_key(backend)
            case Unavailable():
                alone = self._ran_alone(job, backend)
                self.fleet.health.down(backend, str(error))
                return alone
            case ModelCrashed():
                self.fleet.health.look_soon(backend)
                return self._ran_alone(job, backend)
            case UnreadableAnswer() | UnknownFailure():  # up while it passes health checks
                self.fleet.health.look_soon(backend)
            case NotLoaded():
                self.fleet.copies.lost(job.model, backend)
            case NeverBegan():
                self.fleet.health.wedged(backend, str(error))
        return True

    def _ran_alone(self, job: Job, backend: str) -> bool:
        """Return whether a job was alone on a server that crashed, so that it can be blamed.

        Otherwise marks the other jobs there, so that none of them is blamed either.
        """
        others = [j.id for j in self.fleet.jobs.running_on(backend) if j.id != job.id]
        alone = not others and not self._attempts[job.id].crowded
        # A job that had finished did not cause the crash, although it loses its result.
        for other in (*others, *self._fetching_from(backend, but=job.id)):
            self._attempts[other].crowded = True
        return alone

    def _fetching_from(self, backend: str, *, but: int) -> list[int]:
        return [
            job_id
            for job_id, attempt in self._attempts.items()
            if attempt.finished and attempt.backend == backend and job_id != but
        ]

    async def _lost(self, job: Job) -> None:
        """Requeue a job whose attempt no server knows, or fail it."""
        await self._conclude(job, after_loss(job, self.clock.now()))


def _resolve(started: asyncio.Future[None]) -> None:
    if not started.done():
        started.set_result(None)
