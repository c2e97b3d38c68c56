"""Takes up the jobs that an earlier run left unsaid, some at a time."""

import logging
from collections.abc import Callable

from bot.core.deliveries import Deliveries
from bot.delivery.open_messages import OpenMessages
from queueing.core.errors import StoreError
from queueing.core.jobs import Job, JobState

log = logging.getLogger(__name__)

MOST_RESUMED = 2000  # waiting jobs of an earlier run that are shown at once


class EarlierRun:
    """Reads jobs of an earlier run and hands each to `resume`, oldest first."""

    def __init__(
        self, deliveries: Deliveries, messages: OpenMessages, resume: Callable[[Job], None]
    ) -> None:
        self._deliveries = deliveries
        self._messages = messages
        self._resume = resume
        self._newest_id = 0  # of the waiting jobs that have been resumed

    def begin_again(self) -> None:
        """Read all of them once more."""
        self._newest_id = 0

    async def some(self) -> bool:
        """Resume some jobs; return whether more may wait. Raises `StoreError`.

        A job far back in a long line gets its message when others have gone, or when an event
        concerns it: until then its message shows what it showed before.
        """
        jobs = await self._deliveries.to_tell(self._newest_id, MOST_RESUMED)
        for job in jobs:
            self._resume(job)
        waiting = [job.id for job in jobs if job.state is JobState.PENDING]
        self._newest_id = max(waiting, default=self._newest_id)
        return len(waiting) >= MOST_RESUMED

    async def rest(self) -> None:
        """Resume the others as messages are finished, until every job had its message."""
        more = True
        while more:
            if len(self._messages) > MOST_RESUMED // 2:
                await self._fewer()
                continue
            try:
                more = await self.some()
            except StoreError as error:
                log.warning("waiting jobs of an earlier run cannot be read: %s", error)
                await self._fewer()

    async def _fewer(self) -> None:
        self._messages.fewer.clear()
        await self._messages.fewer.wait()
