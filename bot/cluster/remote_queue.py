"""The queue as a process sees it that does not hold it: implements `QueueService` over a link."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import cast

from bot.chat.api.held import ALONE, ChatLease
from bot.cluster.methods import method
from bot.cluster.queue_link import QueueLink
from bot.queue.admin import ModelPreloads, QueueAdmin
from bot.queue.erasure import JobEraser
from bot.queue.events import QueueEvents
from bot.queue.jobs import JobReader
from bot.queue.models import ModelReader
from bot.queue.status import QueueStatus
from bot.queue.submitting import JobSubmitter
from queueing.core.catalog import Offer
from queueing.core.errors import Fenced
from queueing.core.events import Listener
from queueing.core.jobs import Job
from queueing.core.requests import File, Output
from queueing.core.standings import QueueSnapshot
from queueing.core.storage import Deliveries, JobFiles


class RemoteQueue:
    """Every awaited call goes to the holder; what is asked without waiting is its newest copy.

    Files of jobs are read from this process's own database, so that they never travel twice.
    A duty asks only while it holds its own post; afterwards calls raise `Fenced`, as its database
    does, so that nothing a former holder of a chat's post heard becomes a job.
    """

    def __init__(self, link: QueueLink, files: JobFiles, lease: ChatLease = ALONE) -> None:
        self.submitter = cast("JobSubmitter", _RemotePart(link, "submitter", lease))
        self.jobs = cast("JobReader", _RemoteJobs(link, files, lease))
        self.deliveries = cast("Deliveries", _RemotePart(link, "deliveries", lease))
        self.models = cast("ModelReader", _RemoteModels(link, "models", lease))
        self.status = cast("QueueStatus", _RemoteStatus(link, "status", lease))
        self.admin = cast("QueueAdmin", _RemotePart(link, "admin", lease))
        self.preloads = cast("ModelPreloads", _RemotePart(link, "preloads", lease))
        self.erasure = cast("JobEraser", _RemotePart(link, "erasure", lease))
        self._events = _RemoteEvents(link)
        self.events: QueueEvents = self._events

    def leave(self) -> None:
        """End the subscriptions to its events. Idempotent."""
        self._events.end()


class _RemoteEvents:
    """The events of the link for as long as one of its users wants them."""

    def __init__(self, link: QueueLink) -> None:
        self._link = link
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> None:
        self._listeners.append(listener)
        self._link.subscribe(listener)

    def reading(self, job_id: int) -> AbstractContextManager[None]:
        return self._link.reading(str(job_id))

    def end(self) -> None:
        while self._listeners:
            self._link.unsubscribe(self._listeners.pop())


class _RemotePart:
    """A part of the queue: its calls are made from its protocol."""

    def __init__(self, link: QueueLink, part: str, lease: ChatLease) -> None:
        self._link = link
        self._part = part
        self._lease = lease

    def __getattr__(self, name: str) -> Callable[..., Awaitable[object]]:
        try:
            called = method(self._part, name)
        except LookupError:
            raise AttributeError(name) from None

        async def call(*args: object, **named: object) -> object:
            self._require_held()
            return await self._link.call(called, args, named)

        setattr(self, name, call)
        return call

    def _require_held(self) -> None:
        if not self._lease.held:
            raise Fenced("this process's post is over")


class _RemoteJobs(_RemotePart):
    def __init__(self, link: QueueLink, files: JobFiles, lease: ChatLease) -> None:
        super().__init__(link, "jobs", lease)
        self._files = files

    async def inputs(self, job: Job) -> tuple[File, ...] | None:
        self._require_held()
        return await self._files.inputs(job)

    async def output(self, job: Job) -> Output | None:
        self._require_held()
        return await self._files.output(job)


class _RemoteModels(_RemotePart):
    @property
    def offer(self) -> Offer:
        return self._link.offer


class _RemoteStatus(_RemotePart):
    def snapshot(self) -> QueueSnapshot:
        return self._link.snapshot
