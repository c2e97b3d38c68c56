"""Whatever a chat answers, results are neither lost nor sent twice, and retries stay rare."""

import asyncio
import io
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from bot.core.content import Content
from bot.core.errors import ChatGone, ChatMoved, ChatUnavailable, ContentRefused, SlowDown, TooLarge
from bot.core.platform import Invocation
from queueing.core.requests import Capability, File
from tests.fakes.chat import LIMITS, FakeChat, Message
from tests.simulation.bot_installation import Bot, bot, quiet
from tests.simulation.installation import Installation, ended, host, image_model, until
from tests.simulation.loop import in_virtual_time, run

HOUR_S = 3600.0


def installation(url: str = "sqlite://", **fields: Any) -> Installation:
    text = frozenset({Capability.TEXT_TO_TEXT})
    models = [
        image_model("flux", vram_mb=7000),
        replace(image_model("llama", vram_mb=7000), capabilities=text),
    ]
    return Installation.of(models, [host("gpu-1", "comfy")], url=url, **fields)


async def now() -> float:
    return asyncio.get_running_loop().time()


def ask(service: FakeChat, text: str = "/image flux cat", **how: Any) -> Invocation:
    return service.call(text, **how)


def only(chat: FakeChat) -> Message:
    (message,) = chat.messages.values()
    return message


def told(
    chat: FakeChat, text: str = "/image flux cat", *, within_s: float | None = None
) -> Message:
    """Ask for something, wait no longer than for its end, and return its only message."""

    async def scenario() -> None:
        async with bot(installation(), chat) as running:
            await running.dispatcher.call(ask(chat, text))
            await quiet(running)
            assert within_s is None or await now() < within_s

    run(scenario())
    return only(chat)


def commands(message: Message) -> list[str]:
    return [button.command for row in message.contents[-1].buttons for button in row]


# ---------------------------------------------------------------- chats that cannot be reached


@pytest.mark.usefixtures("rare_ticks")  # hours or days pass
@pytest.mark.parametrize(
    ("hours", "most"), [(2, 30), pytest.param(12, 60, marks=pytest.mark.thorough)]
)
@in_virtual_time
async def test_a_chat_that_shut_us_out_is_tried_rarely_whatever_waits_for_it(
    hours: int, most: int
) -> None:
    """Each job of a removed bot would try the chat separately: the platform would ban the bot."""
    chat = FakeChat()
    async with bot(installation(), chat) as running:
        for number in range(8):
            await running.dispatcher.call(ask(chat, chat="g1", user=f"fake:{number}"))
        await until(lambda: len(chat.messages) == 8)
        chat.fail_when = lambda _: ChatGone("kicked")
        before = len(chat.asked)
        await asyncio.sleep(hours * HOUR_S)
        assert len(chat.asked) - before < most
        if hours > 2:
            await quiet(running)
            assert await now() < 26 * HOUR_S


@pytest.mark.usefixtures("rare_ticks")  # hours or days pass
@pytest.mark.parametrize(
    ("restarts", "most"), [(4, 2), pytest.param(20, 8, marks=pytest.mark.thorough)]
)
def test_restarts_neither_hammer_a_chat_nor_forget_how_long_it_is_gone(
    restarts: int, most: int, tmp_path: Path
) -> None:
    """A bot that restarts repeatedly would try without end, or never give up."""
    chat = FakeChat()
    asked: list[int] = []

    async def play() -> None:
        world = installation(f"sqlite:///{tmp_path}/usher.sqlite")
        async with bot(world, chat) as running:
            await running.dispatcher.call(ask(chat))
            await until(lambda: chat.messages)
            chat.fail_when = lambda _: ChatGone("kicked")
            (job,) = await running.queue.jobs.open_jobs()
            await ended(running.queue, job)
            await asyncio.sleep(2 * HOUR_S)
        for _ in range(restarts):
            before = len(chat.asked)
            async with bot(world, chat):
                await asyncio.sleep(60)
            asked.append(len(chat.asked) - before)
        if restarts < 20:
            return
        async with bot(world, chat) as running:
            await quiet(running)
            assert 24 * HOUR_S < await now() < 27 * HOUR_S
            assert await running.queue.jobs.output(job) is not None

    run(play())
    assert sum(asked) <= most


