"""Past jobs are found again, shown again in full, and really forgotten."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from bot.core.content import Strong
from bot.core.errors import ContentRefused
from bot.core.platform import MessageRef
from bot.platforms.web.chat.chat_log import ShownMessage, TextPart
from bot.texts.catalogue import plain
from queueing.core.jobs import JobState
from queueing.core.requests import Capability
from tests.bot.commands.admin.test_admin_commands import say
from tests.fakes.chat import FakeChat, Message
from tests.fakes.memory_log import MemoryLog
from tests.simulation.bot_installation import Bot, played, settled
from tests.simulation.installation import Installation, host, image_model, until
from tests.simulation.loop import Inside, in_virtual_time


def in_bot() -> Inside[Bot]:
    return Inside(lambda: played(two_models()))


def two_models(url: str = "sqlite://") -> Installation:
    models = [image_model("flux", vram_mb=8000), image_model("llm", vram_mb=8000)]
    models[1] = type(models[1])(
        name="llm",
        backends=("comfy",),
        capabilities=frozenset({Capability.TEXT_TO_TEXT}),
        vram_mb=8000,
        load_s=10.0,
        service_s=5.0,
    )
    return Installation.of(models, [host("gpu-1", "comfy")], url=url)


def files_with(folder: Path, text: bytes) -> list[str]:
    return [file.name for file in folder.iterdir() if text in file.read_bytes()]


async def draw(running: Bot, *prompts: str, user: str = "fake:1") -> None:
    """Ask for images and wait until they are delivered."""
    finished = running.installation.servers["comfy"].finished
    for prompt in prompts:
        await say(running, f"/image flux {prompt}", user)
        await until(lambda prompt=prompt: finished[prompt])
    await asyncio.sleep(10)


def newest(chat: FakeChat) -> Message:
    return chat.messages[max(chat.messages, key=int)]


# ---------------------------------------------------------------- /history


@in_bot()
async def test_a_history_is_ones_own_newest_first_in_pages(running: Bot) -> None:
    """A person would see other people's prompts, or never find an older job."""
    await draw(running, *(f"cat {n}" for n in range(12)))
    await draw(running, "a stranger's dog", user="fake:2")
    await say(running, "/history", "fake:1")
    call = running.chat.call("/history", user="fake:1", options={"id": 3}, button=True)
    await running.dispatcher.call(call)
    await asyncio.sleep(2)
    await say(running, "/history", "fake:3")
    first, older, nobody = (await settled(running)).answers
    assert first.splitlines()[1].startswith("12 · flux · done · cat 11 · ")
    assert len(first.splitlines()) == 11
    assert "stranger" not in first
    assert [line.split(" · ")[0] for line in older.splitlines()[1:]] == ["2", "1"]
    assert nobody == "You have no jobs yet."


@in_bot()
async def test_a_cancelled_job_offers_nothing_to_show(running: Bot) -> None:
    """A press would bring back a message that only says "cancelled"."""
    await draw(running, "cat")
    await say(running, "/image flux dog", "fake:1")
    await say(running, "/cancel 2", "fake:1")
    await asyncio.sleep(60)
    await running.dispatcher.call(running.chat.call("/history", user="fake:1"))
    await asyncio.sleep(2)
    chat = await settled(running)
    told = chat.private_contents[-1]
    heads = [part for part in told.body if isinstance(part, Strong)]
    assert heads == [Strong("2", job=2), Strong("1", job=1, has_image=True)]
    assert [button.job_id for row in told.buttons for button in row] == [1]


# ---------------------------------------------------------------- /show


@in_bot()
async def test_a_past_job_comes_back_as_a_fresh_message_with_image_and_buttons(
    running: Bot,
) -> None:
    """A result whose message was deleted would be lost although it is stored."""
    await draw(running, "cat")
    (old,) = running.chat.messages.values()
    running.chat.messages.clear()
    await say(running, "/show 1", "fake:1", chat="other")
    fresh = newest(running.chat)
    assert fresh.chat == "other"
    assert fresh.contents[-1] == old.contents[-1]
    assert fresh.contents[-1].files
    await say(running, "/show 1", "fake:2")
    await say(running, "/show 9", "fake:1")
    assert (await settled(running)).answers == [
        "You have no job 1.",
        "You have no job 9.",
    ]


@in_bot()
async def test_a_reply_to_a_job_brought_back_is_understood(running: Bot) -> None:
    """No one could continue or cancel by replying to the new message."""
    await draw(running, "cat")
    for _ in range(2):
        await say(running, "/show 1", "fake:1")
    for number in running.chat.messages:
        ref = MessageRef(platform="fake", chat="1", message=number)
        assert await running.records.job_of(ref) == 1
    assert len((await settled(running)).messages) == 3


