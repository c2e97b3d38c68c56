"""No one starves in a busy channel, and no limit is exceeded by bursts or a stalled process."""

import asyncio
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.content import Content
from bot.core.platform import Invocation, MessageRef
from bot.delivery.channels import Channels
from tests.fakes.chat import FakeChat
from tests.fakes.clock import VirtualClock
from tests.fakes.strict_chats import StrictChat, StrictDiscord, StrictTelegram, Window
from tests.simulation.bot_installation import ADMIN, Bot, bot
from tests.simulation.installation import Installation, host, image_model
from tests.simulation.loop import VirtualLoop, in_virtual_time, run

MODELS = tuple(f"model-{number}" for number in range(6))
BEAT_S = 2.0  # a job ends so often


def studio() -> Installation:
    models = [image_model(name, f"on-{name}", service_s=BEAT_S * len(MODELS)) for name in MODELS]
    return Installation.of(models, [host(f"gpu-{name}", f"on-{name}") for name in MODELS])


@dataclass
class Told:
    """How long answers to messages took, and how many edits were made before each."""

    seconds: list[float] = field(default_factory=list)
    edits: list[int] = field(default_factory=list)


def mention(chat: StrictChat, text: str, told: Told, *, room: str, user: str) -> Invocation:
    """Return a call by a message, whose answer is a message and is recorded in `told`."""
    loop = asyncio.get_running_loop()
    asked_at, edits = loop.time(), chat.edits

    async def respond(content: Content, private: bool) -> MessageRef:
        ref = await chat.send(room, content)
        told.seconds.append(loop.time() - asked_at)
        told.edits.append(chat.edits - edits)
        return ref

    request = MessageRef(platform=chat.name, chat=room, message="1")
    return chat.call(text, chat=room, user=user, respond=respond, request=request)


async def hot_channel(running: Bot, chat: StrictChat, minutes: int) -> tuple[Told, Told]:
    """Let a job end every two seconds in one channel, while people and an admin send commands."""
    told, loads = Told(), Told()

    async def draw() -> None:
        for number in range(int(minutes * 60 / BEAT_S)):
            name = MODELS[number % len(MODELS)]
            user = f"discord:{number % 40}"
            await running.dispatcher.call(chat.call(f"/image {name} cat", chat="g1", user=user))
            await asyncio.sleep(BEAT_S)

    async def load() -> None:
        for number in range(int(minutes * 60 / 8)):
            verb = f"/preload {MODELS[number % len(MODELS)]}"
            await running.dispatcher.call(mention(chat, verb, loads, room="g1", user=ADMIN))
            await asyncio.sleep(8)

    async def ask() -> None:
        for _ in range(int(minutes * 60 / 12)):
            await asyncio.sleep(12)
            await running.dispatcher.call(
                mention(chat, "/queue", told, room="g1", user="discord:7")
            )

    await asyncio.gather(draw(), load(), ask())
    await asyncio.sleep(30)
    return told, loads


@pytest.mark.parametrize(
    ("seed", "minutes"),
    [(1, 2), *(pytest.param(seed, 8, marks=pytest.mark.thorough) for seed in (2, 3))],
)
def test_an_answer_in_a_hot_channel_waits_for_at_most_three_edits(seed: int, minutes: int) -> None:
    """Edits would take every free request, and an answer wait for minutes."""
    chat = StrictDiscord(Random(seed))

    async def scenario() -> tuple[Told, Told]:
        async with bot(studio(), chat) as running:
            return await hot_channel(running, chat, minutes=minutes)

    told, loads = run(scenario())
    assert len(told.edits) == minutes * 60 // 12
    assert len(loads.edits) == minutes * 60 // 8
    assert max(told.edits + loads.edits) <= 3
    assert max(told.seconds + loads.seconds) < 10.0
    left = [each.text for each in chat.messages.values() if each.text.endswith("…")]
    assert left == [], "a first half without its second"
    assert chat.refused == 0


callers = st.lists(st.tuples(st.floats(0, 20), st.booleans()), min_size=1, max_size=12)


@settings(max_examples=20)
@given(callers, st.integers(1, 4), st.randoms(use_true_random=False))
@in_virtual_time
async def test_turns_are_taken_in_the_order_they_were_asked_for(
    calls: list[tuple[float, bool]], updaters: int, random: Random
) -> None:
    """A person who asks often would overtake a person who asks once."""
    chat = FakeChat()
    asked: list[str] = []
    served: list[str] = []

    async def take(channels: Channels, name: str, *, burst: bool) -> None:
        asked.append(name)
        async with channels.turn("fake", "g1", burst=burst):
            served.append(name)
            await asyncio.sleep(random.uniform(0.0, 2.0))

    channels = Channels({"fake": chat}, VirtualClock())

    async def update(name: str) -> None:
        while True:
            await take(channels, name, burst=False)

    async def call(number: int, after_s: float, *, burst: bool) -> None:
        await asyncio.sleep(after_s)
        await take(channels, f"call {number}", burst=burst)

    updating = [asyncio.create_task(update(f"update {n}")) for n in range(updaters)]
    await asyncio.gather(*(call(n, at, burst=burst) for n, (at, burst) in enumerate(calls)))
    for task in updating:
        task.cancel()
    assert served == asked[: len(served)]


class StrictestTelegram(StrictTelegram):
    """One request a second in a private chat, as documented, with no short bursts."""

    def windows_of(self, chat: str) -> tuple[Window, ...]:
        """Return the documented windows."""
        if not chat or self.is_group(chat):
            return super().windows_of(chat)
        return (Window(1, 1.0),)


@pytest.mark.parametrize("kind", [StrictestTelegram, StrictDiscord])
@pytest.mark.parametrize(
    ("seed", "calls"), [(1, 60), pytest.param(2, 300, marks=pytest.mark.thorough)]
)
@in_virtual_time
async def test_no_limit_is_broken_after_the_process_stalled(
    kind: type[StrictestTelegram] | type[StrictDiscord], seed: int, calls: int
) -> None:
    """The messages spaced before a stall would all be sent at once, and be lost or penalised."""
    random = Random(seed)
    chat = kind(random)
    told = Told()
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    async with bot(studio(), chat) as running:
        for number in range(calls):
            room = f"g{number % 10}" if number % 9 == 0 else f"p{number % 200}"
            verb = "/queue" if number % 3 else f"/image {MODELS[number % 6]} cat"
            user = f"{chat.name}:{number}"
            await running.dispatcher.call(mention(chat, verb, told, room=room, user=user))
            await asyncio.sleep(5 / calls)
            if number % 60 == 59:
                loop.stall(10.0)
        for _ in range(calls // 7):
            await asyncio.sleep(random.uniform(0.1, 2.0))
            loop.stall(random.choice([0.3, 1.0, 10.0]))
        await asyncio.sleep(300)
    assert chat.refused == 0
    assert len(told.seconds) == calls


@in_virtual_time
async def test_a_burst_of_answers_keeps_to_a_channels_limit() -> None:
    """Ten people who ask at once would cause a penalty for everyone in the channel."""
    chat = StrictDiscord(Random(1))
    told = Told()
    async with bot(studio(), chat) as running:
        for _ in range(6):
            calls = [
                mention(chat, "/queue", told, room="g1", user=f"discord:{number}")
                for number in range(10)
            ]
            await asyncio.gather(*(running.dispatcher.call(call) for call in calls))
            await asyncio.sleep(11)
    assert chat.refused == 0
    assert len(told.seconds) == 60
    assert sorted(told.seconds)[20] < 1.0, "the first of each burst are answered at once"
