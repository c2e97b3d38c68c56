"""The content of the operator's page as JSON, read once for all open pages.

To the records of `bot/monitoring/` it adds reasons in the reader's language and the first waiting
jobs of each queue. If several processes share the work, it also names the one serving the page.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

from bot.monitoring.dashboard import Dashboard, to_json
from bot.monitoring.live_state import LiveState, QueueNow
from bot.monitoring.records import HourSpan, LogLine, PeopleSpan
from bot.platforms.web.chat.renderer import shown_body
from bot.texts import status
from bot.texts.reasons import because
from bot.texts.refusals import told
from queueing.core.concurrency import timeout
from queueing.core.errors import Problem, QueueError
from queueing.core.jobs import Job, JobState
from queueing.core.leases import LeaseReader
from queueing.core.snapshot import Reason

JOBS_SHOWN = 15  # per queue; the others are counted

Json = dict[str, Any]

LogLines = Callable[[int], Sequence[LogLine]]
"""Returns the log's newest lines after a number, oldest first."""


class JobsSeen(Protocol):
    """Reads jobs for operators. Both calls raise `QueueError`."""

    async def open_jobs(self) -> list[Job]:
        """Return all open jobs, oldest first."""

    async def get(self, job_id: int) -> Job | None:
        """Return a job, or None."""


class DashboardData:
    """Renders the bot's state for its operators.

    Its coroutines raise only `QueueError`s. Equal states give equal bytes, because no answer
    contains a running clock. So a page is sent only changes.
    """

    def __init__(
        self,
        records: Dashboard,
        jobs: JobsSeen,
        roles: LeaseReader | None = None,
        log: LogLines = lambda _: (),
    ) -> None:
        self._records = records
        self._jobs = jobs
        self._roles = roles
        self._log = log

    async def now(self, language: str) -> bytes:
        """Return the hosts with their memory and running jobs, and every queue."""
        live = await self._records.read_now()
        waiting = _by_queue(await self._jobs.open_jobs())
        drawn: Json = json.loads(to_json(replace(live, at=0.0)))
        for shown, host in zip(drawn["hosts"], live.hosts, strict=True):
            shown["rest"] = _words(host.rest, language)
        for shown, queue in zip(drawn["queues"], live.queues, strict=True):
            shown.update(_of_queue(queue, waiting.get(queue.model, ()), live, language))
            del shown["oldest_s"], shown["reason"]
        return _written(drawn | {"cluster": await self._cluster()})

    async def hours(self, span: HourSpan, language: str) -> bytes:
        """Return the history of a span; errors with what the newest job's owner was told."""
        hours = await self._records.read_hours(span)
        drawn: Json = json.loads(to_json(hours))
        for shown in drawn["errors"]:
            newest = shown["newest"]
            job = None if newest is None else await self._jobs.get(newest)
            shown["told"] = "" if job is None else _told(job, language)
        return _written(drawn)

    async def people(self, span: PeopleSpan = PeopleSpan.TODAY) -> bytes:
        """Return usage by person in a span, bans, and the newest admin actions."""
        return to_json(replace(await self._records.read_people(span), at=0.0))

    async def job(self, job_id: int, language: str) -> bytes | None:
        """Return what happened to a job, without what it was about; None if it is gone."""
        job = await self._jobs.get(job_id)
        if job is None:
            return None
        ends = {"state": job.state, "began": job.started_at, "ended": job.finished_at}
        more = {"backend": job.backend, "attempt": job.attempt, "told": _told(job, language)}
        return _written(_of_job(job) | ends | more)

    def log(self, after: int) -> bytes:
        """Return the newest lines of this process's log after a number."""
        return _written({"lines": [asdict(line) for line in self._log(after)]})

    async def _cluster(self) -> Json | None:
        """Return the processes that serve the page and hold the queue, if they differ."""
        if self._roles is None:
            return None
        holders = {role.name: role.holder for role in await self._roles.roles()}
        here, queue = holders.get("web", ""), holders.get("queue", "")
        return None if here == queue else {"here": here, "queue": queue}


