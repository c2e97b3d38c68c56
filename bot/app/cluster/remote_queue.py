"""Client of a queue that runs in another process. Implements `QueueService`."""

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
    """Sends async calls to the leader. Other values are read from the latest copies.

    Files of jobs are read from this process's own database connection, so they are never
    transferred twice. Once the `lease` is lost, calls raise `Fenced`, as the database does. So a
    process that has lost a chat's lease cannot submit jobs from that chat.
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
        """End all subscriptions to events. Idempotent."""
        self._events.end()


class _RemoteEvents:
    """Events of the connection, until `end`."""

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
    """A part of the queue whose calls are sent to the leader while the lease is held."""

    part: ClassVar[str]

    def __init__(self, link: QueueConnection, lease: ChatLease) -> None:
        self._link = link
        self._lease = lease

    def require_held(self) -> None:
        if not self._lease.held:
            raise Fenced("this process has lost its lease")

    async def ask(self, name: str, args: Sequence[object], named: Mapping[str, object]) -> Any:
        self.require_held()
        return await self._link.call(method(self.part, name), args, named)


def _asked(
    declared: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[_RemotePart, P], Coroutine[Any, Any, T]]:
    """Build the method that sends a declared call to the leader."""

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
