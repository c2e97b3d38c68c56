"""Faults of the neighbours, one by one: what the person sees, what the operator sees, that it heals.

The whole bot in virtual time with scripted servers, chats and databases. What each kind of server
and chat answers in its own words is tested with its adapter.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from bot.platforms.base import ChatUnavailable
from queueing.requests import Capability
from tests.fakes.chat import FakeChat, Message
from tests.simulation.bot_house import Bot, bot
from tests.simulation.house import House, host, image_model
from tests.simulation.loop import run

Story = Callable[[Bot, House], Awaitable[None]]


def village(**fields: Any) -> House:
    """Return two servers on two hosts; both have flux, one of them has llama."""
    texts = frozenset({Capability.TEXT_TO_TEXT})
    models = [
        image_model("flux", "comfy", "spare", vram_mb=16000),
        replace(image_model("llama", "comfy", vram_mb=7000), capabilities=texts),
    ]
    return House.of(models, [host("gpu-1", "comfy"), host("gpu-2", "spare")], **fields)


def told(story: Story, house: House | None = None) -> FakeChat:
    """Play a story to its end and return the chat as its people see it then."""

    async def play() -> FakeChat:
        where = house or village()
        async with bot(where) as running:
            await story(running, where)
            await quiet(running)
            assert not where.violations
            return running.chat

    return run(play())


async def quiet(running: Bot, within_s: float = 100_000.0) -> None:
    """Wait until every job has ended and its end is shown."""
    async with asyncio.timeout(within_s):
        while await running.queue.unacknowledged():  # noqa: ASYNC110  virtual time
            await asyncio.sleep(1)


def only(chat: FakeChat) -> Message:
    """Return the one message there is."""
    (message,) = chat.messages.values()
    return message


# ---------------------------------------------------------------- chats


def test_an_answer_is_never_part_of_a_send() -> None:
    """A process that dies after a send repeats it: people would read the answer twice."""

    async def story(running: Bot, _: House) -> None:
        running.chat.fail_when = lambda _chat: ChatUnavailable("away")
        await running.gate.call(running.chat.call("/ask llama why"))
        await asyncio.sleep(600)
        running.chat.fail_when = lambda _chat: None

    message = only(told(story))
    assert "result of why" not in message.texts[0]
    assert message.text.startswith("result of why")
