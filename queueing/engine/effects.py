"""Effects: what the parts of a queue bring about outside themselves."""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from queueing.core.events import Event

T = TypeVar("T")


class Effects(Protocol):
    """Hands on what has happened, to all who are concerned; none of it blocks."""

    def publish(self, event: Event) -> None:
        """Publish a committed change, or progress."""

    async def after(self, change: Coroutine[Any, Any, T], follow: Callable[[T], None]) -> T:
        """Make a change and, once it is durable, what follows from it; return its result.

        A caller cancelled meanwhile keeps neither from happening: a change that is stored and
        never published would be noticed only with the next one.
        """

    def fleet_changed(self) -> None:
        """Have everything looked at again that depends on memory, servers or what runs."""
