"""EventBus: tells those who listen what has happened, in its order."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from queueing.core.events import Event, Listener

T = TypeVar("T")

log = logging.getLogger(__name__)


class EventBus:
    """Carries out `Effects`: a failing listener keeps nothing from the others."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._watchers: list[Callable[[], None]] = []
        self._changes: set[asyncio.Task[Any]] = set()

    def subscribe(self, listener: Listener) -> None:
        """Call the listener after every committed change and on progress."""
        self._listeners.append(listener)

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
        """Make a change, and at once what follows, in a task of their own; return its result."""
        made: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def both() -> None:
            try:
                result = await change
                follow(result)  # here, not in a callback: another caller could look in between
            except Exception as error:  # noqa: BLE001  # it is raised for the caller
                if made.done():
                    log.debug("a change failed: %s", error)  # its caller has gone
                else:
                    made.set_exception(error)
            else:
                if not made.done():
                    made.set_result(result)
            finally:
                made.cancel()  # unless it is done: the event loop is being closed
                self._changes.discard(task)

        task = asyncio.create_task(both())
        self._changes.add(task)
        return (
            await made
        )  # unlike a shield around the task, it takes the event loop no further turn

    async def settle(self) -> None:
        """Wait until what follows from every change under way has been made."""
        if self._changes:
            await asyncio.wait(self._changes)

    def fleet_changed(self) -> None:
        """Call everyone who watches the fleet."""
        for watcher in self._watchers:
            watcher()
