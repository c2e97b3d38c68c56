"""One message per job: true while it waits, the result in the end, whatever the chat does."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.core.content import Content
from bot.core.errors import ChatError, ChatGone, ChatUnavailable, SlowDown
from bot.core.platform import MessageRef
from bot.delivery import presenter
from bot.people.access import PersonLimits
from queueing.core.jobs import JobState
from tests.fakes.chat import LIMITS, FakeChat
from tests.simulation.bot_installation import ADMIN, Bot, bot, quiet, settled
from tests.simulation.installation import Installation, ended, host, image_model, until
from tests.simulation.loop import Inside, in_virtual_time, run


def installation(url: str = "sqlite://", *, service_s: float = 5.0, **fields: Any) -> Installation:
    models = [
        image_model("flux", vram_mb=16000, service_s=service_s),
        image_model("sdxl", vram_mb=7000),
    ]
    return Installation.of(models, [host("gpu-1", "comfy")], url=url, **fields)


def in_bot(*, service_s: float = 5.0, **fields: Any) -> Inside[Bot]:
    return Inside(lambda: bot(installation(service_s=service_s), **fields))


@in_bot()
async def test_one_message_lives_from_the_line_to_the_result(running: Bot) -> None:
    """A person would get several messages, or none that becomes the image."""
    await running.dispatcher.call(running.chat.call("/image flux a cat"))
    await quiet(running)
    chat = await settled(running)
    (message,) = chat.messages.values()
    assert "flux" in message.texts[0]
    assert any("loading" in text for text in message.texts)
    assert message.text.startswith("a cat\nflux")
    assert len(message.contents[-1].files) == 1
    assert message.contents[-1].buttons[0][0].command == "again"


@in_bot()
async def test_a_status_tells_the_room_that_its_result_needs(running: Bot) -> None:
    """A page would jump when the images take the place of the words."""
    for asked in ("--size 768x512 --count 2", ""):
        await running.dispatcher.call(running.chat.call(f"/image flux a cat {asked}"))
    await quiet(running)
    first, second = (await settled(running)).messages.values()
    assert first.contents[0].sizes == ((768, 512), (768, 512))
    assert second.contents[0].sizes == ((1024, 1024),)


@in_bot()
async def test_a_job_that_starts_at_once_is_first_seen_at_work(running: Bot) -> None:
    """Each would cost a forecast and a message about a wait too short to read."""
    for _ in range(2):  # the first loads the model
        await running.dispatcher.call(running.chat.call("/image flux cat"))
        await quiet(running)
    *_, message = (await settled(running)).messages.values()
    assert "drawing" in message.texts[0], message.texts


@in_bot()
async def test_positions_only_go_down(running: Bot) -> None:
    """A person would see their place get worse without a reason."""
    for _ in range(5):
        await running.dispatcher.call(running.chat.call("/image flux cat"))
    await quiet(running)
    chat = await settled(running)
    assert len(chat.messages) == 5
    last = list(chat.messages.values())[-1]
    places = [int(text.split("#")[1].split()[0]) for text in last.texts if "in line" in text]
    assert places[0] >= 4
    assert places == sorted(places, reverse=True)


@in_bot()
async def test_a_redelivered_call_is_one_job_and_one_message(running: Bot) -> None:
    """Telegram redelivers after a crash: one request would be charged twice."""
    call = running.chat.call("/image flux cat")
    await running.dispatcher.call(call)
    await running.dispatcher.call(call)
    await quiet(running)
    await running.dispatcher.call(call)
    await asyncio.sleep(60)
    assert len((await settled(running)).messages) == 1


@pytest.mark.parametrize("state", ["waiting", "running", "done"])
@in_virtual_time
async def test_a_restart_goes_on_with_the_same_message(tmp_path: Path, state: str) -> None:
    """After a restart a job would be forgotten, or its result come as a second message."""
    chat = FakeChat()
    world = installation(f"sqlite:///{tmp_path}/usher.sqlite")
    async with bot(world, chat) as running:
        await running.dispatcher.call(chat.call("/image flux cat"))
        await asyncio.sleep({"waiting": 2, "running": 12, "done": 0}[state])
        if state == "done":
            await until(lambda: chat.messages)
            chat.fail_when = lambda _: ChatUnavailable("the network is away")
            (job,) = await running.queue.jobs.open_jobs()
            assert (await ended(running.queue, job)).state is JobState.COMPLETED
    chat.fail_when = lambda _: None
    async with bot(world, chat) as running:
        await quiet(running)
    (message,) = chat.messages.values()
    assert message.text.startswith("cat\nflux")


@in_virtual_time
async def test_a_long_line_of_an_earlier_run_is_taken_up_little_by_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million waiting jobs would be read at once, and the bot answer no one for that time."""
    monkeypatch.setattr(presenter, "MOST_RESUMED", 4)
    chat = FakeChat()
    world = installation(f"sqlite:///{tmp_path}/usher.sqlite")
    async with bot(world, chat) as running:
        for number in range(9):
            await running.dispatcher.call(chat.call(f"/image flux cat {number}"))
        await until(lambda: len(chat.messages) == 9)
    async with bot(world, chat) as running:
        await asyncio.sleep(1)
        assert len(running.presenter._messages) <= 6
        await quiet(running)
    shown = [message for message in chat.messages.values() if not message.contents[0].mention]
    assert sorted(message.text.split("\n")[0] for message in shown) == sorted(
        f"cat {number}" for number in range(9)
    )
    assert all(message.contents[-1].files for message in shown)


