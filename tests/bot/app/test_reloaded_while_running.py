"""Reloaded settings apply to the running bot: waits, retention, and the hourly limit of files."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO

import pytest
from PIL import Image

from bot.app.app import App, BotParts
from bot.app.setup import BotSetup
from bot.config.loader import parse
from bot.monitoring.history import History
from queueing.core.jobs import Job, JobState
from tests.bot.results import attachment
from tests.fakes.chat import FakeChat
from tests.fakes.clock import VirtualClock
from tests.fakes.servers.backend import FakeBackend, FakeGpu, FakeServer
from tests.simulation.loop import Inside

HOUR_S, DAY_S = 3600.0, 86400.0
pytestmark = pytest.mark.usefixtures("rare_ticks")
CONFIG = """\
hosts: {home: {vram: 24GB, backends: {comfy: {kind: demo}}}}
models: {flux: {backends: [comfy], capabilities: [text-to-image, image-edit], vram: 8GB}}
chats: {web: {port: 8080}}
"""


class SkippingClock(VirtualClock):
    """Leaves out idle days, which cost real time even in a virtual loop."""

    skipped_s = 0.0

    def now(self) -> float:
        return super().now() + self.skipped_s


@dataclass
class Running:
    """A bot in virtual time, with one chat and one server."""

    setup: BotSetup
    clock: SkippingClock
    parts: BotParts
    chat: FakeChat
    server: FakeServer
    text: list[str]

    async def reload(self, more: str) -> tuple[str, ...]:
        """Reload with additional lines, and return what was applied."""
        self.text[0] = CONFIG + more
        outcome = await self.setup.reloader.reload()
        assert (outcome.problems, outcome.restart) == ((), ())
        return outcome.applied

    async def asks(self, text: str = "/image flux cat", image: bytes = b"") -> Job | None:
        """Let a person ask, and return the job if it was accepted."""
        sent = (attachment(image, "cat.png", "image/png"),) if image else ()
        before = {job.id for job in await self.parts.queue.jobs.open_jobs()}
        await self.chat.says(self.chat.call(text, files=sent))
        await asyncio.sleep(1)
        taken = await self.parts.queue.jobs.open_jobs()
        return next((job for job in taken if job.id not in before), None)

    async def is_there(self, job: Job | None) -> bool:
        assert job is not None
        return await self.parts.queue.jobs.get(job.id) is not None

    async def state(self, job: Job | None) -> JobState:
        assert job is not None
        now = await self.parts.queue.jobs.get(job.id)
        assert now is not None
        return now.state


@asynccontextmanager
async def running(more: str) -> AsyncIterator[Running]:
    chat, clock, text = FakeChat(), SkippingClock(), [CONFIG + more]
    server = FakeServer("comfy", FakeGpu(total_mb=24 * 1024, budget_mb=24 * 1024))
    setup = BotSetup(
        parse(text[0], {}),
        database_url="sqlite://",
        clock=clock,
        make_platforms=lambda _: (chat,),
        make_backend=lambda _: FakeBackend(server),
        inline=True,
        reread=lambda: parse(text[0], {}),
    )
    async with App(setup).running() as parts, asyncio.TaskGroup() as group:
        queue = group.create_task(parts.queue.run())
        await asyncio.sleep(10)
        yield Running(setup=setup, clock=clock, parts=parts, chat=chat, server=server, text=text)
        queue.cancel()


def in_house(more: str = "") -> Inside[Running]:
    return Inside(lambda: running(more))


@in_house()
async def test_a_new_bound_of_waits_holds_for_what_is_asked_from_then_on(bot: Running) -> None:
    """An operator would shorten the wait, and people would wait on for a server that is gone."""
    bot.server.die(restart_s=30 * DAY_S)
    before = await bot.asks()
    assert await bot.reload("waiting: {chat: 10min}\n") == ("waiting.chat",)
    after = await bot.asks()
    await asyncio.sleep(HOUR_S / 4)
    assert await bot.state(after) is JobState.FAILED
    assert await bot.state(before) is JobState.PENDING
    await bot.reload("")
    assert await bot.state(again := await bot.asks()) is JobState.PENDING
    await asyncio.sleep(HOUR_S / 4)
    assert await bot.state(again) is JobState.PENDING


@in_house("retention: {days: 7}\n")
async def test_a_shorter_time_that_work_stays_holds_for_what_is_there_already(bot: Running) -> None:
    """What an operator promised to delete within a day would stay for the previous seven."""
    job = await bot.asks()
    await asyncio.sleep(60)
    bot.clock.skipped_s += 2 * DAY_S
    assert await bot.is_there(job)
    assert await bot.reload("retention: {days: 1}\n") == ("retention.days",)
    await asyncio.sleep(HOUR_S + 60)
    assert not await bot.is_there(job)


@in_house("retention: {history: 30d}\n")
async def test_a_shorter_history_holds_for_the_hours_that_are_there_already(bot: Running) -> None:
    """The figures of the last weeks would stay on the disk until the bot is restarted."""
    history, began = History(bot.parts.database), bot.clock.now()

    async def hours() -> int:
        return len(await history.models(3600, began - HOUR_S, began + 2 * HOUR_S))

    await bot.asks()
    await asyncio.sleep(60)
    bot.clock.skipped_s += 2 * DAY_S
    assert await hours() == 1
    assert await bot.reload("retention: {history: 1d}\n") == ("retention.history",)
    await asyncio.sleep(HOUR_S + 60)
    assert await hours() == 0


@in_house("limits: {files_per_hour: 1MB}\n")
async def test_new_room_for_files_holds_within_the_hour(bot: Running) -> None:
    """A person who may now send more would be refused until the bot is restarted, or for good."""
    image = noise()
    assert await bot.asks("/edit flux make it green", image) is not None
    assert await bot.asks("/edit flux make it red", image) is None
    assert await bot.reload("limits: {files_per_hour: 20MB}\n") == ("limits.files_per_hour",)
    assert await bot.asks("/edit flux make it blue", image) is not None
    await bot.reload("limits: {files_per_hour: 1MB}\n")
    assert await bot.asks("/edit flux make it pink", image) is None


def noise() -> bytes:
    """Return an image of about 0.8 MB."""
    out, side = BytesIO(), 900
    data = random.Random(1).randbytes(side * side)
    Image.frombytes("L", (side, side), data).save(out, "PNG")
    return out.getvalue()
