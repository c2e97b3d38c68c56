"""Attempts: how an attempt reaches its server, and how its output comes back.

Owns the attempt's key, by which its server knows it after any crash; changes no job.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from uuid import uuid5

from queueing.core.concurrency import timeout
from queueing.core.errors import BackendError, Fenced, ResultGone, Unavailable, UnreadableAnswer
from queueing.core.jobs import Job
from queueing.core.ports import Backend, Clock, Fetch, Recorded, Report
from queueing.core.quick import altering
from queueing.core.requests import File, Output, Progress, Work
from queueing.engine.fleet import Fleet
from queueing.planning.retry import pause_s
from queueing.store.jobs.job_store import JobStore

log = logging.getLogger(__name__)
_altered = altering(Job)

FETCH_TRIES = 5
ABANDON_S = 5.0  # long enough to ask whether a server still works on a cancelled job
RESUME_PATIENCE_S = 60.0  # how long an unreachable server may keep what it has finished

Attempted = Callable[[Report], Awaitable[Fetch]]
"""An attempt that still needs a receiver for its progress."""


class Lost(Exception):
    """The server does not know an attempt that was sent before a crash."""


class Sending:
    """Sends attempts to servers and fetches their results, while this process `held` the queue."""

    def __init__(
        self,
        *,
        jobs: JobStore,
        fleet: Fleet,
        backends: Mapping[str, Backend],
        clock: Clock,
        held: Callable[[], bool],
    ) -> None:
        self._jobs = jobs
        self._fleet = fleet
        self._backends = backends
        self._clock = clock
        self.held = held

    def prepare(self, job: Job, backend: str) -> "PreparedAttempt":
        """Begin to prepare the next attempt of a waiting job."""
        return PreparedAttempt(self, _altered(job, sendings=job.sendings + 1), backend)

    def usual(self, job: Job, backend: str) -> Mapping[str, float]:
        """Return the numbers a job's model works with there where a request names none."""
        server, known = self._backends.get(backend), self._fleet.catalog.models
        if server is None or job.model not in known:
            return {}  # taken out of the configuration meanwhile
        return server.usual(self._fleet.spec(job.model, backend))

    async def send(self, job: Job, backend: str, report: Report, recorded: Recorded) -> Fetch:
        """Run a job on a backend once its start is `recorded`.

        Returns when the server has finished it. Everything is prepared while the start is being
        stored.
        """
        spec, server = self._fleet.spec(job.model, backend), self._backends[backend]
        files = await self._jobs.inputs(job) or ()
        if job.suspect:
            await recorded()
        fetch = await self._found_before(job, files, backend, report)
        return fetch or await server.run(spec, self._work(job, files), report, recorded)

    async def resume(self, job: Job, backend: str, report: Report) -> Fetch:
        """Resume an attempt that was sent before a crash; return when its server has finished it.

        Raises `Lost` when the server does not know it, otherwise as `send`. A server that is away
        is asked again for `RESUME_PATIENCE_S`.
        """
        spec, server = self._fleet.spec(job.model, backend), self._backends[backend]
        files = await self._jobs.inputs(job) or ()
        give_up_at = self._clock.now() + RESUME_PATIENCE_S
        while True:
            try:
                fetch = await server.resume(spec, self._work(job, files), report)
            except Unavailable as error:
                self._fleet.health.down(backend, str(error))
                if self._clock.now() >= give_up_at:
                    raise
                await asyncio.sleep(2.0)
            else:
                fetch = fetch or await self._found_before(job, files, backend, report)
                if fetch is None:
                    raise Lost
                return fetch

    async def _found_before(
        self, job: Job, files: tuple[File, ...], backend: str, report: Report
    ) -> Fetch | None:
        """Resume the attempt before the newest one, if that is useful.

        Perhaps only the connection broke under a suspect, and the server is still working on it or
        finished long ago.
        """
        if not job.suspect:
            return None
        spec, server = self._fleet.spec(job.model, backend), self._backends[backend]
        try:
            return await server.resume(spec, self._work(job, files, ago=1), report)
        except BackendError as error:  # has been handled
            log.info("job %d: its previous attempt is of no use: %s", job.id, error)
            return None

    async def fetch(self, fetch: Fetch, job: Job) -> Output:
        """Fetch the output; a broken connection is no reason to generate it again.

        One that the server no longer has is not asked for twice.
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
        """Stop what a server may still do for a job that was cancelled as the last run ended.

        Takes at most `ABANDON_S` and never fails. Idempotent.
        """
        spec = self._fleet.catalog.models.get(job.model)
        if spec is None or job.backend is None or job.backend not in self._fleet.serving(spec):
            return
        try:
            work = self._work(job, await self._jobs.inputs(job) or ())
            async with timeout(ABANDON_S):  # giving up on an attempt stops it
                await self._backends[job.backend].resume(spec, work, _unheard)
        except TimeoutError:
            log.info("job %d was cancelled: stopped on %s", job.id, job.backend)
        except Exception as error:  # noqa: BLE001 - a courtesy to the server; no caller waits for it
            log.info("job %d was cancelled: %s: %s", job.id, job.backend, error)

    def leave(self) -> frozenset[str]:
        """Let servers keep running their attempts without a caller; return the servers that do."""
        return frozenset(name for name, server in self._backends.items() if server.leave())

    def _work(self, job: Job, files: tuple[File, ...], *, ago: int = 0) -> Work:
        """Return the attempt at a job that was sent last, or `back` attempts before it."""
        key = uuid5(self._jobs.database_id, f"{job.id}:{job.sendings - ago}")
        return Work(key=str(key), request=job.request, files=files)


class PreparedAttempt:
    """An attempt that is prepared while its start is being stored, and sent once it is."""

    def __init__(self, sending: Sending, job: Job, backend: str) -> None:
        self._held = sending.held
        self._report: Report | None = None
        self._stored = asyncio.Event()
        attempt = sending.send(job, backend, self._progressed, self._recorded)
        self._ended = asyncio.create_task(attempt, name=f"sending of job {job.id}")

    def send(self) -> None:
        """Let it be sent: its start is stored."""
        self._stored.set()

    async def run(self, report: Report) -> Fetch:
        """Return its result, reporting progress from now on. Cancelling cancels the attempt."""
        self._report = report
        return await self._ended

    async def aclose(self) -> None:
        """Give it up, on its server too, unless it has ended. Idempotent."""
        if not self._ended.done():
            self._ended.cancel()
            await asyncio.wait([self._ended])
        if not self._ended.cancelled():
            self._ended.exception()  # reported already, or of no further use

    async def _recorded(self) -> None:
        """Wait until it may be sent: another process may have begun the job if this one was frozen.

        Raises `Fenced`.
        """
        await self._stored.wait()
        if not self._held():
            raise Fenced("the queue is no longer held here: nothing is sent")

    def _progressed(self, progress: Progress) -> None:
        if self._report is not None:
            self._report(progress)


def _unheard(_progress: Progress) -> None:
    """Receive progress that has no reader."""
