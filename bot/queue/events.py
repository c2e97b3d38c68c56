"""Events: what the queue announces as it happens."""

from typing import Protocol

from queueing.core.events import Listener


class QueueEvents(Protocol):
    """Notifies listeners of changes and progress."""

    def subscribe(self, listener: Listener) -> None:
        """Call the listener with every event from now on.

        A change is durable before it is announced; the changes of one job are announced in the
        order in which they happened. Earlier events are not repeated: `Deliveries` has them.
        """
