"""Calls webhooks when jobs end: a few at once for each origin, again after failures, for a day.

An ended job stays unacknowledged until its webhook was called, so that no crash loses the call;
once acknowledged, retention may delete it. Of several processes that serve the API, the one that
holds the queue does so for all: so each webhook is called once, and after a failover by the next
holder.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus

import aiohttp
from yarl import URL

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

AT_ONCE = 4  # calls to one origin
TRY_S = 10.0
PAUSES_S = (10.0, 60.0, 300.0, 1800.0, 3600.0, 7200.0)
"""How long until a failed call is repeated; the last is used again until the end."""
END_S = 24 * 3600.0
"""How long after its job's end a call is repeated."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HookSettings:
    """The origins that may be called, the key signatures are made from, and the API's address."""

    origins: Collection[str] = ()
    key: bytes = b""
    url: str | None = None
    pauses_s: Sequence[float] = field(default_factory=lambda: PAUSES_S)


@dataclass(frozen=True, kw_only=True, slots=True)
class OwedCall:
    """The end of a job that its program has not been told, and how often that was tried."""

    job_id: int
    ended_at: float
    hook: Webhook
    tries: int = 0


class WebhookCalls:
    """Calls what is owed until it is told or given up, then reports it to `settled`.

    One origin that hangs keeps only its own calls waiting.
    """

    def __init__(
        self,
        settings: HookSettings,
        *,
        jobs: JobReader,
        clock: Clock,
        settled: Callable[[int], None],
    ) -> None:
        self._settings = settings
        self._jobs = jobs
        self._clock = clock
        self._settled = settled
        self._queues: dict[str, asyncio.Queue[OwedCall]] = {}
        self._tasks: TaskGroup | None = None
        self._session: aiohttp.ClientSession | None = None

    async def run(self) -> None:
        """Call until cancelled."""
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
        """Take a call to make."""
        if not is_allowed(owed.hook.url, self._settings.origins):
            log.warning("job %d: its webhook is no longer listed", owed.job_id)
            self._settled(owed.job_id)
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
                log.exception("job %d: its webhook was stopped by a bug", owed.job_id)
                failure = "a bug"
            if failure is None:
                self._settled(owed.job_id)
            else:
                self._again(name, owed, failure)

    async def _try(self, owed: OwedCall) -> str | None:
        """Make a call once; return why it failed, or None."""
        job = await self._jobs.get(owed.job_id)
        if job is None or self._session is None:  # forgotten
            return None
        settings = self._settings
        now = self._clock.now()
        call = hook_call(job, owed.hook, key=settings.key, now=now, url=settings.url)
        try:
            async with self._session.post(
                URL(owed.hook.url), data=call.body, headers=call.headers, allow_redirects=False
            ) as answer:
                told = answer.ok and answer.status < HTTPStatus.MULTIPLE_CHOICES
                given_up = answer.status == HTTPStatus.GONE
                return None if told or given_up else f"status {answer.status}"
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return type(error).__name__  # its text may hold the address, which may hold a secret

    def _again(self, name: str, owed: OwedCall, failure: str) -> None:
        pauses = self._settings.pauses_s
        pause_s = pauses[min(owed.tries, len(pauses) - 1)]
        if self._clock.now() + pause_s > owed.ended_at + END_S:
            log.warning("job %d: its webhook at %s is given up: %s", owed.job_id, name, failure)
            self._settled(owed.job_id)
            return
        log.info(
            "job %d: its webhook at %s failed (%s); again in %.0f s",
            *(owed.job_id, name, failure, pause_s),
        )
        again = replace(owed, tries=owed.tries + 1)
        asyncio.get_running_loop().call_later(pause_s, self._queues[name].put_nowait, again)


TOGETHER_S = 1.0
"""How long ended jobs are gathered, to be acknowledged in one transaction."""
AGAIN_S = 30.0


class JobEndings:
    """Acknowledges the ends of programs' jobs. `on_event` listens to the queue."""

    def __init__(
        self, hooks: HookSettings, *, deliveries: Deliveries, jobs: JobReader, clock: Clock
    ) -> None:
        self._hooks = hooks
        self._deliveries = deliveries
        self._jobs = jobs
        self._clock = clock
        self._ended: dict[int, Job] = {}
        self._news = asyncio.Event()
        self._told: set[int] = set()

    def on_event(self, event: Event) -> None:
        """Record an event of the queue; never blocks."""
        match event:
            case JobChanged(job=job) if job.state.final and not job.acknowledged:
                self._note(job)
            case Erased(job_ids=job_ids):
                for job_id in job_ids:
                    self._ended.pop(job_id, None)

    async def run(self) -> None:
        """Serve until cancelled; begins with what an earlier run left."""
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
                        self._told.add(job.id)
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
                log.warning("ended jobs of an earlier run cannot be read: %s", error)
                await asyncio.sleep(AGAIN_S)

    def _note(self, job: Job) -> None:
        if api_origin(job) is not None:
            self._ended[job.id] = job
            self._news.set()

    def _settle(self, job_id: int) -> None:
        self._told.add(job_id)
        self._news.set()

    async def _acknowledge(self) -> set[int]:
        """Acknowledge what was told; return the numbers of jobs that are done with."""
        told = {number for number in self._told if number in self._ended}
        jobs = [self._ended[number] for number in told]
        try:
            await together(*map(self._deliveries.acknowledge, jobs))  # at once: one transaction
        except StoreError as error:
            log.warning("the ends of jobs cannot be acknowledged: %s", error)
            self._news.set()
            await asyncio.sleep(AGAIN_S)
            told = set()
        for number in told:
            self._ended.pop(number, None)
        gone = {number for number in self._told if number not in self._ended}
        self._told -= told | gone
        return told | gone
