"""The bot asks the queue nothing that a queue in another process could not answer."""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from queueing.core.requests import Capability
from tests.bot.commands.admin.test_admin_commands import say
from tests.fakes.far_queue import FarQueue
from tests.simulation.bot_installation import Bot, played, quiet
from tests.simulation.installation import Installation, host, image_model
from tests.simulation.loop import run

if TYPE_CHECKING:
    pass

ADA, EVE = "fake:1", "fake:2"
TEXT = replace(
    image_model("llama", "other", vram_mb=2000), capabilities=frozenset({Capability.TEXT_TO_TEXT})
)


def two_hosts() -> Installation:
    models = [
        replace(image_model("flux", vram_mb=16000), enhance="llama"),
        image_model("sdxl", vram_mb=16000),
        TEXT,
    ]
    return Installation.of(models, [host("gpu-1", "comfy"), host("gpu-2", "other")])


async def a_day(running: Bot) -> None:
    """Ask, read answers, cancel, administer and forget."""
    await say(running, "/status")
    for words in ("flux a cat", "sdxl --seed 7 a dog", "flux a bird", "nothing a fish"):
        await say(running, f"/image {words}", ADA)
    await say(running, "/ask llama how are you?", EVE)
    await say(running, "/image sdxl a tree", EVE)
    for words in ("/queue", "/models", "/status", "/show 3", "/move 3", "/loras", "/history"):
        await say(running, words)
    await say(running, "/queue", ADA)
    await say(running, "/cancel 3", ADA)
    await asyncio.sleep(8)
    await say(running, "/preload llama")
    await say(running, "/unload sdxl")
    await say(running, "/preload nothing")
    await quiet(running)
    await say(running, "/pause sdxl")
    await say(running, "/image sdxl a lake", ADA)
    await say(running, "/clear sdxl")
    await say(running, "/resume")
    await say(running, "/drain gpu-9")
    await say(running, "/drain gpu-2")
    await say(running, "/again 1", ADA)
    await say(running, "/history", ADA)
    await quiet(running)
    await say(running, "/forget me --sure", ADA)
    await say(running, "/queue")


async def shown(**given: Any) -> tuple[list[Any], list[Any]]:
    """Return all that people are shown that day."""
    async with played(two_hosts(), **given) as running:
        await a_day(running)
    chat = running.chat
    return list(chat.private), [each.contents for each in chat.messages.values()]


def test_people_see_the_same_of_a_queue_behind_a_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A chat in another process would get other answers, or fail where this one does not."""
    monkeypatch.setattr("bot.requests.creation.secrets.randbelow", lambda _: 5)
    private, messages = run(shown())
    assert len(private) + len(messages) > 20
    assert any("llama" in text for _, text in private)
    assert run(shown(service=FarQueue)) == (private, messages)
