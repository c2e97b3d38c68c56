"""A queue at the far end of a connection: everything on the way there and back is JSON."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any, cast

from bot.app.cluster.protocol import (
    Failure,
    error_of,
    event_from_json,
    event_to_json,
    failure_of,
    from_json,
    method,
    to_json,
)
from bot.core.queue import (
    Deliveries,
    JobEraser,
    JobReader,
    JobSubmitter,
    ModelPreloads,
    ModelReader,
    QueueAdmin,
    QueueStatus,
)
from bot.core.service import QueueService
from queueing.core.catalog import Offer
from queueing.core.errors import QueueError
from queueing.core.events import Event, Listener
from queueing.core.status import StatusReport

Method = Callable[..., Awaitable[object]]


class FarQueue:
    """Implements `QueueService` in front of another one."""

    def __init__(self, near: QueueService) -> None:
        self.submitter: JobSubmitter = _far(near, "submitter")
        self.jobs: JobReader = cast("JobReader", _Jobs(near.jobs))
        self.deliveries: Deliveries = _far(near, "deliveries")
        self.models: ModelReader = _far(near, "models")
        self.status: QueueStatus = _far(near, "status")
        self.admin: QueueAdmin = _far(near, "admin")
        self.preloads: ModelPreloads = _far(near, "preloads")
        self.erasure: JobEraser = _far(near, "erasure")
        self.events = FarEvents(near)


class FarEvents:
    """Passes events on."""

    def __init__(self, near: QueueService) -> None:
        self._near = near

    def reading(self, job_id: int) -> AbstractContextManager[None]:
        return self._near.events.reading(job_id)

    def subscribe(self, listener: Listener) -> None:
        def arrived(event: Event) -> None:
            listener(event_from_json(*event_to_json(event)))

        self._near.events.subscribe(arrived)


class _Part:
    """One part of the queue: awaited calls, and pushed events."""

    def __init__(self, near: Any, part: str) -> None:
        self._near = near
        self._part = part

    def __getattr__(self, name: str) -> Method:
        called = method(self._part, name)

        async def call(*args: object, **named: object) -> object:
            read = called.arguments(called.arguments_json(args, named))
            try:
                result = await getattr(self._near, name)(**read)
            except QueueError as error:
                failure = to_json(failure_of(error), Failure)
                raise error_of(from_json(failure, Failure)) from None
            return from_json(to_json(result, called.result_kind), called.result_kind)

        return call

    @property
    def offer(self) -> Offer:
        pushed: Offer = from_json(to_json(self._near.offer, Offer), Offer)
        return pushed

    def snapshot(self) -> StatusReport:
        pushed: StatusReport = from_json(to_json(self._near.snapshot(), StatusReport), StatusReport)
        return pushed


class _Jobs(_Part):
    """The jobs; their files are read at the far end."""

    def __init__(self, near: JobReader) -> None:
        super().__init__(near, "jobs")
        self.inputs = near.inputs
        self.output = near.output


def _far(near: QueueService, part: str) -> Any:
    return _Part(getattr(near, part), part)