@pytest.mark.usefixtures("rare_ticks")  # hours or days pass
@in_bot()
async def test_a_result_survives_a_chat_that_is_away_for_hours(running: Bot) -> None:
    """Finished work would be lost, or drawn again, because a chat was down."""
    await running.dispatcher.call(running.chat.call("/image flux cat"))
    await until(lambda: running.chat.messages)
    running.chat.fail_when = lambda _: ChatUnavailable("502")
    await asyncio.sleep(5 * 3600)
    running.chat.fail_when = lambda _: None
    await quiet(running)
    (message,) = (await settled(running)).messages.values()
    assert message.text.startswith("cat\nflux")


@pytest.mark.usefixtures("rare_ticks")  # hours or days pass
@in_bot()
async def test_a_chat_that_is_gone_is_given_up_after_a_day_with_its_result_kept(
    running: Bot,
) -> None:
    """A removed bot would retry forever, or throw the result away."""
    await running.dispatcher.call(running.chat.call("/image flux cat"))
    await until(lambda: running.chat.messages)
    running.chat.fail_when = lambda _: ChatGone("kicked")
    (job,) = await running.queue.jobs.open_jobs()
    await quiet(running)
    assert asyncio.get_running_loop().time() > 24 * 3600
    assert await running.queue.jobs.output(job) is not None


@in_bot()
async def test_a_deleted_message_is_not_posted_again_until_the_end(running: Bot) -> None:
    """Each time a person deletes the status, the bot would post it again."""
    request = MessageRef(platform="fake", chat="1", message="7")
    await running.dispatcher.call(running.chat.call("/image flux cat", request=request))
    await until(lambda: running.chat.messages)
    running.chat.messages.clear()
    await quiet(running)
    (message,) = (await settled(running)).messages.values()
    assert message.text.startswith("cat\nflux")
    assert message.reply_to == request


@in_bot()
async def test_an_unknown_outcome_of_the_first_answer_still_ends_in_one_result(
    running: Bot,
) -> None:
    """After a timeout of a successful call, the image would be shown twice."""
    running.chat.failures.append(ChatUnavailable("timeout", unclear=True))
    await running.dispatcher.call(running.chat.call("/image flux cat"))
    await quiet(running)
    shown = [m for m in (await settled(running)).messages.values() if m.contents[-1].files]
    assert len(shown) == 1