def _of_queue(queue: QueueNow, waiting: Sequence[Job], live: LiveState, language: str) -> Json:
    reason = queue.reason if queue.reason is not None and status.tells(queue.reason) else None
    return {
        "oldest_at": None if queue.oldest_s is None else round(live.at - queue.oldest_s, 1),
        "because": _words(reason, language),
        "jobs": [_of_job(job) for job in waiting[:JOBS_SHOWN]],
        "more": max(0, len(waiting) - JOBS_SHOWN),
    }


def _words(reason: Reason | None, language: str) -> list[Json]:
    """Return a reason as page text; empty for None."""
    body = () if reason is None else because(reason, language)
    return [part.model_dump() for part in shown_body(body)]


def _told(job: Job, language: str) -> str:
    """Return the sentence about a job's error that its owner was shown; "" without one."""
    return told(Problem.read(job.error), language) if job.error else ""


def _of_job(job: Job) -> Json:
    """Return a job without its request, which is private to its owner."""
    return {
        "job": job.id,
        "model": job.model,
        "name": job.owner,
        "lane": job.lane,
        "since": job.queued_at,
    }


def _by_queue(jobs: Sequence[Job]) -> Mapping[str, Sequence[Job]]:
    """Return the waiting jobs by queue, in their order after admins' moves."""
    waiting: dict[str, list[Job]] = {}
    queued = (job for job in jobs if job.state is JobState.PENDING and job.seq is not None)
    for job in sorted(queued, key=lambda job: job.seq or 0):
        waiting.setdefault(job.model, []).append(job)
    return waiting


def _written(drawn: Json) -> bytes:
    return json.dumps(drawn, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


_log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5
# The pause after a read is four times as long, so reading takes at most a fifth of the time.
REST = 4.0
READ_S = 5.0  # while the queue moves to another process, a read may wait for half a minute
MAX_VIEWERS = 20  # for all admins together


@dataclass(eq=False, slots=True)
class DashboardState:
    """The newest frame of each kind for one open page.

    `changed` is called whenever a frame changes. `unreadable` are the kinds that could not be read
    last time.
    """

    language: str
    changed: Callable[[], None]
    frames: dict[str, bytes] = field(default_factory=dict)
    unreadable: frozenset[str] = frozenset()

    def show(self, kind: str, frame: bytes | None) -> None:
        """Replace the frame of a kind, or mark the kind as unreadable if None."""
        unreadable = self.unreadable - {kind} if frame is not None else self.unreadable | {kind}
        if unreadable == self.unreadable and frame in {None, self.frames.get(kind)}:
            return
        self.unreadable = unreadable
        if frame is not None:
            self.frames[kind] = frame
        self.changed()


class DashboardFeed:
    """Refreshes all open pages. Reads nothing while no page is open."""

    def __init__(self, data: DashboardData) -> None:
        self.data = data
        self._states: set[DashboardState] = set()
        self._wanted = asyncio.Event()

    @property
    def full(self) -> bool:
        """Whether the maximum number of pages is open."""
        return len(self._states) >= MAX_VIEWERS

    @contextmanager
    def watching(self, state: DashboardState) -> Iterator[None]:
        """Keep a page's state up to date inside the block."""
        self._states.add(state)
        self._wanted.set()
        try:
            yield
        finally:
            self._states.discard(state)
            if not self._states:
                self._wanted.clear()

    async def run(self) -> None:
        """Refresh repeatedly while any page is open, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._wanted.wait()
            began = loop.time()
            await self.look()
            await asyncio.sleep(max(LOOK_EVERY_S, REST * (loop.time() - began)))

    async def look(self) -> None:
        """Refresh every open page once."""
        for language in {state.language for state in self._states}:
            frame = await _read("now", self.data.now(language))
            for state in self._states:
                if state.language == language:
                    state.show("now", frame)
        frame = await _read("people", self.data.people())
        for state in self._states:
            state.show("people", frame)


async def _read(kind: str, reading: Awaitable[bytes]) -> bytes | None:
    """Return a frame, or None if it cannot be read; the pages show that."""
    try:
        async with timeout(READ_S):
            return b'{"type":"%b","body":%b}' % (kind.encode(), await reading)
    except TimeoutError:
        _log.info("operator's page: reading %s takes too long", kind)
    except QueueError as error:
        _log.info("operator's page: cannot read %s: %s", kind, error)
    except Exception:  # noqa: BLE001  # a bug in one frame must not end all pages
        _log.exception("operator's page: cannot render %s", kind)
    return None
