"""EventBus: notifies listeners of events in order, without blocking."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, TypeVar

from queueing.core.events import Event, Listener

T = TypeVar("T")

log = logging.getLogger(__name__)


class EventBus:
    """Delivers events and fleet changes. A failing listener does not affect the others."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._watchers: list[Callable[[], None]] = []
        self._changes: set[asyncio.Task[Any]] = set()

    def subscribe(self, listener: Listener) -> None:
        """Call the listener after every committed change and on progress."""
        self._listeners.append(listener)

    def reading(self, _job_id: int) -> AbstractContextManager[None]:
        """Do nothing: this bus delivers every event to every listener."""
        return nullcontext()

    def watch_fleet(self, watcher: Callable[[], None]) -> None:
        """Call the watcher after every change of the fleet."""
        self._watchers.append(watcher)

    def publish(self, event: Event) -> None:
        """Call every listener, in order of subscription."""
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                log.exception("a listener failed")

    async def after(self, change: Coroutine[Any, Any, T], follow: Callable[[T], None]) -> T:
        """Run a change and then its follow-up in a separate task. Returns the change's result.

        Cancelling the caller stops neither: a change that is stored but not published would go
        unnoticed until the next one.
        """

        async def both() -> T:
            result = await change
            follow(result)  # not in a done callback: another caller could run in between
            return result

        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(both())
        self._changes.add(task)
        task.add_done_callback(partial(self._deliver, answer))
        return await answer  # like `asyncio.shield`, with two fewer passes of the event loop

    async def settle(self) -> None:
        """Wait for all changes in progress and their follow-ups."""
        if self._changes:
            await asyncio.wait(self._changes)

    def _deliver(self, answer: asyncio.Future[T], change: asyncio.Task[T]) -> None:
        """Pass the result or error of a change to the caller, unless the caller was cancelled."""
        self._changes.discard(change)
        error = None if change.cancelled() else change.exception()
        if answer.done():
            if error is not None:
                log.debug("a change failed: %s", error)
        elif change.cancelled():
            answer.cancel()  # the event loop is closing
        elif error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(change.result())

    def fleet_changed(self) -> None:
        """Call everyone who watches the fleet."""
        for watcher in self._watchers:
            watcher()