@in_bot()
async def test_a_button_of_a_job_that_is_no_longer_stored_says_so(running: Bot) -> None:
    """A person who pressed it would read of a number, as if the job were another person's."""
    call = running.chat.call("/again", options={"id": 9}, button=True)
    await running.dispatcher.call(call)
    told = (await settled(running)).private
    assert told[-1][1] == "This job is no longer stored, so I can't do that any more."


@in_bot()
async def test_who_replies_to_another_persons_result_learns_whose_it_is(running: Bot) -> None:
    """They would read that there is no such job, of the message that they see."""
    await draw(running, "cat")
    ref = MessageRef(platform="fake", chat="1", message=next(iter(running.chat.messages)))
    for command in ("/again", "/show", "/cancel", "/edit", "/delete"):
        await say(running, command, "fake:2", replied_to=ref)
    told = {answer.partition(" Usage")[0] for answer in (await settled(running)).answers}
    assert told == {"Only the person who asked, or an admin, can do that."}


@in_bot()
async def test_an_open_job_is_shown_as_it_stands(running: Bot) -> None:
    """A person would be told that their job does not exist while it waits."""
    await say(running, "/pause flux")
    await say(running, "/image flux cat", "fake:1")
    await say(running, "/show 1", "fake:1")
    assert "flux · #1 in line" in (await settled(running)).answers[-1]


# ---------------------------------------------------------------- /forget


@in_virtual_time
async def test_a_forgotten_person_is_in_no_file_any_more(tmp_path: Path) -> None:
    """The bot would say "deleted" but keep the prompts, images and settings on the disk."""
    path = tmp_path / "usher.sqlite"
    async with played(two_models(f"sqlite:///{path}")) as running:
        await say(running, "/settings --size 3:2", "fake:1")
        await draw(running, "a secret cat", "a secret hat")
        await draw(running, "a dog", user="fake:2")
        assert files_with(tmp_path, b"secret")
        await say(running, "/forget me --sure", "fake:1")
        await say(running, "/history", "fake:1")
        await say(running, "/settings", "fake:1")
        assert not files_with(tmp_path, b"secret")
        assert await running.queue.jobs.get(3) is not None
        await say(running, "/show 1", "fake:1")
    _, forgotten, history, settings, shown = running.chat.answers
    assert forgotten.startswith("Everything stored about you has been deleted: your jobs (2)")
    assert forgotten.endswith("delete messages in chats yourself.")
    assert history == "You have no jobs yet."
    assert "3:2" not in settings
    assert shown == "You have no job 1."
    with closing(sqlite3.connect(path)) as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema")]
        for table in ("messages", "deliveries", "outputs"):
            assert table in tables
            found = connection.execute(f"SELECT count(*) FROM {table} WHERE job_id < 3")
            assert found.fetchone() == (0,), table


@in_bot()
async def test_everything_is_forgotten_only_when_the_person_confirms_it(running: Bot) -> None:
    """One word too many would delete years of work, or another person's."""
    await draw(running, "a cat")
    await say(running, "/forget me", "fake:1")
    asked = running.chat.private_contents[-1]
    ((button,),) = asked.buttons
    assert "/forget me --sure" in plain(asked.body)
    pressed: Any = {"button": True, "options": {"id": button.job_id}}
    await say(running, f"/{button.command}", "fake:2", **pressed)
    await say(running, f"/{button.command}", "fake:1", button=True, options={"id": 7})
    assert await running.queue.jobs.get(1) is not None
    await say(running, f"/{button.command}", "fake:1", **pressed)
    assert await running.queue.jobs.get(1) is None
    *_, others, invented, done = (await settled(running)).answers
    assert others == invented == "Only the person who asked, or an admin, can do that."
    assert done.startswith("Everything stored about you has been deleted")


@in_bot()
async def test_forgetting_ends_open_jobs_and_empties_their_messages(running: Bot) -> None:
    """A deleted job would go on running for no one, and its message count down forever."""
    server = running.installation.servers["comfy"]
    server.service_s = 1000.0
    await say(running, "/image flux cat", "fake:1")
    await say(running, "/image flux dog", "fake:1")
    await say(running, "/image flux other", "fake:2")
    await until(lambda: server.running)
    await asyncio.sleep(5)
    server.service_s = 5.0
    await say(running, "/forget me --sure", "fake:1")
    await asyncio.sleep(20)
    assert server.cancelled == ["cat"]
    assert server.finished == {"other": 1}
    assert await running.queue.deliveries.unacknowledged() == []
    ran, waiting, *_ = (await settled(running)).messages.values()
    assert ran.text == "Cancelled and deleted."
    assert ran.contents[-1].buttons == ()
    assert waiting.text.startswith("Cancelled")  # perhaps delivered before it was deleted


