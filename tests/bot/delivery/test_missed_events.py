"""A chat in another process than the queue misses events for a while and then shows the truth."""

import asyncio
import random

import pytest

from bot.core.service import QueueService
from queueing.core.events import Event, EventsMissed, Listener
from queueing.service.job_queue import JobQueue
from tests.bot.commands.admin.test_admin_commands import say
from tests.simulation.bot_installation import played, quiet
from tests.simulation.installation import Installation, host, image_model
from tests.simulation.loop import in_virtual_time

ADA = "fake:1"


class DeafQueue:
    """A queue whose events are sometimes lost, as with a broken connection."""

    def __init__(self, queue: QueueService) -> None:
        self._queue = queue
        self._listeners: list[Listener] = []
        self.deaf = False
        queue.events.subscribe(self._tell)

    def __getattr__(self, name: str) -> object:
        return self if name == "events" else getattr(self._queue, name)

    def subscribe(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def hear(self) -> None:
        self.deaf = False
        self._tell(EventsMissed())

    def _tell(self, event: Event) -> None:
        for listener in () if self.deaf else self._listeners:
            listener(event)


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(2, 12))]
)
@in_virtual_time
async def test_every_result_is_shown_though_events_are_missed(seed: int) -> None:
    """An image would remain undelivered until the next restart."""
    drawn = random.Random(seed)
    made: list[DeafQueue] = []

    def service(queue: JobQueue) -> DeafQueue:
        made.append(DeafQueue(queue))
        return made[0]

    flux = image_model("flux")
    async with played(
        Installation.of([flux], [host("gpu-1", "comfy")]), service=service
    ) as running:
        for number in range(10):
            await say(running, f"/image flux cat {number}", ADA)
            await asyncio.sleep(drawn.uniform(0, 4))
            if drawn.random() < 0.4:
                made[0].deaf = True
            elif made[0].deaf and drawn.random() < 0.5:
                made[0].hear()
            if drawn.random() < 0.2:
                await say(running, f"/cancel {number}", ADA)
        made[0].hear()
        await quiet(running)  # until every end has been shown and acknowledged
    chat = running.chat
    assert len(chat.messages) >= 10


@in_virtual_time
async def test_a_job_deleted_meanwhile_is_no_longer_shown() -> None:
    """The message of a forgotten job would show its prompt and wait forever."""
    made: list[DeafQueue] = []

    def service(queue: JobQueue) -> DeafQueue:
        made.append(DeafQueue(queue))
        return made[0]

    async with played(
        Installation.of([image_model("flux")], [host("gpu-1", "comfy")]), service=service
    ) as running:
        await say(running, "/pause")
        await say(running, "/image flux a secret", ADA)
        await asyncio.sleep(5)
        made[0].deaf = True
        await running.queue.erasure.forget(ADA)
        await asyncio.sleep(5)
        assert running.presenter.open_jobs_of(ADA)
        made[0].hear()
        await asyncio.sleep(5)
        assert not running.presenter.open_jobs_of(ADA)
