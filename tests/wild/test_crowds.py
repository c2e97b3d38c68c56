"""In which order a chat gets what many people asked for at once, in virtual time.

Each file of `crowds/` states how many `people` ask in one room, how far apart, how long an answer
takes, how many are written `at_once`, and how late the latest one may come (`late_s`). `askers`
share the questions; `mentions` are messages, which are answered by messages.
"""

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.content import Content, Markdown
from bot.core.platform import Invocation, MessageRef
from bot.people.access import PersonLimits
from bot.texts.catalogue import plain
from queueing.core.events import Event, JobChanged
from queueing.core.jobs import JobState
from queueing.core.requests import Capability, Chat
from tests.fakes.strict_chats import StrictChat, StrictDiscord, StrictPage, StrictTelegram
from tests.samples import in_turn
from tests.simulation.bot_installation import Bot, bot, quiet
from tests.simulation.installation import Installation, host, image_model
from tests.simulation.loop import run
from tests.wild.cases import cases, read_case

CASES = cases("crowds")
CHATS = {"telegram": StrictTelegram, "discord": StrictDiscord, "web": StrictPage}
UNDER_WAY_S = 1.5  # a request that was sent before a result became ready
MANY = PersonLimits(open_per_person=100, queued_per_person=100)


@dataclass
class Watched:
    """When each question's answer was ready, and what the chat saw when.

    Where an answer comes `whole` with its first message, no message without it may follow it.
    """

    whole: bool
    ready: dict[int, float] = field(default_factory=dict)
    shown: dict[int, float] = field(default_factory=dict)
    pings: list[float] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)

    def on_event(self, event: Event) -> None:
        if not isinstance(event, JobChanged) or event.job.state is not JobState.COMPLETED:
            return
        if isinstance(request := event.job.request, Chat):
            number = int(request.messages[-1].text.removeprefix("q"))
            self.ready.setdefault(number, asyncio.get_running_loop().time())

    def on_show(self, _chat: str, content: Content) -> None:
        now, text = asyncio.get_running_loop().time(), plain(content.body)
        if content.mention:
            self.pings.append(now)
        elif any(isinstance(part, Markdown) for part in content.body) and text.endswith(" s"):
            number = int(text.split()[2].removeprefix("q"))
            self.shown.setdefault(number, now)
        elif "on its way" in text and (content.buttons or self.whole):
            self.unfinished.append(text)

    def waited_behind(self) -> list[str]:
        """Return the answers that waited although something else was sent."""
        sent = [(at, f"answer {number}", number) for number, at in self.shown.items()]
        sent += [(at, "a ping", len(self.ready)) for at in self.pings]
        return [
            f"{number} behind {what}"
            for at, what, place in sent
            for number, ready_at in self.ready.items()
            if number < place and ready_at < at - UNDER_WAY_S and self.shown[number] > at
        ]

    def late_s(self) -> float:
        return max(at - self.ready[number] for number, at in self.shown.items())


def world(answer_s: float, at_once: int) -> Installation:
    model = image_model("llama", load_s=1.0, service_s=answer_s, parallel=at_once)
    text = frozenset({Capability.TEXT_TO_TEXT})
    installation = Installation.of([replace(model, capabilities=text)], [host("gpu-1", "comfy")])
    server = installation.servers["comfy"]
    server.load_s, server.service_s = 1.0, answer_s
    return installation


def asked(chat: StrictChat, crowd: dict[str, Any], number: int) -> Invocation:
    room, user = crowd.get("room", "g1"), number % crowd.get("askers", crowd["people"])
    mention: dict[str, Any] = {}
    if crowd.get("mentions"):
        request = MessageRef(platform=chat.name, chat=room, message=f"{1000 + number}")

        async def respond(content: Content, _private: bool) -> MessageRef:
            return await chat.send(room, content, reply_to=request)

        mention = {"request": request, "respond": respond}
    return chat.call(f"/ask llama q{number}", chat=room, user=f"fake:{user}", **mention)


def watched(crowd: dict[str, Any], seed: int = 1) -> tuple[StrictChat, Watched]:
    """Let the crowd ask, and return its chat with what it saw."""
    chat, seen = CHATS[crowd["chat"]](Random(seed)), Watched(whole=crowd["chat"] != "telegram")
    chat.on_show = seen.on_show

    async def scenario(running: Bot) -> None:
        running.queue.events.subscribe(seen.on_event)
        for number in range(crowd["people"]):
            await running.dispatcher.call(asked(chat, crowd, number))
            await asyncio.sleep(crowd["every_s"])
        await quiet(running)
        await asyncio.sleep(60)

    async def play() -> None:
        installation = world(crowd["answer_s"], crowd.get("at_once", 50))
        async with bot(installation, chat, limits=MANY) as running:
            await scenario(running)

    run(play())
    return chat, seen


@in_turn("case", CASES)
def test_a_ready_answer_waits_for_earlier_requests_only(case: Path) -> None:
    """The person who asked first would get the answer last, after first messages and pings."""
    crowd = read_case(case)
    chat, seen = watched(crowd)
    assert len(seen.shown) == len(seen.ready) == crowd["people"]
    assert seen.waited_behind() == []
    assert seen.unfinished == []
    assert seen.late_s() <= crowd["late_s"]
    assert chat.refused == 0


crowds = st.fixed_dictionaries(
    {
        "chat": st.sampled_from(sorted(CHATS)),
        "people": st.integers(2, 25),
        "every_s": st.floats(0.0, 4.0),
        "answer_s": st.floats(0.05, 90.0),
        "at_once": st.integers(1, 30),
        "askers": st.integers(1, 5),
        "mentions": st.booleans(),
    }
)


@pytest.mark.thorough
@settings(max_examples=60, deadline=None)
@given(crowds, st.integers(0, 999))
def test_so_it_is_in_any_crowd(crowd: dict[str, Any], seed: int) -> None:
    """What is true for a few numbers may fail with others."""
    chat, seen = watched(crowd, seed)
    assert len(seen.shown) == crowd["people"]
    assert seen.waited_behind() == []
    assert seen.unfinished == []
    assert chat.refused == 0


def test_one_ping_tells_a_person_of_several_results() -> None:
    """A ping for each of many results would take as many requests from other people's results."""
    crowd = {"chat": "telegram", "people": 6, "every_s": 0.1, "answer_s": 65.0, "askers": 1}
    chat, seen = watched(crowd)
    told = [each.text for each in chat.messages.values() if each.contents[0].mention]
    assert told == ["6 of your jobs are done ↑"]
    assert min(seen.pings) > max(seen.shown.values())
