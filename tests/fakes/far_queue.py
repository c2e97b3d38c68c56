"""A queue at the far end of a connection: all that goes to it and comes back has been JSON on the way."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, get_type_hints

from bot.queue.admin import ModelPreloads, QueueAdmin
from bot.queue.deliveries import Deliveries
from bot.queue.erasure import JobEraser
from bot.queue.failures import Failure, error_of, failure_of
from bot.queue.jobs import JobReader
from bot.queue.json_values import event_from_json, event_to_json, from_json, to_json
from bot.queue.models import ModelReader
from bot.queue.service import QueueService
from bot.queue.status import QueueStatus
from bot.queue.submitting import JobSubmitter
from queueing.core.catalog import Offer
from queueing.core.errors import QueueError
from queueing.core.events import Event, Listener
from queueing.core.standings import QueueSnapshot

Method = Callable[..., Awaitable[object]]


class FarQueue:
    """Implements `QueueService` in front of another one."""

    def __init__(self, near: QueueService) -> None:
        self.submitter: JobSubmitter = _far(near.submitter, JobSubmitter)
        self.jobs: JobReader = _far(near.jobs, JobReader)
        self.deliveries: Deliveries = _far(near.deliveries, Deliveries)
        self.models: ModelReader = _far(near.models, ModelReader)
        self.status: QueueStatus = _far(near.status, QueueStatus)
        self.admin: QueueAdmin = _far(near.admin, QueueAdmin)
        self.preloads: ModelPreloads = _far(near.preloads, ModelPreloads)
        self.erasure: JobEraser = _far(near.erasure, JobEraser)
        self.events = FarEvents(near)


class FarEvents:
    """Brings events over."""

    def __init__(self, near: QueueService) -> None:
        self._near = near

    def subscribe(self, listener: Listener) -> None:
        def arrived(event: Event) -> None:
            listener(event_from_json(event_to_json(event)))

        self._near.events.subscribe(arrived)


class _Part:
    """One part of the queue: awaited calls, and what is pushed."""

    def __init__(self, near: Any, protocol: type) -> None:
        self._near = near
        self._protocol = protocol

    def __getattr__(self, name: str) -> Method:
        method = getattr(self._protocol, name)
        assert inspect.iscoroutinefunction(method), f"{name} would have to wait for the far end"
        hints = get_type_hints(method)
        names = list(inspect.signature(method).parameters)[1:]

        async def call(*args: object, **named: object) -> object:
            given = dict(zip(names, args, strict=False)) | named
            written = {key: to_json(value, hints[key]) for key, value in given.items()}
            read = {key: from_json(data, hints[key]) for key, data in written.items()}
            try:
                result = await getattr(self._near, name)(**read)
            except QueueError as error:
                failure = to_json(failure_of(error), Failure)
                raise error_of(from_json(failure, Failure)) from None
            return from_json(to_json(result, hints["return"]), hints["return"])

        return call

    @property
    def offer(self) -> Offer:
        pushed: Offer = from_json(to_json(self._near.offer, Offer), Offer)
        return pushed

    def snapshot(self) -> QueueSnapshot:
        pushed: QueueSnapshot = from_json(
            to_json(self._near.snapshot(), QueueSnapshot), QueueSnapshot
        )
        return pushed


def _far(near: object, protocol: type) -> Any:
    return _Part(near, protocol)
