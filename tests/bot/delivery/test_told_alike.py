"""A job's message and `/queue` agree, and both follow what happens."""

import asyncio
from itertools import groupby

import pytest

from bot.core.content import Body, Content, Moment
from bot.core.platform import ChatLimits
from bot.platforms.discord.platform import Discord
from bot.texts.catalogue import plain
from tests.fakes.chat import FakeChat, Message
from tests.simulation.bot_installation import ADMIN, Bot, bot
from tests.simulation.installation import Installation, host, image_model
from tests.simulation.loop import in_virtual_time, run

PAGE = ChatLimits(
    text=4000,
    caption=1000,
    upload=1_000_000,
    image=1_000_000,
    download=1_000_000,
    edit_every_s=0.4,
    chat_every_s=0.05,
    overall_per_s=200.0,
)


def two_models_one_gpu() -> Installation:
    """Return a GPU that only has room for one of two models; a load takes 6 s, an image 9 s."""
    models = [
        image_model(name, vram_mb=size_mb, load_s=6.0, service_s=9.0, parallel=1)
        for name, size_mb in (("flux", 17000), ("qwen", 12000))
    ]
    installation = Installation.of(models, [host("gpu-1", "comfy")])
    server = installation.servers["comfy"]
    server.load_s, server.service_s = 6.0, 9.0
    return installation


async def qwen_behind_flux(running: Bot) -> Message:
    """Let flux hold back a person's qwen; return the message of the qwen job after some seconds."""
    here = running.chat
    for number in range(4):
        await running.dispatcher.call(here.call(f"/image flux {number}", chat="2", user="f:2"))
    await asyncio.sleep(20)
    await running.dispatcher.call(here.call("/image qwen a cat", chat="1", user="f:1"))
    await asyncio.sleep(5)
    return next(each for each in here.messages.values() if each.chat == "1")


def moments(body: Body) -> list[float]:
    return [part.at for part in body if isinstance(part, Moment)]


async def asked(running: Bot, user: str) -> str:
    """Return what `/queue` shows a person, with only their jobs."""
    said: list[Content] = []

    async def respond(content: Content, _private: bool) -> None:
        said.append(content)

    call = running.chat.call("/queue", chat="3", user=user, respond=respond)
    await running.dispatcher.call(call)
    await asyncio.sleep(0.01)
    return plain(said[-1].body).partition("\n\n")[0]


@in_virtual_time
async def test_a_queue_held_back_is_told_the_same_in_its_message_and_by_the_command() -> None:
    """The message named times long past, and other times than /queue."""
    passed: list[float] = []
    differs: list[bool] = []
    async with bot(two_models_one_gpu()) as running:
        message = await qwen_behind_flux(running)
        while "drawing" not in (queue := await asked(running, "f:1")):
            shown, now = message.contents[-1].body, running.clock.now()
            passed.extend(now - at for at in moments(shown) if at < now)
            differs.append(plain(shown) not in queue)
            await asyncio.sleep(1)
    assert len(differs) > 20
    assert max(passed, default=0.0) < 3.0
    changes = "".join("x" if differ else " " for differ in differs)
    assert "x" * 5 not in changes, changes


def test_the_page_is_told_of_a_load_and_of_drawing_in_the_same_second() -> None:
    """It said "loading" for eight seconds beside the first preview."""

    async def play() -> tuple[Message, Installation]:
        installation = two_models_one_gpu()
        async with bot(installation, FakeChat(limits=PAGE)) as running:
            message = await qwen_behind_flux(running)
            await asyncio.sleep(60)
            return message, installation

    message, installation = run(play())
    server = installation.servers["comfy"]
    (loaded_at,) = [at for at, model in server.loads if model == "qwen"]
    (drawn_at,) = [at for at, model, _ in server.starts if model == "qwen"]
    shown = list(zip(message.times, message.texts, strict=True))
    loading_at = next(at for at, text in shown if "loading qwen" in text)
    drawing_at = next(at for at, text in shown if "drawing with qwen" in text)
    assert loading_at - loaded_at < 1.5
    assert drawing_at - drawn_at < 1.0


@pytest.mark.parametrize(
    ("every_s", "others"),
    [
        (4.0, 3),
        pytest.param(4.0, 10, marks=pytest.mark.thorough),
        pytest.param(2.8, 10, marks=pytest.mark.thorough),
    ],
)
@in_virtual_time
async def test_a_place_that_keeps_moving_is_told_again_within_two_seconds_and_a_half(
    every_s: float, others: int
) -> None:
    """While a lane with precedence filled, a message never showed the place in /queue."""
    differs: list[bool] = []
    chat = FakeChat(limits=Discord.limits)
    async with bot(two_models_one_gpu(), chat) as running:
        dispatcher = running.dispatcher
        await dispatcher.call(chat.call("/limit fake:1 --lane relaxed", chat="3", user=ADMIN))
        for room in ("1", "2", "3", "4"):
            await dispatcher.call(chat.call("/image flux a cat", chat=room, user="fake:1"))
        await asyncio.sleep(8)
        message = next(each for each in chat.messages.values() if each.chat == "4")
        async with asyncio.TaskGroup() as comers:
            comers.create_task(come(running, others, every_s))
            while "in line" in (queue := await asked(running, "fake:1")):
                differs.append(plain(message.contents[-1].body) not in queue)
                await asyncio.sleep(0.09)
    assert any(differs)
    assert max(len(list(each)) for wrong, each in groupby(differs) if wrong) <= 25


async def come(running: Bot, others: int, every_s: float) -> None:
    """Let others ask for the same, one after another."""
    for number in range(others):
        await asyncio.sleep(every_s)
        user = f"fake:{10 + number}"
        await running.dispatcher.call(running.chat.call("/image flux a dog", chat="5", user=user))
