"""Effects: what the parts of a queue bring about outside themselves."""

from typing import Protocol

from queueing.core.events import Event


class Effects(Protocol):
    """Hands on what has happened, to all who are concerned; neither call blocks or raises."""

    def publish(self, event: Event) -> None:
        """Publish a committed change, or progress."""

    def fleet_changed(self) -> None:
        """Have everything looked at again that depends on memory, servers or what runs."""
