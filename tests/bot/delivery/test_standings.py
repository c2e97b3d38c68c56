"""Many messages that are rendered at once share one forecast."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import pytest

from bot.core.content import Content
from bot.delivery.channels import Channels
from bot.delivery.standings import StandingReader
from bot.delivery.status_message import StatusMessage
from queueing.core.errors import StoreError
from queueing.core.jobs import Job, JobState, stand_in
from queueing.core.status import Standing
from tests.fakes.chat import FakeChat
from tests.simulation.bot_installation import played
from tests.simulation.installation import Installation, host, image_model
from tests.simulation.loop import in_virtual_time, run

if TYPE_CHECKING:
    from bot.core.queue import QueueStatus


@dataclass
class Queue:
    """A queue that answers at once, and records how often it was asked about how many jobs."""

    asked: list[int] = field(default_factory=list)
    error: Exception | None = None
    undecided: dict[int, float] = field(default_factory=dict)  # seconds, by job

    async def decided(self, jobs: Sequence[Job]) -> None:
        await asyncio.sleep(max(self.undecided.get(job.id, 0.0) for job in jobs))

    async def standings(self, jobs: Sequence[Job]) -> Mapping[int, Standing]:
        self.asked.append(len(jobs))
        await asyncio.sleep(1)
        if self.error is not None:
            raise self.error
        return {job.id: Standing(job=job, shown="pending") for job in jobs}


def inquire(queue: Queue) -> StandingReader:
    return StandingReader(cast("QueueStatus", queue))


def job(number: int, state: JobState = JobState.PENDING) -> Job:
    made = Job.__new__(Job)
    for name, value in {"id": number, "state": state}.items():
        object.__setattr__(made, name, value)
    return made


async def asking(queue: Queue, numbers: Sequence[int]) -> list[Standing | BaseException | None]:
    inquiry = inquire(queue)
    running = asyncio.ensure_future(inquiry.run())
    asked = [asyncio.ensure_future(inquiry.of(job(number))) for number in numbers]
    asyncio.get_running_loop().call_later(0.5, asked[0].cancel)
    late = asyncio.ensure_future(_later(inquiry))
    found = await asyncio.gather(*asked, late, return_exceptions=True)
    running.cancel()
    return found


async def _later(inquiry: StandingReader) -> Standing | None:
    await asyncio.sleep(0.5)
    return await inquiry.of(job(77))


def test_what_is_asked_in_one_turn_is_answered_together() -> None:
    """Each of fifty simultaneous requests would cost a separate forecast."""
    queue = Queue()
    found = run(asking(queue, range(50)))
    assert queue.asked == [50, 1]
    assert isinstance(found[0], asyncio.CancelledError)
    numbers = [each.job.id for each in found[1:] if isinstance(each, Standing)]
    assert numbers == [*range(1, 50), 77]


def test_whoever_asks_hears_of_a_failure() -> None:
    """After one failure to read the database, a message would never be updated again."""
    queue = Queue(error=StoreError("the disk is full"))
    found = run(asking(queue, range(3)))
    assert all(isinstance(each, StoreError) for each in found[1:])


@in_virtual_time
async def test_a_running_job_waits_for_no_others() -> None:
    """Its state is known without a forecast, and without the task that asks for many."""
    inquiry = inquire(Queue())
    assert await inquiry.of(job(1, JobState.PROCESSING)) is not None


@in_virtual_time
async def test_a_job_that_has_begun_waits_for_no_others() -> None:
    """Its first message would only come when the last of a crowd has its place."""
    inquiry = inquire(Queue())  # no one answers
    waiting = stand_in(1, "flux", 0.0)
    asked = asyncio.create_task(inquiry.of(waiting))
    other = asyncio.create_task(inquiry.of(stand_in(2, "flux", 0.0)))
    await asyncio.sleep(0)
    inquiry.changed(waiting)  # the same version says nothing new
    newer = waiting.version + 1
    inquiry.changed(replace(waiting, state=JobState.PROCESSING, version=newer))
    standing = await asked
    assert standing is not None
    assert standing.job is waiting
    assert not other.done()
    other.cancel()


@in_virtual_time
async def test_a_job_waits_for_no_decision_about_earlier_ones() -> None:
    """Each job would only be placed after the decision time of the job before it."""
    inquiry = inquire(Queue(undecided={1: 50.0}))
    running = asyncio.create_task(inquiry.run())
    first = asyncio.create_task(inquiry.of(stand_in(1, "flux", 0.0)))
    await asyncio.sleep(0.1)
    began = asyncio.get_running_loop().time()
    await inquiry.of(stand_in(2, "flux", 0.0))
    assert asyncio.get_running_loop().time() - began == pytest.approx(1.0), "one question"
    assert not first.done()
    await first
    running.cancel()


@dataclass
class Ticking:
    """A clock that advances with every reading, as a real clock does."""

    looks: int = 0

    def now(self) -> float:
        self.looks += 1
        return 1000.0 + asyncio.get_running_loop().time() + 1e-6 * self.looks


@in_virtual_time
async def test_a_turn_that_was_free_was_not_waited_for() -> None:
    """Every message would be rendered twice before it is sent."""

    async def _waited(channels: Channels) -> bool:
        async with channels.turn("fake", "p1") as turn:
            return turn.waited

    channels = Channels({"fake": FakeChat()}, Ticking())
    async with channels.turn("fake", "p1") as turn:
        assert not turn.waited
        second = asyncio.ensure_future(_waited(channels))
        await asyncio.sleep(0.1)
    assert await second


@in_virtual_time
async def test_a_look_that_finds_nothing_new_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of messages would be rendered every other second without any change."""
    drawn: list[int] = []

    installation = Installation.of(
        [image_model("flux", "stuck", service_s=3000.0)], [host("gpu", "stuck")]
    )
    installation.servers["stuck"].service_s = 3000.0
    async with played(installation) as running:
        editor = running.presenter._editor
        made = editor._draw

        def counted(message: StatusMessage, standing: Standing, *, rarely: bool) -> Content:
            drawn.append(message.job.id)
            return made(message, standing, rarely=rarely)

        monkeypatch.setattr(editor, "_draw", counted)
        for number in range(5):
            await running.dispatcher.call(running.chat.call("/image flux cat", chat=f"p{number}"))
        await asyncio.sleep(20)
        del drawn[:]
        await asyncio.sleep(200)
    assert len(drawn) < 30
