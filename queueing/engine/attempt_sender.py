"""Sends attempts to servers, watches their time and progress, and fetches their output.

Creates the key by which a server recognises an attempt after any crash. Changes no job.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from uuid import uuid5

from queueing.core.concurrency import timeout, timeout_at
from queueing.core.errors import BackendError, Fenced, ResultGone, Unavailable, UnreadableAnswer
from queueing.core.jobs import Job
from queueing.core.ports import Backend, Clock, Fetch, Report
from queueing.core.requests import File, Output, Progress, Work
from queueing.core.specs import Timeouts
from queueing.engine.fleet.fleet import Fleet
from queueing.planning.retry import pause_s
from queueing.store.jobs.job_store import JobStore

log = logging.getLogger(__name__)

FETCH_TRIES = 5
ABANDON_S = 5.0  # enough to ask whether a server still works on a cancelled job
RESUME_PATIENCE_S = 60.0  # how long to retry an unreachable server that may hold a result

Attempted = Callable[[Report], Awaitable[Fetch]]
"""An attempt that still needs a callback for its progress."""


class Lost(Exception):
    """The server does not know an attempt that was sent before a crash."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AttemptSender:
    """Sends attempts and fetches results while this process has the queue's lease (`held`)."""

    jobs: JobStore
    fleet: Fleet
    backends: Mapping[str, Backend]
    clock: Clock
    held: Callable[[], bool]

    def usual(self, job: Job, backend: str) -> Mapping[str, float]:
        """Return the default values of a job's model on a backend, for requests that name none."""
        server, known = self.backends.get(backend), self.fleet.catalog.models
        if server is None or job.model not in known:
            return {}  # removed from the configuration by a reload
        return server.usual(self.fleet.spec(job.model, backend))

    async def send(self, job: Job, backend: str, sent: Callable[[], None], report: Report) -> Fetch:
        """Run a job whose start is stored. Returns once the server has finished it.

        Calls `sent` right before the request goes out. Raises `Fenced` if this process lost the
        queue's lease, for instance because it was frozen: another process may have begun the job.
        """
        spec, server = self.fleet.spec(job.model, backend), self.backends[backend]
        files = await self.jobs.inputs(job) or ()
        if not self.held():
            raise Fenced("this process has lost the queue's lease: nothing is sent")
        sent()
        fetch = await self._resume_previous(job, files, backend, report)
        return fetch or await server.run(spec, self._work(job, files), report)

    async def resume(self, job: Job, backend: str, report: Report) -> Fetch:
        """Resume an attempt that was sent before a crash. Returns once its server has finished it.

        Raises `Lost` if the server does not know the attempt, otherwise the same errors as `send`.
        An unreachable server is retried for `RESUME_PATIENCE_S`.
        """
        spec, server = self.fleet.spec(job.model, backend), self.backends[backend]
        files = await self.jobs.inputs(job) or ()
        give_up_at = self.clock.now() + RESUME_PATIENCE_S
        while True:
            try:
                fetch = await server.resume(spec, self._work(job, files), report)
            except Unavailable as error:
                self.fleet.health.failed(backend, error)
                if self.clock.now() >= give_up_at:
                    raise
                await asyncio.sleep(2.0)
            else:
                fetch = fetch or await self._resume_previous(job, files, backend, report)
                if fetch is None:
                    raise Lost
                return fetch

    async def _resume_previous(
        self, job: Job, files: tuple[File, ...], backend: str, report: Report
    ) -> Fetch | None:
        """Resume the previous attempt of a suspect, if its server still has it.

        Perhaps only the connection broke, and the server has finished the attempt or is still
        working on it.
        """
        if not job.suspect:
            return None
        spec, server = self.fleet.spec(job.model, backend), self.backends[backend]
        try:
            return await server.resume(spec, self._work(job, files, ago=1), report)
        except BackendError as error:  # its cause has been handled already
            log.info("job %d: its previous attempt cannot be resumed: %s", job.id, error)
            return None

    async def fetch(self, fetch: Fetch, job: Job) -> Output:
        """Fetch the output, retrying when the connection breaks instead of generating it again.

        Raises `ResultGone` without a retry if the server no longer has the output.
        """
        for tries in range(1, FETCH_TRIES):
            try:
                return await fetch()
            except ResultGone:
                raise
            except (Unavailable, UnreadableAnswer) as error:
                log.warning("job %d: fetching its output failed: %s", job.id, error)
                await asyncio.sleep(pause_s(tries))
        return await fetch()

    async def abandon(self, job: Job) -> None:
        """Stop the server's work on a job that was cancelled as the last run was ending.

        Takes at most `ABANDON_S` and never raises. Idempotent.
        """
        spec = self.fleet.catalog.models.get(job.model)
        if spec is None or job.backend is None or job.backend not in self.fleet.serving(spec):
            return
        try:
            work = self._work(job, await self.jobs.inputs(job) or ())
            async with timeout(ABANDON_S):  # cancelling a resumed attempt stops it
                await self.backends[job.backend].resume(spec, work, _ignore_progress)
        except TimeoutError:
            log.info("job %d was cancelled: stopped on %s", job.id, job.backend)
        except Exception as error:  # noqa: BLE001 - a courtesy to the server; no caller waits for it
            log.info("job %d was cancelled: %s: %s", job.id, job.backend, error)

    def leave(self) -> frozenset[str]:
        """Let servers finish their attempts after this process ends. Returns those that will."""
        return frozenset(name for name, server in self.backends.items() if server.leave())

    def _work(self, job: Job, files: tuple[File, ...], *, ago: int = 0) -> Work:
        """Return the newest attempt at a job, or the one `ago` attempts earlier."""
        key = uuid5(self.jobs.database_id, f"{job.id}:{job.sendings - ago}")
        return Work(key=str(key), request=job.request, files=files)


