"""Sends attempts to servers and fetches their output.

Creates the key by which a server recognises an attempt after any crash. Changes no job.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
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
