"""The queue as a process sees it that does not hold it: implements `QueueService` over a link."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

from bot.app.cluster.protocol import method
from bot.app.cluster.queue_link import QueueConnection
from bot.core.platform import ALONE, ChatLease
from bot.core.queue import (
    Deliveries,
    JobEraser,
    JobFiles,
    JobReader,
    JobSubmitter,
    ModelPreloads,
    ModelReader,
    QueueAdmin,
    QueueEvents,
    QueueStatus,
)
from queueing.core.catalog import Offer
from queueing.core.errors import Fenced
from queueing.core.events import Listener
from queueing.core.jobs import Job
from queueing.core.requests import File, Output
from queueing.core.status import StatusReport

P = ParamSpec("P")
T = TypeVar("T")


class RemoteQueue:
    """Every awaited call goes to the holder; what is asked without waiting is its newest copy.

    Files of jobs are read from this process's own database, so that they never travel twice.
    A duty asks only while it holds its own post; afterwards calls raise `Fenced`, as its database
    does, so that nothing a former holder of a chat's post heard becomes a job.
    """

    def __init__(self, link: QueueConnection, files: JobFiles, lease: ChatLease = ALONE) -> None:
        self.submitter = _RemoteSubmitter(link, lease)
        self.jobs = _RemoteJobs(link, lease, files)
        self.deliveries = _RemoteDeliveries(link, lease)
        self.models = _RemoteModels(link, lease)
        self.status = _RemoteStatus(link, lease)
        self.admin = _RemoteAdmin(link, lease)
        self.preloads = _RemotePreloads(link, lease)
        self.erasure = _RemoteErasure(link, lease)
        self._events = _RemoteEvents(link)
        self.events: QueueEvents = self._events

    def leave(self) -> None:
        """End the subscriptions to its events. Idempotent."""
        self._events.end()


class _RemoteEvents:
    """The events of the link for as long as one of its users wants them."""

    def __init__(self, link: QueueConnection) -> None:
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
    """A part of the queue, each of whose calls travels unless this process's post is over."""

    part: ClassVar[str]

    def __init__(self, link: QueueConnection, lease: ChatLease) -> None:
        self._link = link
        self._lease = lease

    def require_held(self) -> None:
        if not self._lease.held:
            raise Fenced("this process's post is over")

    async def ask(self, name: str, args: Sequence[object], named: Mapping[str, object]) -> Any:
        self.require_held()
        return await self._link.call(method(self.part, name), args, named)


def _asked(
    declared: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[_RemotePart, P], Coroutine[Any, Any, T]]:
    """Return the method that makes a declared call at the holder of the queue."""

    async def call(part: _RemotePart, /, *args: P.args, **named: P.kwargs) -> T:
        result: T = await part.ask(declared.__name__, args, named)
        return result

    return call


class _RemoteSubmitter(_RemotePart):
    part = "submitter"
    submit = _asked(JobSubmitter.submit)
    cancel = _asked(JobSubmitter.cancel)
    replace_request = _asked(JobSubmitter.replace_request)
    give_up = _asked(JobSubmitter.give_up)


class _RemoteJobs(_RemotePart):
    part = "jobs"
    get = _asked(JobReader.get)
    find = _asked(JobReader.find)
    open_jobs = _asked(JobReader.open_jobs)
    held_jobs = _asked(JobReader.held_jobs)
    history = _asked(JobReader.history)
    gpu_used = _asked(JobReader.gpu_used)
    gpu_time = _asked(JobReader.gpu_time)

    def __init__(self, link: QueueConnection, lease: ChatLease, files: JobFiles) -> None:
        super().__init__(link, lease)
        self._files = files

    async def inputs(self, job: Job) -> tuple[File, ...] | None:
        self.require_held()
        return await self._files.inputs(job)

    async def output(self, job: Job) -> Output | None:
        self.require_held()
        return await self._files.output(job)


class _RemoteDeliveries(_RemotePart):
    part = "deliveries"
    unacknowledged = _asked(Deliveries.unacknowledged)
    to_tell = _asked(Deliveries.to_tell)
    acknowledge = _asked(Deliveries.acknowledge)


class _RemoteModels(_RemotePart):
    part = "models"
    loras = _asked(ModelReader.loras)
    is_at_hand = _asked(ModelReader.is_at_hand)

    @property
    def offer(self) -> Offer:
        return self._link.offer


class _RemoteStatus(_RemotePart):
    part = "status"
    standings = _asked(QueueStatus.standings)
    decided = _asked(QueueStatus.decided)

    def snapshot(self) -> StatusReport:
        return self._link.snapshot


class _RemoteAdmin(_RemotePart):
    part = "admin"
    pause = _asked(QueueAdmin.pause)
    resume = _asked(QueueAdmin.resume)
    drain = _asked(QueueAdmin.drain)
    clear = _asked(QueueAdmin.clear)
    move_first = _asked(QueueAdmin.move_first)


class _RemotePreloads(_RemotePart):
    part = "preloads"
    preload = _asked(ModelPreloads.preload)
    waits_for = _asked(ModelPreloads.waits_for)
    unload = _asked(ModelPreloads.unload)


class _RemoteErasure(_RemotePart):
    part = "erasure"
    forget = _asked(JobEraser.forget)