def _ignore_progress(_progress: Progress) -> None:
    """Ignore progress."""


class NeverBegan(TimeoutError):
    """A server accepted a job but sent no sign of progress within `first_s`."""


async def watched(
    call: Callable[[Report], Awaitable[Fetch]], timeouts: Timeouts, report: Report
) -> Fetch:
    """Await `call(report)` while signs of progress arrive in time.

    Cancels the call on a timeout. Raises `NeverBegan` if the first sign is missing, and
    `TimeoutError` if the server falls silent later or takes longer than `total_s`.
    """
    signs = _Signs(timeouts, report)
    try:
        async with signs.limit:
            signs.look()
            return await call(signs.note)
    except TimeoutError:
        if not signs.limit.expired():
            raise
        raise signs.missing() from None
    finally:
        signs.close()


class _Signs:
    """The signs of progress of one attempt; `limit` expires when the next one is late.

    A single timer checks again when it fires, so that hundreds of signs a second do not each need
    their own timer.
    """

    def __init__(self, timeouts: Timeouts, report: Report) -> None:
        self.limit = timeout_at(None)
        self._timeouts = timeouts
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._began = self._heard_at = self._loop.time()
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def note(self, progress: Progress) -> None:
        """Record a sign of progress and pass it on."""
        if self._closed or self.limit.expired():
            return
        self._heard_at = self._loop.time()
        if progress.ahead is None:  # otherwise the attempt is still queued on the server
            self._count += 1
            if self._count == 1:
                self.look()  # from now on `idle_s` applies, which may be shorter
        self._report(progress)

    def look(self) -> None:
        """Expire the limit if a sign is late, otherwise schedule the next check."""
        if self._timer is not None:
            self._timer.cancel()
        ends = self._ends()
        if ends is not None and ends <= self._loop.time():
            self.limit.reschedule(ends)
        elif ends is not None:
            self._timer = self._loop.call_at(ends, self.look)

    def missing(self) -> TimeoutError:
        """Return the error for the missing sign."""
        took_s = self._loop.time() - self._began
        silent_for = f"after {took_s:.0f} s"
        if not self._count and took_s < (self._timeouts.total_s or float("inf")):
            return NeverBegan(f"no sign of progress {silent_for}")
        return TimeoutError(f"given up {silent_for}, {self._count} signs of progress")

    def close(self) -> None:
        """Ignore all further signs: rescheduling an expired timeout raises in asyncio."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _ends(self) -> float | None:
        silent_s = self._timeouts.idle_s if self._count else self._timeouts.first_s
        ends = [self._heard_at + silent_s] if silent_s is not None else []
        if self._timeouts.total_s is not None:
            ends.append(self._began + self._timeouts.total_s)
        return min(ends, default=None)


_NEARLY = 0.8  # share of the work done: from here on the job may end sooner than usual
_ENOUGH = 3  # steps between two estimates: fewer are too noisy


class ProgressEstimate:
    """Estimates when an attempt ends, from its steps.

    The learned time is used until this job proves slower, as with the first image of a new size. A
    faster job does not shorten it, because more stages may follow.
    """

    def __init__(self, ends_at: float, now: float = 0.0) -> None:
        self._usual_end = ends_at
        self._usual_s = ends_at - now
        self._held = False  # queued on its server behind other clients' prompts
        self._first = self._last = (0, 0)  # (step, total) of the current stage
        self._began = 0.0

    def heard(self, progress: Progress, now: float) -> float | None:
        """Process a sign of progress. Returns the expected end if it changes."""
        if progress.ahead:
            self._held = True
            return None
        begins, self._held = self._held, False
        if begins:
            self._usual_end = now + self._usual_s
        if progress.step is None:
            return self._usual_end if begins else None
        ends_at = self.seen(progress.step, now)
        return ends_at and self._earlier_end(progress, now, ends_at)

    def _earlier_end(self, progress: Progress, now: float, ends_at: float) -> float:
        """Return an earlier end for a job that is nearly done, based on its share of all work."""
        share, (number, total) = progress.fraction or 0.0, progress.step or (0, 0)
        done = number - self._first[0]
        if share < _NEARLY or not done:
            return ends_at
        step_s = (now - self._began) / done
        rest_s = step_s * total * (1.0 - share) / share
        return min(ends_at, now + max(rest_s, step_s * max(0, total - number)))

    def seen(self, step: tuple[int, int], now: float) -> float | None:
        """Process a finished step. Returns the expected end once it can be estimated.

        `step` is the number of the step and the total of its stage.
        """
        (number, total), before = step, self._last
        self._last = step
        if total != before[1] or number < before[0]:  # the next stage counts from its own start
            self._first, self._began = step, now
        done = number - self._first[0]
        if done < _ENOUGH:
            return None
        left_s = (now - self._began) / done * max(0, total - number)
        return max(self._usual_end, now + left_s)
