"""Events: what the queue tells as it happens."""

from typing import Protocol

from queueing.core.events import Listener


class QueueEvents(Protocol):
    """Tells listeners of changes and progress."""

    def subscribe(self, listener: Listener) -> None:
        """Call the listener with every event from now on.

        A change is durable before it is told; the changes of one job are told in the order in
        which they happened. What was told before is not told again: `Deliveries` has it.
        """
