"""EventBus: tells those who listen what has happened, in its order."""

import logging
from collections.abc import Callable

from queueing.core.events import Event, Listener

log = logging.getLogger(__name__)


class EventBus:
    """Carries out `Effects`: a failing listener keeps nothing from the others."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._watchers: list[Callable[[], None]] = []

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

    def fleet_changed(self) -> None:
        """Call everyone who watches the fleet."""
        for watcher in self._watchers:
            watcher()
