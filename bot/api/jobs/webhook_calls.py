"""Calls webhooks: a few at once for each origin, again after failures, for a day at most."""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus

import aiohttp
from yarl import URL

from bot.api.jobs.webhooks import hook_call, is_allowed, origin_of
from bot.core.origin import Hook
from bot.core.queue import JobReader
from queueing.core.concurrency import TaskGroup
from queueing.core.errors import StoreError
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
    hook: Hook
    tries: int = 0


class HookCalls:
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