@in_bot()
async def test_a_chat_that_cannot_be_reached_does_not_keep_anybody_from_being_forgotten(
    running: Bot,
) -> None:
    """One deleted message would stop the presenter, and every chat with it."""
    running.installation.servers["comfy"].service_s = 50.0
    await say(running, "/image flux cat", "fake:1")
    await asyncio.sleep(30)
    running.chat.fail_when = lambda chat: ContentRefused("no") if chat == "1" else None
    await say(running, "/forget me --sure", "fake:1", chat="2")
    await asyncio.sleep(5000)
    running.chat.fail_when = lambda chat: None
    await draw(running, "dog", user="fake:2")
    assert "dog" in newest(await settled(running)).text


@in_bot()
async def test_a_forgotten_conversation_leaves_images_and_other_chats_alone(running: Bot) -> None:
    """More would be deleted than was asked for, or the answers would stay."""
    await draw(running, "cat")
    for chat in ("1", "2"):
        await say(running, f"/ask llm secret of chat {chat}", "fake:1", chat=chat)
    await say(running, "/ask llm somebody else", "fake:2")
    await asyncio.sleep(60)
    await say(running, "/forget conversation", "fake:1")
    jobs = await running.queue.jobs.history("fake:1", limit=9)
    assert [(job.id, job.state) for job in jobs] == [
        (3, JobState.COMPLETED),
        (1, JobState.COMPLETED),
    ]
    assert len(await running.queue.jobs.history("fake:2", limit=9)) == 1
    await say(running, "/forget conversation", "fake:1")
    forgot, nothing = (await settled(running)).answers[-2:]
    assert forgot.startswith("The questions you asked in this chat (1) and their answers")
    assert nothing.startswith("Nothing you asked in this chat")


@in_virtual_time
async def test_a_chat_that_we_keep_ourselves_is_forgotten_too() -> None:
    """The web chat would keep showing what its person had deleted."""
    log = MemoryLog()
    async with played(two_models(), chat_logs={"fake": log}) as running:
        for chat in ("1", "2"):
            for message in ("asked", "answered", "other"):
                shown = ShownMessage(author="usher", body=(TextPart(text=message),))
                await log.put(chat, message, 1.0, shown, ())
        asked = MessageRef(platform="fake", chat="1", message="asked")
        await say(running, "/ask llm why", "fake:1", request=asked)
        await asyncio.sleep(60)
        ref = MessageRef(platform="fake", chat="1", message="answered")
        await running.records.note_message(1, ref, 1.0)
        await say(running, "/forget conversation", "fake:1")
        assert [entry.message for entry in await log.since("1", 0, 9)] == ["other"]
        await say(running, "/forget me --sure", "fake:1")
        assert await log.since("1", 0, 9) == []
        assert len(await log.since("2", 0, 9)) == 3
    assert not any("delete yourself" in text for text in running.chat.answers)


@in_bot()
async def test_a_forgotten_word_is_needed(running: Bot) -> None:
    """A mistyped command would delete everything."""
    await draw(running, "cat")
    await say(running, "/forget", "fake:1")
    await say(running, "/forget all", "fake:1")
    assert len(await running.queue.jobs.history("fake:1", limit=9)) == 1
    chat = await settled(running)
    without, wrong = chat.answers
    assert without == "Choose one: /forget conversation, /forget me"
    assert wrong == "“all” isn't one of these: conversation, me."
    assert plain(newest(chat).contents[-1].body)


@in_bot()
async def test_the_latest_job_is_meant_where_none_is_named(running: Bot) -> None:
    """People would have to look up a number to see or repeat their latest result."""
    await draw(running, "cat")
    await say(running, "/again", "fake:1")
    await say(running, "/delete", "fake:1")
    await say(running, "/show", "fake:2")
    jobs = await running.queue.jobs.history("fake:1", limit=9)
    assert [getattr(job.request, "prompt", "") for job in jobs] == ["cat", "cat"]
    told = (await settled(running)).answers
    assert any("Which job? Use /delete" in text for text in told)
    assert any("You have no jobs yet" in text for text in told)
