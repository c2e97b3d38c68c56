"""After an outage, waiting results come at once, oldest first, and no chat gets too many calls."""

import asyncio
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.errors import ChatGone, ChatUnavailable
from bot.people.access import PersonLimits
from tests.fakes.chat import FakeChat
from tests.fakes.strict_chats import StrictChat, StrictDiscord, StrictTelegram
from tests.samples import examples
from tests.simulation.bot_installation import Bot, bot, quiet
from tests.simulation.installation import Installation, host, image_model, until
from tests.simulation.loop import in_virtual_time

MANY = PersonLimits(open_per_person=100, queued_per_person=100)
CHATS = {"telegram": StrictTelegram, "discord": StrictDiscord}


def studio() -> Installation:
    model = image_model("flux", load_s=1.0, service_s=7.0, parallel=1)
    installation = Installation.of([model], [host("gpu-1", "comfy")])
    server = installation.servers["comfy"]
    server.load_s, server.service_s = 1.0, 7.0
    return installation


def results(chat: FakeChat) -> list[float]:
    """Return when each chat got its result, ordered by when it asked."""
    return [each.times[-1] for each in chat.messages.values() if each.contents[-1].files]


async def finish_in_an_outage(running: Bot, chats: int, away_s: float) -> None:
    """Let results become ready while more and more chats cannot be reached; then end the outage."""
    chat, loop = running.chat, asyncio.get_running_loop()
    for number in range(chats):
        await running.dispatcher.call(
            chat.call("/image flux cat", chat=f"{number}", user=f"fake:{number}")
        )
    await until(lambda: len(chat.messages) == chats)
    began = loop.time()

    def failure(name: str) -> ChatUnavailable | None:
        begun = loop.time() >= began + int(name) * 0.37
        return ChatUnavailable("cannot be reached") if begun else None

    chat.fail_when = failure
    await asyncio.sleep(away_s)
    chat.fail_when = lambda _: None


def first_success(chat: FakeChat, after: float) -> float:
    return min(at for message in chat.messages.values() for at in message.times if at > after)


@examples(8, quick=2)
@given(st.sampled_from(sorted(CHATS)), st.integers(8, 30), st.floats(100, 1000), st.integers(0, 99))
@in_virtual_time
async def test_what_an_outage_held_up_comes_within_ten_seconds_of_the_first_success(
    kind: str, chats: int, away_s: float, seed: int
) -> None:
    """Ten results came 75 s after the outage, each chat after a pause of its own."""
    chat: StrictChat = CHATS[kind](Random(seed))
    back: list[float] = []
    held_up: list[int] = []
    async with bot(studio(), chat, limits=MANY) as running:
        await finish_in_an_outage(running, chats, away_s)
        back.append(asyncio.get_running_loop().time())
        held_up.append(chats - len(await running.queue.jobs.open_jobs()))
        await quiet(running)
    assert len(results(chat)) == chats
    if held_up[0]:
        assert sorted(results(chat))[held_up[0] - 1] - first_success(chat, back[0]) < 10.0
    assert chat.refused == 0


@in_virtual_time
async def test_the_oldest_result_comes_first_after_an_outage() -> None:
    """The person who waited longest would have to wait even longer."""
    chat = StrictTelegram(Random(1))
    async with bot(studio(), chat, limits=MANY) as running:
        await finish_in_an_outage(running, 20, 200.0)
        await quiet(running)
    came = results(chat)[1:]  # whichever was tried first showed that the outage is over
    late = [sum(other > at + 0.4 for other in came[:place]) for place, at in enumerate(came)]
    assert max(late) <= 1, "in flight together at most"


@in_virtual_time
async def test_an_answer_of_the_platform_ends_the_pauses() -> None:
    """Telegram accepts messages again, but results would wait for their own next try."""
    chat = FakeChat()
    async with bot(studio(), chat, limits=MANY) as running:
        await finish_in_an_outage(running, 10, 1000.0)
        await asyncio.sleep(1.0)
        assert results(chat) == []
        running.dispatcher.answered("fake")
        await asyncio.sleep(5.0)
        assert len(results(chat)) == 10


@in_virtual_time
async def test_an_answer_to_a_call_does_not_wait_out_its_pause_either() -> None:
    """A person who asked just before the end of the outage would wait half a minute."""
    chat = FakeChat()
    async with bot(studio(), chat, limits=MANY) as running:
        chat.fail_when = lambda _: ChatUnavailable("cannot be reached")
        await running.dispatcher.call(chat.call("/queue"))
        await asyncio.sleep(15.0)  # it is tried after 2, 6 and 14 s, and then after 30 s
        chat.fail_when = lambda _: None
        await asyncio.sleep(2.0)
        assert chat.private == []
        running.dispatcher.answered("fake")
        await asyncio.sleep(1.0)
        assert len(chat.private) == 1


@pytest.mark.parametrize("error", [ChatUnavailable("502"), ChatGone("kicked")])
@in_virtual_time
async def test_a_chat_that_alone_cannot_be_reached_is_not_hammered(error: Exception) -> None:
    """Each success elsewhere would cause another try, and the platform would ban the bot."""
    chat = FakeChat()
    async with bot(studio(), chat, limits=MANY) as running:
        await running.dispatcher.call(chat.call("/image flux cat", chat="broken"))
        await until(lambda: chat.messages)
        chat.fail_when = lambda name: error if name == "broken" else None  # type: ignore[assignment, return-value]
        for number in range(600):
            call = chat.call("/queue", chat=f"{number % 20}", user=f"fake:{number}")
            await running.dispatcher.call(call)
            await asyncio.sleep(1.0)
    assert len([name for _, name in chat.asked if name == "broken"]) < 25


@pytest.mark.parametrize("answered_before", [True, False])
@in_virtual_time
async def test_an_outage_that_ends_during_a_restart_is_over_at_the_first_answer(
    answered_before: bool, tmp_path: Path
) -> None:
    """The pauses of the earlier run would continue although Telegram answers again."""
    chat = FakeChat()
    world = replace(studio(), url=f"sqlite:///{tmp_path}/usher.sqlite")
    async with bot(world, chat, limits=MANY) as running:
        for number in range(5):
            await running.dispatcher.call(
                chat.call("/image flux cat", chat=f"{number}", user=f"fake:{number}")
            )
        await until(lambda: len(chat.messages) == 5)
        chat.fail_when = lambda _: ChatUnavailable("cannot be reached")
        await asyncio.sleep(500.0)
    chat.fail_when = lambda _: None
    async with bot(world, chat, limits=MANY) as running:
        if not answered_before:
            await asyncio.sleep(0.5)
        running.dispatcher.answered("fake")
        await asyncio.sleep(5.0)
        assert len(results(chat)) == 5
