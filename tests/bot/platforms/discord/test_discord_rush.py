"""A process that cannot keep up confirms calls first, and does not send late answers in a flood."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from bot.core.content import Content
from bot.core.platform import MessageRef
from bot.platforms.discord.rush import PATIENCE_S, Rush
from tests.fakes.strict_chats import StrictDiscord
from tests.simulation.bot_installation import bot, quiet
from tests.simulation.installation import Installation, host, image_model
from tests.simulation.loop import in_virtual_time


@dataclass
class Made:
    """An interaction with nothing but an age."""

    at: float

    @property
    def created_at(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)


def test_a_delay_is_told_although_the_clocks_differ() -> None:
    """With a clock that is a second ahead, every call would count as late, or none."""
    now = 1000.0
    rush = Rush(lambda: now)
    delays: list[float] = []
    for late_s in (0.2, 0.1, 0.1, 3.0, 0.6):
        made: Any = Made(now + 7.0 - late_s)
        delays.append(round(rush.delay_s(made), 3))
        now += 1.0
    assert delays == [0.0, 0.0, 0.0, 2.9, 0.5]


def test_a_clock_that_was_set_makes_no_call_late() -> None:
    """Until the next start each call would be confirmed first, with two more requests."""
    now = 1000.0
    rush = Rush(lambda: now)
    for _ in range(3):
        made: Any = Made(900.0)
        assert rush.delay_s(made) == 0.0
        now += 3600.0


@pytest.mark.parametrize("opens", [False, True])
@in_virtual_time
async def test_late_calls_are_all_confirmed_before_any_is_worked_on(opens: bool) -> None:
    """Work for the first call would use up the seconds that Discord allows for the last."""
    done: list[str] = []
    rush = Rush()

    async def serve(number: int) -> None:
        async def confirm() -> None:
            await asyncio.sleep(0.3)
            done.append("confirmed")

        async with rush.turn(1.0, confirm, opens=opens):
            done.append("worked")
            await asyncio.sleep(0.1)

    await asyncio.gather(*(serve(number) for number in range(50)))
    assert done == ([] if opens else ["confirmed"] * 50) + ["worked"] * 50


@in_virtual_time
async def test_calls_that_wait_for_one_that_has_no_place_do_not_stop_everything() -> None:
    """A person's later calls wait for the first; with all places taken, none would proceed."""
    rush, first_done = Rush(), asyncio.Event()

    async def confirm() -> None:
        await asyncio.sleep(0)

    async def later() -> None:
        async with rush.turn(1.0, confirm, opens=False):
            await first_done.wait()

    waiting = [asyncio.create_task(later()) for _ in range(100)]
    await asyncio.sleep(1.0)
    async with asyncio.timeout(2 * PATIENCE_S), rush.turn(1.0, confirm, opens=False):
        first_done.set()
    await asyncio.gather(*waiting)


@in_virtual_time
async def test_answers_that_are_too_late_keep_to_the_channels_budget() -> None:
    """Answers that came too late were all posted at once, without regard to limits."""
    chat = StrictDiscord(Random(1))
    installation = Installation.of([image_model("flux")], [host("gpu-1", "comfy")])
    async with bot(installation, chat) as running:
        for number in range(30):

            async def respond(content: Content, _private: bool) -> MessageRef:
                return await chat.send("g1", content)

            text = "/image flux cat" if number % 3 else "/queue"
            call = chat.call(
                text, chat="g1", user=f"fake:{number}", respond=respond, in_time=lambda: False
            )
            await running.dispatcher.call(call)
        await quiet(running)
        await asyncio.sleep(60)
    assert chat.refused == 0
    assert len(chat.messages) >= 30