@pytest.mark.usefixtures("rare_ticks")  # hours or days pass
@in_virtual_time
async def test_a_call_from_a_chat_that_was_gone_brings_what_waited_for_it() -> None:
    """A person who unblocks the bot would wait an hour for a result that is ready."""
    chat = FakeChat()
    async with bot(installation(), chat) as running:
        await running.dispatcher.call(ask(chat))
        await until(lambda: chat.messages)
        chat.fail_when = lambda _: ChatGone("blocked")
        await asyncio.sleep(10 * HOUR_S)
        chat.fail_when = lambda _: None
        await running.dispatcher.call(ask(chat, "/queue"))
        await asyncio.sleep(5)
        assert only(chat).contents[-1].files


@in_virtual_time
async def test_other_chats_go_on_while_one_cannot_be_reached() -> None:
    """One broken chat would delay everyone's results."""
    chat = FakeChat()
    async with bot(installation(), chat) as running:
        chat.fail_when = lambda name: ChatUnavailable("502") if name == "1" else None
        await running.dispatcher.call(ask(chat, chat="1"))
        await running.dispatcher.call(ask(chat, chat="2", user="fake:2"))
        await until(lambda: any(m.contents[-1].files for m in chat.messages.values()))
        assert await now() < 30
        chat.fail_when = lambda _: None
        await quiet(running)
    assert all(message.contents[-1].files for message in chat.messages.values())


