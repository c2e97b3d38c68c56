"""The queue as a process without it asks it, for as long as the process has its own post."""

from typing import cast

import pytest

from bot.cluster.queue_link import QueueLink
from bot.cluster.remote_queue import RemoteQueue
from queueing.core.errors import Fenced


class CountedLink:
    """A link whose calls all return None."""

    def __init__(self) -> None:
        self.calls = 0

    async def call(self, *_given: object) -> None:
        self.calls += 1


async def test_a_former_holder_asks_the_queue_for_nothing_more() -> None:
    """What a frozen process had heard would become a job when it comes back."""
    link, held = CountedLink(), [True]
    queue = RemoteQueue(cast("QueueLink", link), held=lambda: held[0])
    await queue.submitter.cancel(1)
    await queue.jobs.get(1)
    held[0] = False
    for request in (queue.submitter.cancel, queue.jobs.get):
        with pytest.raises(Fenced):
            await request(1)
    assert link.calls == 2
