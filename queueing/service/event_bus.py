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

        async def both() -> T:
            result = await change
            follow(result)  # here, not in a callback: another caller could look in between
            return result

        task = asyncio.create_task(both())
        self._changes.add(task)
        task.add_done_callback(self._made)
        return await asyncio.shield(task)

    async def settle(self) -> None:
        """Wait until what follows from every change under way has been made."""
        if self._changes:
            await asyncio.wait(self._changes)

    def _made(self, change: asyncio.Task[Any]) -> None:
        self._changes.discard(change)
        if not change.cancelled() and (error := change.exception()) is not None:
            log.debug("a change failed: %s", error)  # its caller may have gone, and hears nothing

    def fleet_changed(self) -> None:
        """Call everyone who watches the fleet."""
        for watcher in self._watchers:
            watcher()