@in_bot(limits=PersonLimits(queued_per_person=50))
async def test_a_crowded_group_reads_what_stays_true_and_no_pings(running: Bot) -> None:
    """Exact places would be outdated for a minute, and pings would delay results."""
    for number in range(40):
        call = running.chat.call("/image flux cat", chat="g1", user=f"fake:{number}")
        await running.dispatcher.call(call)
        await asyncio.sleep(2.0)
    await quiet(running)
    chat = await settled(running)
    assert len([m for m in chat.messages.values() if m.contents[-1].files]) == 40
    later = [m.texts[0] for m in list(chat.messages.values())[4:]]
    assert [text for text in later if " ahead · " in text]
    assert not [text for text in later if " in line" in text]
    assert len([m for m in chat.messages.values() if m.text.startswith("Ready")]) < 5


@in_bot()
async def test_after_a_long_wait_a_ping_follows_once(running: Bot) -> None:
    """An edit causes no notification: a person who waited long would never look."""
    for number in range(20):
        call = running.chat.call("/image flux cat", user=f"fake:{number}", chat=str(number))
        await running.dispatcher.call(call)
    await quiet(running)
    await asyncio.sleep(10)
    chat = await settled(running)
    pings = [m for m in chat.messages.values() if m.text.startswith("Ready")]
    assert 5 < len(pings) < 20
    assert all(ping.contents[0].mention and ping.reply_to for ping in pings)
    for ping in pings:
        assert ping.reply_to is not None
        result = chat.messages[ping.reply_to.message]
        assert ping.times[0] - result.times[-1] < 0.5, (
            "it belongs to the result, and no turn is idle"
        )


@in_bot(limits=PersonLimits(open_per_person=20, queued_per_person=20))
async def test_one_ping_announces_all_pictures_a_person_asked_for_together(running: Bot) -> None:
    """A person would be notified at each picture of a batch."""
    for _ in range(16):
        await running.dispatcher.call(running.chat.call("/image flux cat"))
    await quiet(running)
    await asyncio.sleep(60)
    chat = await settled(running)
    *results, ping = chat.messages.values()
    assert ping.text == "7 of your jobs are done ↑"
    assert ping.reply_to is not None
    assert chat.messages[ping.reply_to.message] is results[-1]
    assert 0 <= ping.times[0] - results[-1].times[-1] < 2
    assert len(results) == 16


@in_virtual_time
async def test_an_old_message_ends_as_a_fresh_one_where_edits_are_refused() -> None:
    """Discord restricts edits of messages over an hour old: the result would never come."""
    chat = FakeChat(limits=replace(LIMITS, free_edit_s=3300.0))
    async with bot(installation(), chat) as running:
        await running.dispatcher.call(chat.call("/image flux cat"))
        await until(lambda: chat.messages)
        chat.fail_when = lambda _: ChatUnavailable("away")
        await asyncio.sleep(2 * 3600)
        chat.fail_when = lambda _: None
        chat.failures.append(SlowDown(900.0, old_message=True))
        await quiet(running)
    assert [len(message.contents[-1].files) for message in chat.messages.values()] == [0, 1]


@in_virtual_time
async def test_a_passing_state_that_is_held_back_does_not_hold_back_the_end() -> None:
    """A result would come minutes late because an hour-old message could not show a step."""
    chat = FakeChat(limits=replace(LIMITS, edit_every_s=1.0))

    def old(content: Content) -> ChatError | None:
        return None if content.files else SlowDown(900.0, old_message=True)

    async with bot(installation(), chat) as running:
        await running.dispatcher.call(chat.call("/image flux cat"))
        await until(lambda: chat.messages)
        chat.refuse = old
        before = running.clock.now()
        await quiet(running)
        assert running.clock.now() - before < 60
    assert [len(message.contents[-1].files) for message in chat.messages.values()] == [1]


@in_bot()
async def test_refusals_are_private_and_make_no_job(running: Bot) -> None:
    """A typing error would be shown to the whole group, or stored."""
    chat = running.chat
    for text in (
        "/image flux",
        "/image flux cat --size huge",
        "/paint cat",
        "/preload flux",
        "/cancel 7",
        "/cancel",
        "/ask hello",
        "/image flux " + "x" * 100_000,
    ):
        await running.dispatcher.call(chat.call(text))
    await asyncio.sleep(30)
    assert await running.queue.jobs.open_jobs() == []
    chat = await settled(running)
    assert chat.messages == {}
    answers = chat.answers
    assert len(answers) == 8
    assert "Did you mean /image?" in answers[2]
    assert "admins" in answers[3]
    assert "4000" in answers[7]