@in_virtual_time
async def test_a_platform_that_is_not_connected_yet_is_waited_for_and_not_tried(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """After every restart the first results would fail, with warnings, and come seconds late."""
    away, here = FakeChat("away"), FakeChat()
    away.connected.clear()

    async def scenario(running: Bot) -> None:
        for each in (away, here):
            await running.dispatcher.call(ask(each, user=f"{each.name}:1"))
        await until(lambda: any(m.contents[-1].files for m in here.messages.values()))
        await asyncio.sleep(2 * HOUR_S)
        began = await now()
        await running.presenter.settle(3.0)
        assert await now() == began, "a stop waited for a platform that is not there"
        assert away.asked == []
        away.connected.set()
        await until(lambda: away.messages and only(away).contents[-1].files)
        assert await now() - began < 3

    async with bot(installation(), here, away) as running:
        await scenario(running)
    assert "is unreachable" not in caplog.text


@in_virtual_time
async def test_a_group_that_moved_while_we_were_down_is_found_again(tmp_path: Path) -> None:
    """After a restart a moved group would have two budgets, or its results be lost."""
    chat = FakeChat()
    world = installation(f"sqlite:///{tmp_path}/usher.sqlite")
    async with bot(world, chat) as running:
        for number in range(3):
            await running.dispatcher.call(ask(chat, chat="g1", user=f"fake:{number}"))
        await until(lambda: len(chat.messages) == 3)
        chat.fail_when = lambda name: ChatMoved("g2") if name == "g1" else None
        await asyncio.sleep(12)
    moved_at = len(chat.asked)
    async with bot(world, chat) as running:
        await quiet(running)
    assert {name for _, name in chat.asked[moved_at:]} == {"g2"}
    assert len([m for m in chat.messages.values() if m.contents[-1].files]) == 3


# ---------------------------------------------------------------- results that are refused


def test_a_result_whose_files_are_refused_comes_in_words() -> None:
    """A chat in which images are forbidden would never hear that its job is done."""
    chat = FakeChat()
    chat.refuse = lambda content: ContentRefused("no files here") if content.files else None
    message = told(chat)
    assert message.text.startswith("cat\nflux")
    assert "/show 1" in message.text
    assert message.contents[-1].files == ()


def test_where_we_may_write_but_send_no_images_the_result_comes_in_words() -> None:
    """A group that forbids images looks like a deleted one: the job's end would be lost."""
    chat = FakeChat()
    chat.refuse = lambda content: ChatGone("no right to send photos") if content.files else None
    assert "/show 1" in told(chat, within_s=60).text


def test_a_result_refused_even_in_words_ends_in_a_note() -> None:
    """The message would say "drawing" forever, and the job be retried for a day."""
    chat = FakeChat()
    chat.refuse = lambda content: (
        ContentRefused("can't parse") if "result of" in plain_of(content) else None
    )
    assert "/show 1" in told(chat, "/ask llama why", within_s=60).text


def plain_of(content: Content) -> str:
    return Message(chat="", contents=[content]).text


def test_an_image_that_proves_too_large_comes_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chat whose limit is lower than the platform's would get no image at all."""
    noise = random.Random(1).randbytes(300 * 300 * 3)
    out = io.BytesIO()
    Image.frombytes("RGB", (300, 300), noise).save(out, "PNG")
    image = File(name="cat.png", mime="image/png", data=out.getvalue())
    monkeypatch.setattr("tests.fakes.servers.backend.IMAGE", image)
    chat = FakeChat(limits=replace(LIMITS, upload=300_000))

    def refuse(content: Content) -> TooLarge | None:
        size = sum(len(file.data) for file in content.files)
        return TooLarge(f"{size} bytes") if size > 100_000 else None

    chat.refuse = refuse
    message = told(chat)
    (file,) = message.contents[-1].files
    assert len(image.data) > 200_000
    assert len(file.data) <= 100_000
    assert "smaller" in message.text


def test_a_passing_state_that_is_refused_does_not_stop_the_result() -> None:
    """Because of one update that a platform refuses, a person would not get the image."""
    chat = FakeChat()
    chat.refuse = lambda content: ContentRefused("no") if "drawing" in plain_of(content) else None
    assert told(chat, within_s=60).contents[-1].files


# ---------------------------------------------------------------- further parts

LONG = "/ask llama " + "word " * 200
PAGED = replace(LIMITS, text=600)


@in_virtual_time
async def test_a_part_that_may_have_been_sent_is_not_sent_twice_but_offered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A timeout would repeat half an answer, or silently leave it out."""
    chat = FakeChat(limits=PAGED)
    async with bot(installation(), chat) as running:
        await running.dispatcher.call(ask(chat, LONG))
        await until(lambda: chat.messages)
        sends = chat.send

        async def timing_out(where: str, content: Content, **how: Any) -> Any:
            await sends(where, content, **how)
            monkeypatch.setattr(chat, "send", sends)
            raise ChatUnavailable("timeout", unclear=True)

        monkeypatch.setattr(chat, "send", timing_out)
        await quiet(running)
    status, *parts = chat.messages.values()
    assert len({part.text for part in parts}) == len(parts) > 0
    assert commands(status)[-1] == "show"


@in_virtual_time
async def test_a_part_interrupted_by_a_crash_is_offered_after_the_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part being sent when the process died would be missing, or come twice."""
    chat = FakeChat(limits=PAGED)
    world = installation(f"sqlite:///{tmp_path}/usher.sqlite")
    async with bot(world, chat) as running:
        await running.dispatcher.call(ask(chat, LONG))
        await until(lambda: chat.messages)
        sends, sending = chat.send, asyncio.Event()

        async def hanging(*_: Any, **__: Any) -> Any:
            sending.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(chat, "send", hanging)
        await sending.wait()
    monkeypatch.setattr(chat, "send", sends)
    async with bot(world, chat) as running:
        await quiet(running)
    status, *parts = chat.messages.values()
    assert commands(status)[-1] == "show"
    assert len({part.text for part in parts}) == len(parts)


@in_virtual_time
async def test_a_part_that_was_refused_comes_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer's second half would be retried for a day, and then be missing."""
    chat = FakeChat(limits=PAGED)
    async with bot(installation(), chat) as running:
        await running.dispatcher.call(ask(chat, LONG))
        await until(lambda: chat.messages)
        sends = chat.send

        async def refusing(where: str, content: Content, **how: Any) -> Any:
            if not all(isinstance(part, str) for part in content.body):
                raise ContentRefused("can't parse entities")
            return await sends(where, content, **how)

        monkeypatch.setattr(chat, "send", refusing)
        await quiet(running)
    status, *parts = chat.messages.values()
    assert len(parts) > 0
    assert "show" not in commands(status)


# ---------------------------------------------------------------- penalties and budgets


@in_virtual_time
async def test_after_a_penalty_only_the_newest_text_is_shown() -> None:
    """People would see outdated places change for minutes."""
    chat = FakeChat()
    async with bot(installation(), chat) as running:
        for number in range(12):
            where = "1" if number == 11 else "2"
            await running.dispatcher.call(ask(chat, user=f"fake:{number}", chat=where))
        await until(lambda: any(m.chat == "1" for m in chat.messages.values()))
        mine = next(m for m in chat.messages.values() if m.chat == "1")
        shown = len(mine.texts)
        penalty = SlowDown(40.0)
        chat.fail_when = lambda name: penalty if name == "1" else None
        await asyncio.sleep(15)
        chat.fail_when = lambda _: None
        before = await now()
        await until(lambda: len(mine.texts) > shown)
        assert mine.times[shown] <= before + 45
        (job,) = await running.queue.jobs.open_jobs("fake:11")
        (standing,) = (await running.queue.status.standings([job])).values()
        assert f"#{standing.position} in line" in mine.text


@in_virtual_time
async def test_an_answer_held_up_by_a_penalty_comes_after_it() -> None:
    """A command in a busy chat would get no answer at all."""
    chat = FakeChat()
    async with bot(installation(), chat) as running:
        chat.failures.append(SlowDown(5.0))
        await running.dispatcher.call(ask(chat, "/help"))
        await asyncio.sleep(10)
    assert len(chat.private) == 1


@pytest.mark.parametrize("free", [True, False])
@in_virtual_time
async def test_first_answers_that_cost_nothing_come_at_once(free: bool) -> None:
    """On Discord the third caller in a busy channel would wait until their call is lost."""
    chat = FakeChat(limits=replace(LIMITS, chat_every_s=2.0, free_answers=free))
    async with bot(installation(), chat) as running:
        for number in range(5):
            await running.dispatcher.call(ask(chat, chat="g1", user=f"fake:{number}"))
        await until(lambda: len(chat.messages) == 5)
        took = await now()
        assert took < 1 if free else took > 4


@in_virtual_time
async def test_a_penalty_on_a_free_first_answer_holds_up_no_other_call() -> None:
    """One refused callback would keep everyone in the channel without an answer."""
    chat = FakeChat(limits=replace(LIMITS, free_answers=True))
    chat.failures.append(SlowDown(40.0))
    async with bot(installation(), chat) as running:
        for number in range(3):
            await running.dispatcher.call(ask(chat, chat="g1", user=f"fake:{number}"))
        await until(lambda: len(chat.messages) == 2)
        assert await now() < 5
        await quiet(running)
    assert len(chat.messages) == 3


@in_virtual_time
async def test_a_fault_of_our_own_is_not_the_chats_fault() -> None:
    """A text that cannot be rendered would stop its whole chat."""
    chat = FakeChat()
    async with bot(installation(), chat) as running:

        def fault(content: Content) -> None:
            if "cat" in plain_of(content):
                raise ValueError("a bug")

        chat.refuse = fault
        await running.dispatcher.call(ask(chat, "/image flux cat"))
        await running.dispatcher.call(ask(chat, "/image flux dog"))
        await until(lambda: any("dog" in m.text for m in chat.messages.values()))
        assert await now() < 60
        chat.refuse = lambda _: None
        await quiet(running)
    assert all(m.contents[-1].files for m in chat.messages.values())
    assert len(chat.messages) == 2
