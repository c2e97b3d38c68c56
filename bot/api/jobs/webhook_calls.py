"""Calls webhooks when jobs end: a few at a time per origin, with retries for a day.

An ended job stays unacknowledged until its webhook was called, so the call survives a crash. Once
the job is acknowledged, retention may delete it. If several processes serve the API, only the one
that runs the queue makes calls, so each webhook is called once. After a failover, the new leader
continues.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import KW_ONLY, dataclass, field, replace
from http import HTTPStatus

import aiohttp
from yarl import URL

from backends.common.proxies import NO_PROXIES, Proxies, through
from bot.api.jobs.webhooks import hook_call, is_allowed, origin_of
from bot.api.runs.runs import api_origin
from bot.core.origin import Webhook
from bot.core.queue import Deliveries, JobReader
from queueing.core.concurrency import TaskGroup, together
from queueing.core.errors import StoreError
from queueing.core.events import Erased, Event, JobChanged
from queueing.core.jobs import Job
from queueing.core.ports import Clock

log = logging.getLogger(__name__)

AT_ONCE = 4  # concurrent calls to one origin
TRY_S = 10.0
PAUSES_S = (10.0, 60.0, 300.0, 1800.0, 3600.0, 7200.0)
"""Pauses before each retry of a failed call. The last one repeats until `END_S`."""
END_S = 24 * 3600.0
"""How long after the end of the job a call is retried."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HookSettings:
    """Allowed origins, proxies, the key that signatures are derived from, and the API's URL."""

    origins: Collection[str] = ()
    key: bytes = b""
    url: str | None = None
    proxies: Proxies = NO_PROXIES


@dataclass(frozen=True, kw_only=True, slots=True)
class OwedCall:
    """A webhook call that is still to be made, and how often it was tried."""

    job_id: int
    ended_at: float
    hook: Webhook
    tries: int = 0


@dataclass(eq=False, repr=False)
class WebhookCalls:
    """Makes webhook calls until they succeed or time out, then reports each job to `settled`.

    An origin that hangs only delays its own calls.
    """

    settings: HookSettings
    _: KW_ONLY
    jobs: JobReader
    clock: Clock
    settled: Callable[[int], None]
    _queues: dict[str, asyncio.Queue[OwedCall]] = field(default_factory=dict, init=False)
    _tasks: TaskGroup | None = field(default=None, init=False)
    _session: aiohttp.ClientSession | None = field(default=None, init=False)

    async def run(self) -> None:
        """Make calls until cancelled."""
        async with (
            aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=TRY_S),
                auto_decompress=False,
            ) as self._session,
            TaskGroup() as self._tasks,
        ):
            for name in self._queues:
                self._begin(name)
            await asyncio.get_running_loop().create_future()

    def owe(self, owed: OwedCall) -> None:
        """Queue a call."""
        if not is_allowed(owed.hook.url, self.settings.origins):
            log.warning(
                "job %d: webhook not called: its origin is not listed in api.webhooks", owed.job_id
            )
            self.settled(owed.job_id)
            return
        name = origin_of(owed.hook.url)
        if name not in self._queues:
            self._queues[name] = asyncio.Queue()
            self._begin(name)
        self._queues[name].put_nowait(owed)

    def _begin(self, name: str) -> None:
        if self._tasks is not None:
            for _ in range(AT_ONCE):
                self._tasks.create_task(self._work(name, self._queues[name]))

    async def _work(self, name: str, queue: "asyncio.Queue[OwedCall]") -> None:
        while True:
            owed = await queue.get()
            try:
                failure = await self._try(owed)
            except StoreError as error:
                failure = str(error)
            except Exception:
                log.exception("job %d: the webhook call failed because of a bug", owed.job_id)
                failure = "a bug"
            if failure is None:
                self.settled(owed.job_id)
            else:
                self._again(name, owed, failure)

    async def _try(self, owed: OwedCall) -> str | None:
        """Make one attempt. Returns the reason for a failure, or None."""
        job = await self.jobs.get(owed.job_id)
        if job is None or self._session is None:  # the job was erased
            return None
        settings = self.settings
        now = self.clock.now()
        call = hook_call(job, owed.hook, key=settings.key, now=now, url=settings.url)
        proxy = settings.proxies.to(owed.hook.url)
        try:
            async with self._session.post(
                URL(owed.hook.url),
                data=call.body,
                headers=call.headers,
                proxy=proxy,
                allow_redirects=False,
            ) as answer:
                told = answer.ok and answer.status < HTTPStatus.MULTIPLE_CHOICES
                given_up = answer.status == HTTPStatus.GONE
                return None if told or given_up else f"status {answer.status}"
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            # The message may contain the URL, which may contain a secret.
            return f"{type(error).__name__}{through(proxy)}"

    def _again(self, name: str, owed: OwedCall, failure: str) -> None:
        pause_s = PAUSES_S[min(owed.tries, len(PAUSES_S) - 1)]
        if self.clock.now() + pause_s > owed.ended_at + END_S:
            log.warning("job %d: giving up on its webhook at %s: %s", owed.job_id, name, failure)
            self.settled(owed.job_id)
            return
        log.info(
            "job %d: webhook call to %s failed (%s); retrying in %.0f s",
            *(owed.job_id, name, failure, pause_s),
        )
        again = replace(owed, tries=owed.tries + 1)
        asyncio.get_running_loop().call_later(pause_s, self._queues[name].put_nowait, again)