@in_bot()
async def test_queue_and_models_tell_what_is_true(running: Bot) -> None:
    """People would make plans with wrong numbers."""
    for _ in range(3):
        await running.dispatcher.call(running.chat.call("/image flux cat"))
    await asyncio.sleep(12)
    await running.dispatcher.call(running.chat.call("/queue"))
    await running.dispatcher.call(running.chat.call("/models"))
    await running.dispatcher.call(running.chat.call("/help"))
    await until(lambda: len(running.chat.private) == 3)
    queue, models, help_text = (await settled(running)).answers
    assert "1 · 🎨 drawing with flux" in queue
    assert "#1 in line" in queue
    assert "flux: 2 waiting, 1 running" in queue
    assert "flux · images · in memory on gpu-1 · 2 waiting" in models
    assert "sdxl · images · not loaded" in models
    assert "/image [model] <prompt>" in help_text
    assert "/preload" not in help_text
    assert len(help_text.splitlines()) < 32


@in_bot()
async def test_admins_find_their_commands_and_nobody_else_does(running: Bot) -> None:
    """An admin would have to read the documentation, or people see commands they may not use."""
    for user in (ADMIN, "fake:1"):
        await running.dispatcher.call(running.chat.call("/help", user=user))
        await running.dispatcher.call(running.chat.call("/help admin", user=user))
        await running.dispatcher.call(running.chat.call("/help preload", user=user))
        await asyncio.sleep(30)
    told = (await settled(running)).answers
    assert "/preload /unload" in told[0]
    assert "/preload <model> [host] · Load a model now" in told[1]
    assert "the host" in told[2]
    assert "/preload" not in told[3]
    assert told[4].startswith("There's no command /admin")
    assert told[5].startswith("There's no command /preload")


@in_bot(service_s=25.0)
async def test_a_long_wait_is_said_at_once_with_what_is_free(running: Bot) -> None:
    """People would wait half an hour beside an idle model."""
    await running.dispatcher.call(running.chat.call("/image sdxl a cat"))
    await quiet(running)
    for number in range(24):
        call = running.chat.call("/image flux cat", user=f"fake:{number}", chat=f"{number}")
        await running.dispatcher.call(call)
    await quiet(running)
    chat = await settled(running)
    told = [message.texts for message in chat.messages.values()]
    busy = [texts for texts in told if texts[0].startswith("Busy: about 1")]
    assert 0 < len(busy) < 24
    assert all("free right now: sdxl\n⏳ flux" in texts[0] for texts in busy)
    assert not any(text.startswith("Busy") for texts in told for text in texts[1:])


@in_bot(service_s=25.0)
async def test_a_long_wait_is_said_with_everything_busy(running: Bot) -> None:
    """People would look for another model, and find that it takes as long."""
    for number in range(30):
        call = running.chat.call("/image flux cat", user=f"fake:{number}", chat=f"{number}")
        await running.dispatcher.call(call)
    await quiet(running)
    told = [message.texts for message in (await settled(running)).messages.values()]
    busy = [texts for texts in told if texts[0].startswith("Everything is busy right now: about 1")]
    assert 0 < len(busy) < 14
    assert not any(text.startswith("Everything") for texts in told for text in texts[1:])


def test_a_full_line_says_when_to_come_back(caplog: pytest.LogCaptureFixture) -> None:
    """A person would retry every second, or never, and the operator would never hear of it."""

    async def play() -> FakeChat:
        small = Installation.of([image_model("flux", max_waiting=3)], [host("gpu-1", "comfy")])
        async with bot(small) as running:
            for number in range(6):
                await running.dispatcher.call(running.chat.call(f"/image flux cat {number}"))
            await quiet(running)
            return running.chat

    told = [text for _, text in run(play()).private]
    assert any("The queue for flux is full (3 jobs)" in text for text in told)
    assert caplog.text.count("the queue of flux is full (3 jobs): new ones are refused") == 1
    assert all("try again at 0" in text or "try again at 1" in text for text in told)
