"""Answers survive temporary failures: 429s, failing servers, broken connections."""

import asyncio
from collections.abc import Sequence

import pytest

from bot.core.errors import ChatError, ChatUnavailable, SlowDown
from tests.fakes.chat import FakeChat
from tests.simulation.bot_installation import ADMIN, bot, played
from tests.simulation.installation import Installation, host, image_model, until
from tests.simulation.loop import in_virtual_time

FAILING: dict[str, Sequence[ChatError]] = {
    "penalties": [SlowDown(3.0), SlowDown(1.0), SlowDown(5.0)],
    "server errors": [ChatUnavailable("500") for _ in range(4)],
    "cut connections": [ChatUnavailable("cut", unclear=True) for _ in range(4)],
    "all of them": [SlowDown(2.0), ChatUnavailable("502"), ChatUnavailable("cut", unclear=True)],
}


def installation() -> Installation:
    return Installation.of([image_model("sdxl")], [host("gpu-1", "comfy")])


@pytest.mark.parametrize("failures", FAILING.values(), ids=list(FAILING))
@in_virtual_time
async def test_an_answer_survives_whatever_passes_within_a_minute(
    failures: Sequence[ChatError],
) -> None:
    """A person who is refused, or asks for the queue, would never get an answer."""
    chat = FakeChat()
    async with played(installation(), chat) as running:
        chat.failures.extend(failures)
        await running.dispatcher.call(chat.call("/queue"))
        await running.dispatcher.call(chat.call("/nonsense", user="fake:2"))
        await until(lambda: len(chat.private) == 2, within_s=60)


@pytest.mark.parametrize("failures", FAILING.values(), ids=list(FAILING))
@pytest.mark.parametrize("half", [1, 2])
@in_virtual_time
async def test_both_halves_of_an_admins_command_survive(
    failures: Sequence[ChatError], half: int
) -> None:
    """The admin would forever read "Unloading sdxl …" and rely on it."""
    chat = FakeChat()
    async with played(installation(), chat) as running:
        if half == 1:
            chat.failures.extend(failures)
        await running.dispatcher.call(chat.call("/preload sdxl", user=ADMIN))
        if half == 2:
            await until(lambda: chat.messages)
            chat.failures.extend(failures)
        await until(lambda: any("is loaded" in m.text for m in chat.messages.values()), within_s=90)


@in_virtual_time
async def test_an_answer_that_came_too_late_is_not_given() -> None:
    """After an hour a person would get what they have long since asked for elsewhere."""
    chat = FakeChat()
    async with bot(installation(), chat) as running:
        chat.fail_when = lambda _chat: ChatUnavailable("away")
        await running.dispatcher.call(chat.call("/queue"))
        await asyncio.sleep(3600)
        assert len(chat.asked) < 10
        chat.fail_when = lambda _chat: None
        await asyncio.sleep(3600)
    assert chat.private == []
