"""What the operator's page is shown, as JSON, read for all open pages together.

To the records of `bot/monitoring/` it adds reasons in the reader's language, the first waiting jobs
of each queue, and, where several processes share the work, which of them this is.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from bot.monitoring.dashboard import Dashboard, to_json
from bot.monitoring.live_state import LiveState, QueueNow
from bot.monitoring.records import HourSpan
from bot.platforms.web.renderer import shown_body
from bot.texts import status
from bot.texts.reasons import because
from queueing.core.errors import QueueError
from queueing.core.jobs import Job, JobState
from queueing.core.leases import PostReader
from queueing.core.snapshot import Reason

JOBS_SHOWN = 15  # of a queue; the others are counted

Json = dict[str, Any]

OpenJobs = Callable[[], Awaitable[list[Job]]]
"""Returns all jobs that have not ended, oldest first. Raises `QueueError`."""


class DashboardData:
    """Draws the bot for its operators.

    Awaited calls raise `QueueError`s only. Equal states give equal bytes: no answer contains a
    clock that runs by itself, so a page is sent only what changed.
    """

    def __init__(
        self, records: Dashboard, open_jobs: OpenJobs, posts: PostReader | None = None
    ) -> None:
        self._records = records
        self._open_jobs = open_jobs
        self._posts = posts

    async def now(self, language: str) -> bytes:
        """Return the hosts and what is in their memory, what runs, and every queue."""
        told = await self._records.read_now()
        waiting = _by_queue(await self._open_jobs())
        drawn: Json = json.loads(to_json(replace(told, at=0.0)))
        for shown, host in zip(drawn["hosts"], told.hosts, strict=True):
            shown["rest"] = _words(host.rest, language)
        for shown, queue in zip(drawn["queues"], told.queues, strict=True):
            shown.update(_of_queue(queue, waiting.get(queue.model, ()), told, language))
            del shown["oldest_s"], shown["reason"]
        return _written(drawn | {"cluster": await self._cluster()})

    async def hours(self, span: HourSpan) -> bytes:
        """Return what happened in the last hour, day or week."""
        return to_json(await self._records.read_hours(span))

    async def people(self) -> bytes:
        """Return who used how much today, who is banned, and the newest acts of admins."""
        return to_json(replace(await self._records.read_people(), at=0.0))

    async def _cluster(self) -> Json | None:
        """Return which process serves the page and which one holds the queue, if they differ."""
        if self._posts is None:
            return None
        holders = {post.name: post.holder for post in await self._posts.posts()}
        here, queue = holders.get("web", ""), holders.get("queue", "")
        return None if here == queue else {"here": here, "queue": queue}


def _of_queue(queue: QueueNow, waiting: Sequence[Job], told: LiveState, language: str) -> Json:
    reason = queue.reason if queue.reason is not None and status.tells(queue.reason) else None
    return {
        "oldest_at": None if queue.oldest_s is None else round(told.at - queue.oldest_s, 1),
        "because": _words(reason, language),
        "jobs": [_of_job(job) for job in waiting[:JOBS_SHOWN]],
        "more": max(0, len(waiting) - JOBS_SHOWN),
    }


def _words(reason: Reason | None, language: str) -> list[Json]:
    """Return a reason as the page shows it; nothing for none."""
    body = () if reason is None else because(reason, language)
    return [part.model_dump() for part in shown_body(body)]


def _of_job(job: Job) -> Json:
    """Return a waiting job; never what was asked for, which is its person's own."""
    return {
        "job": job.id,
        "model": job.model,
        "name": job.owner,
        "lane": job.lane,
        "since": job.queued_at,
    }


def _by_queue(jobs: Sequence[Job]) -> Mapping[str, Sequence[Job]]:
    """Return the jobs that wait in line, each queue in its order of arrival and of admins' moves."""
    waiting: dict[str, list[Job]] = {}
    queued = (job for job in jobs if job.state is JobState.PENDING and job.seq is not None)
    for job in sorted(queued, key=lambda job: job.seq or 0):
        waiting.setdefault(job.model, []).append(job)
    return waiting


def _written(drawn: Json) -> bytes:
    return json.dumps(drawn, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


_log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5
REST = 4.0  # after a look that took a second, none for four: a fifth of the time at most
MAX_VIEWERS = 20  # open pages of all admins together


@dataclass(eq=False, slots=True)
class DashboardState:
    """What one open page is to show: the newest frame of each kind.

    `changed` is called when one of them is another. `unreadable` are the kinds that could not be
    read last time.
    """

    language: str
    changed: Callable[[], None]
    frames: dict[str, bytes] = field(default_factory=dict)
    unreadable: frozenset[str] = frozenset()

    def show(self, kind: str, frame: bytes | None) -> None:
        """Take a frame in place of the last of its kind; None if it cannot be read now."""
        unreadable = self.unreadable - {kind} if frame is not None else self.unreadable | {kind}
        if unreadable == self.unreadable and frame in {None, self.frames.get(kind)}:
            return
        self.unreadable = unreadable
        if frame is not None:
            self.frames[kind] = frame
        self.changed()


class DashboardFeed:
    """Refreshes the glances of all open pages. Without any, it waits and reads nothing."""

    def __init__(self, image: DashboardData) -> None:
        self.image = image
        self._glances: set[DashboardState] = set()
        self._wanted = asyncio.Event()

    @property
    def full(self) -> bool:
        """Whether as many pages are open as may be."""
        return len(self._glances) >= MAX_VIEWERS

    @contextmanager
    def watching(self, glance: DashboardState) -> Iterator[None]:
        """Keep a glance up to date until the block ends."""
        self._glances.add(glance)
        self._wanted.set()
        try:
            yield
        finally:
            self._glances.discard(glance)
            if not self._glances:
                self._wanted.clear()

    async def run(self) -> None:
        """Look again and again while a page is open, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._wanted.wait()
            began = loop.time()
            await self.look()
            await asyncio.sleep(max(LOOK_EVERY_S, REST * (loop.time() - began)))

    async def look(self) -> None:
        """Show every page what there is to see now."""
        for language in {glance.language for glance in self._glances}:
            frame = await _read("now", self.image.now(language))
            for glance in self._glances:
                if glance.language == language:
                    glance.show("now", frame)
        frame = await _read("people", self.image.people())
        for glance in self._glances:
            glance.show("people", frame)


async def _read(kind: str, reading: Awaitable[bytes]) -> bytes | None:
    """Return a frame; None, which the pages say, if it cannot be read."""
    try:
        return b'{"type":"%b","body":%b}' % (kind.encode(), await reading)
    except QueueError as error:
        _log.info("the operator's page: %s cannot be read: %s", kind, error)
    except Exception:  # noqa: BLE001  # a bug in one frame must not end all pages
        _log.exception("the operator's page: %s cannot be drawn", kind)
    return None
