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
from queueing.core.ports import Backend, Clock, Fetch, Report
from queueing.core.requests import File, Output, Progress, Work
from queueing.engine.fleet.fleet import Fleet
from queueing.planning.retry import pause_s
from queueing.store.jobs.job_store import JobStore

log = logging.getLogger(__name__)

FETCH_TRIES = 5
ABANDON_S = 5.0  # long enough to ask whether a server still works on a cancelled job
RESUME_PATIENCE_S = 60.0  # how long an unreachable server may keep what it has finished

Attempted = Callable[[Report], Awaitable[Fetch]]
"""An attempt that still needs a receiver for its progress."""


class Lost(Exception):
    """The server does not know an attempt that was sent before a crash."""


class AttemptSender:
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
        self._held = held

    def usual(self, job: Job, backend: str) -> Mapping[str, float]:
        """Return the numbers a job's model works with there where a request names none."""
        server, known = self._backends.get(backend), self._fleet.catalog.models
        if server is None or job.model not in known:
            return {}  # taken out of the configuration meanwhile
        return server.usual(self._fleet.spec(job.model, backend))

    async def send(self, job: Job, backend: str, sent: Callable[[], None], report: Report) -> Fetch:
        """Run a job whose start is stored; return when the server has finished it.

        Calls `sent` right before the server is asked. Another process may have begun the job if
        this one was frozen: raises `Fenced` then.
        """
        spec, server = self._fleet.spec(job.model, backend), self._backends[backend]
        files = await self._jobs.inputs(job) or ()
        if not self._held():
            raise Fenced("the queue is no longer held here: nothing is sent")
        sent()
        fetch = await self._found_before(job, files, backend, report)
        return fetch or await server.run(spec, self._work(job, files), report)

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


def _unheard(_progress: Progress) -> None:
    """Receive progress that has no reader."""