TOGETHER_S = 1.0
"""How long ended jobs are collected before one transaction acknowledges them."""
AGAIN_S = 30.0


class JobEndings:
    """Acknowledges the ended jobs of programs once their webhooks were called."""

    def __init__(
        self, hooks: HookSettings, *, deliveries: Deliveries, jobs: JobReader, clock: Clock
    ) -> None:
        self._hooks = hooks
        self._deliveries = deliveries
        self._jobs = jobs
        self._clock = clock
        self._ended: dict[int, Job] = {}
        self._news = asyncio.Event()
        self._finished: set[int] = set()

    def on_event(self, event: Event) -> None:
        """Record a queue event. Never blocks."""
        match event:
            case JobChanged(job=job) if job.state.final and not job.acknowledged:
                self._note(job)
            case Erased(job_ids=job_ids):
                for job_id in job_ids:
                    self._ended.pop(job_id, None)

    async def run(self) -> None:
        """Serve until cancelled, starting with the jobs that an earlier run left."""
        calls = WebhookCalls(self._hooks, jobs=self._jobs, clock=self._clock, settled=self._settle)
        owed: set[int] = set()
        async with TaskGroup() as tasks:
            tasks.create_task(calls.run())
            for job in await self._left():
                self._note(job)
            while True:
                await self._news.wait()
                self._news.clear()
                for job in [job for job in self._ended.values() if job.id not in owed]:
                    owed.add(job.id)
                    origin = api_origin(job)
                    if origin is None or origin.hook is None:
                        self._finished.add(job.id)
                    else:
                        ended_at = job.finished_at or 0.0
                        calls.owe(OwedCall(job_id=job.id, ended_at=ended_at, hook=origin.hook))
                await asyncio.sleep(TOGETHER_S)
                owed -= await self._acknowledge()

    async def _left(self) -> Collection[Job]:
        while True:
            try:
                return [job for job in await self._deliveries.to_tell(0, 0) if job.state.final]
            except StoreError as error:
                log.warning("cannot read the jobs that ended in an earlier run: %s", error)
                await asyncio.sleep(AGAIN_S)

    def _note(self, job: Job) -> None:
        if api_origin(job) is not None:
            self._ended[job.id] = job
            self._news.set()

    def _settle(self, job_id: int) -> None:
        self._finished.add(job_id)
        self._news.set()

    async def _acknowledge(self) -> set[int]:
        """Acknowledge the settled jobs. Returns the numbers of those that need no more work."""
        done = {number for number in self._finished if number in self._ended}
        jobs = [self._ended[number] for number in done]
        try:
            # Together, so that they share one transaction.
            await together(*map(self._deliveries.acknowledge, jobs))
        except StoreError as error:
            log.warning("cannot acknowledge ended jobs: %s", error)
            self._news.set()
            await asyncio.sleep(AGAIN_S)
            done = set()
        for number in done:
            self._ended.pop(number, None)
        gone = {number for number in self._finished if number not in self._ended}
        self._finished -= done | gone
        return done | gone
