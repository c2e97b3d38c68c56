"""Scenarios of the whole bot in virtual time, in which servers, chats and database misbehave."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from queueing.core.requests import Capability
from queueing.core.specs import Timeouts
from tests.fakes.chat import FakeChat, Message
from tests.simulation.bot_installation import Bot, bot
from tests.simulation.installation import Installation, host, image_model
from tests.simulation.loop import run

Scenario = Callable[[Bot, Installation], Awaitable[None]]


def small_installation(**fields: Any) -> Installation:
    """Return a server for images and texts."""
    texts = frozenset({Capability.TEXT_TO_TEXT})
    patience = Timeouts(load_s=60, first_s=60, idle_s=60, total_s=300)
    models = [
        image_model("flux", "comfy", vram_mb=16000, timeouts=patience),
        replace(image_model("llama", "comfy", vram_mb=7000), capabilities=texts),
    ]
    return Installation.of(models, [host("gpu-1", "comfy")], **fields)


def told(scenario: Scenario, installation: Installation | None = None) -> FakeChat:
    """Play a scenario to its end and return the chat as its people see it then."""

    async def play() -> FakeChat:
        where = installation or small_installation()
        async with bot(where) as running:
            await scenario(running, where)
            await quiet(running)
            assert not where.violations
            return running.chat

    return run(play())


async def quiet(running: Bot, within_s: float = 100_000.0) -> None:
    """Wait until every job has ended and its end is shown."""
    async with asyncio.timeout(within_s):
        while await running.queue.deliveries.unacknowledged():  # noqa: ASYNC110  virtual time
            await asyncio.sleep(1)


def only(chat: FakeChat) -> Message:
    """Return the one message there is."""
    (message,) = chat.messages.values()
    return message
