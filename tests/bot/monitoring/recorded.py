"""A queue with its history on one database, in virtual time; it can be stopped, killed, resumed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from bot.app.setup import MIGRATIONS
from bot.config.chats import ChatsConfig
from bot.core.live_settings import LiveSettings
from bot.core.origin import name_in
from bot.monitoring.dashboard import DashboardReader
from bot.monitoring.history import History, StoredUsage
from bot.monitoring.recorder import Recorder
from bot.people.access import Access, PersonLimits
from bot.people.audit_log import AuditLog
from bot.people.people import People
from queueing.service.job_queue import JobQueue
from queueing.store.engines import open_database
from queueing.store.jobs.job_store import JobStore
from queueing.store.sql.database import Database
from tests.simulation.installation import NO_LIMITS, Installation, ended, host, image_model

KEPT_S = 90 * 86400.0


@dataclass
class RecordedQueue:
    """The parts of a running bot's history."""

    queue: JobQueue
    database: Database
    recorder: Recorder
    reader: DashboardReader
    people: People
    audit: AuditLog


@dataclass
class Recording:
    """An installation whose history outlives its queues."""

    installation: Installation = field(default_factory=lambda: two_gpus("sqlite://"))

    @asynccontextmanager
    async def opened(self, *, kill: bool = False) -> AsyncIterator[RecordedQueue]:
        """Run a queue and write its history; with `kill`, nothing is written at the end."""
        clock = self.installation.clock
        database = await open_database(self.installation.url, migrations=(MIGRATIONS,), inline=True)
        async with self.installation.queue(JobStore(database)) as queue:
            history = History(database)
            recorder = Recorder(history, queue.promises, clock, LiveSettings(history_s=KEPT_S))
            queue.events.subscribe(recorder.on_event)
            queue.hosts.subscribe(recorder.on_hosts)
            people, audit = People(database), AuditLog(database)
            reader = DashboardReader(
                status=queue.status,
                history=history,
                usage=StoredUsage(database, name_in),
                gpu=queue.jobs,
                people=people,
                access=Access(["web:1"], PersonLimits()),
                audit=audit,
                clock=clock,
                naming=ChatsConfig.naming(),
            )
            writing = asyncio.create_task(recorder.run())
            await asyncio.sleep(1.0)  # until the servers have been asked, nothing is promised
            yield RecordedQueue(queue, database, recorder, reader, people, audit)
            if kill:
                _forget(recorder)
            writing.cancel()
            await asyncio.wait([writing])

    async def draw(self, there: RecordedQueue, model: str, count: int = 1, **new: object) -> None:
        """Ask for images one after the other, like a person who waits until each is done."""
        for _ in range(count):
            asked = self.installation.new(model, "cat", **new)
            job = await there.queue.submitter.submit(asked, limits=NO_LIMITS)
            await there.queue.status.standings([job])
            await ended(there.queue, job)


def _forget(recorder: Recorder) -> None:
    """Let it forget everything, as after a kill."""
    fresh = Recorder(
        recorder._history, recorder._promises, recorder._clock, LiveSettings(history_s=KEPT_S)
    )
    recorder.__dict__.update(fresh.__dict__)


def two_gpus(url: str) -> Installation:
    """Return a GPU that two models share one at a time, and an idle one."""
    return Installation.of(
        [
            image_model("flux", "comfy", vram_mb=16000),
            image_model("sdxl", "comfy", vram_mb=16000),
            image_model("turbo", "other"),
        ],
        [host("gpu-1", "comfy"), host("gpu-2", "other")],
        url=url,
    )
