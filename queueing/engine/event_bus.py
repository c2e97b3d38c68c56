"""EventBus: tells those who listen what has happened, in its order; none of it blocks."""

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
    """Hands on events and changes of the fleet; a failing listener keeps nothing from the others."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._watchers: list[Callable[[], None]] = []
        self._changes: set[asyncio.Task[Any]] = set()

    def subscribe(self, listener: Listener) -> None:
        """Call the listener after every committed change and on progress."""
        self._listeners.append(listener)

    def reading(self, _job_id: int) -> AbstractContextManager[None]:
        """Do nothing: everything is told here."""
        return nullcontext()

    def watch_fleet(self, watcher: Callable[[], None]) -> None:
        """Call the watcher after every change of the fleet."""
        self._watchers.append(watcher)

    def publish(self, event: Event) -> None:
        """Call every listener, those first who listened first."""
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                log.exception("a listener failed")

    async def after(self, change: Coroutine[Any, Any, T], follow: Callable[[T], None]) -> T:
        """Make a change, and at once what follows, in a task of their own; return its result.

        A caller cancelled meanwhile keeps neither from happening: a change that is stored and
        never published would be noticed only with the next one.
        """

        async def both() -> T:
            result = await change
            follow(result)  # here, not in a callback: another caller could look in between
            return result

        told: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(both())
        self._changes.add(task)
        task.add_done_callback(partial(self._made, told))
        return await told  # as a shield does, in two turns of the event loop fewer

    async def settle(self) -> None:
        """Wait until what follows from every change under way has been made."""
        if self._changes:
            await asyncio.wait(self._changes)

    def _made(self, told: asyncio.Future[T], change: asyncio.Task[T]) -> None:
        """Tell the caller what ended a change, whatever that was, unless the caller has gone."""
        self._changes.discard(change)
        error = None if change.cancelled() else change.exception()
        if told.done():
            if error is not None:
                log.debug("a change failed: %s", error)
        elif change.cancelled():
            told.cancel()  # the event loop is being closed
        elif error is not None:
            told.set_exception(error)
        else:
            told.set_result(change.result())

    def fleet_changed(self) -> None:
        """Call everyone who watches the fleet."""
        for watcher in self._watchers:
            watcher()
