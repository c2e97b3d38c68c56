"""Events: what the queue announces as it happens."""

from contextlib import AbstractContextManager
from typing import Protocol

from queueing.core.events import Listener


class QueueEvents(Protocol):
    """Notifies listeners of changes and progress."""

    def subscribe(self, listener: Listener) -> None:
        """Call the listener with every event from now on.

        A change is durable before it is announced; the changes of one job are announced in the
        order in which they happened. Earlier events are not repeated: `Deliveries` has them.
        """

    def reading(self, job_id: int) -> AbstractContextManager[None]:
        """Have all that a job reports told until the block ends.

        Of a chat's jobs, a process that does not hold the chat is told only how far they are.
        """
