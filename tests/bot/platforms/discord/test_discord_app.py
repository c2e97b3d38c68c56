"""The whole bot on the fake Discord: from a typed command to the delivered image and back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bot.app.app import BotParts
from bot.commands.registry import COMMANDS
from bot.platforms.discord.platform import Discord
from bot.texts.catalogue import describe
from queueing.core.requests import TextToImage
from tests.bot.platforms.discord.discord_bot import RecordingHandler, running
from tests.bot.whole_bot import DRAWS_AND_WRITES, on_discord
from tests.contracts.chat.chat_harness import image
from tests.fakes.discord.discord import FakeDiscord
from tests.fakes.discord.discord_state import APPLICATION_ID, FakeMessage

CONFIG = f"""
{DRAWS_AND_WRITES}
chats:
  discord: {{token: "${{DISCORD_TOKEN}}"}}
admins: ["discord:1"]
"""


@asynccontextmanager
async def usher(
    fake: FakeDiscord,
    folder: Path,
    *,
    image_s: float = 0.3,
    go_on: asyncio.Event | None = None,
) -> AsyncIterator[BotParts]:
    text = CONFIG.replace("IMAGE_S", str(image_s))
    async with on_discord(fake, folder, text, go_on=go_on) as parts:
        yield parts


def done(message: FakeMessage | None) -> bool:
    """Return whether a message shows its result and not only a preview."""
    return message is not None and any("preview" not in file.name for file in message.files)


async def test_the_real_commands_are_ones_discord_takes() -> None:
    """A new command or option would break Discord's rules, and no command would be registered."""
    async with FakeDiscord() as fake:
        chat = Discord(fake.token, describe=describe)
        async with running(fake, RecordingHandler(commands=COMMANDS), chat):
            registered = {each["name"]: each for each in fake.rest.commands}
    typed = {name: each for name, each in registered.items() if each["type"] == 1}
    menus = {name: each for name, each in registered.items() if each["type"] == 3}
    assert set(typed) == {each.name for each in COMMANDS if not each.hidden}
    assert len(typed) <= 100
    assert set(menus) == {describe(each.menu, "en") for each in COMMANDS if each.menu}
    assert len(menus) <= 5
    assert all("de" in each["name_localizations"] for each in menus.values())
    assert typed["image"]["name_localizations"] == {"de": "bild"}
    for command in typed.values():
        options = command["options"]
        texts = [command["name"], command["description"]]
        texts += [text for option in options for text in (option["name"], option["description"])]
        assert len(options) <= 25
        assert sum(map(len, texts)) <= 8000
        assert "de" in command["description_localizations"]
        required = [bool(option.get("required")) for option in options]
        assert required == sorted(required, reverse=True)


async def test_an_image_is_asked_for_and_delivered_in_one_message(tmp_path: Path) -> None:
    """Drawing an image would not work on Discord."""
    async with FakeDiscord() as fake, usher(fake, tmp_path):
        person = fake.person(7, "Ada")
        call = await person.slash("image", model="flux", prompt="a *cat* @everyone")
        await fake.wait_for(lambda: done(call.answer))
        [message] = fake.channel().messages
        assert message is call.answer
        assert message.files[0].data.startswith(b"\x89PNG")
        assert message.files[0].alt == "a *cat* @everyone"
        assert "a *cat* @everyone" in message.shown
        assert message.notified == frozenset()
        assert message.edited_by_token == 0
        assert len(message.history) > 1


async def test_a_command_without_words_opens_a_form_for_them(tmp_path: Path) -> None:
    """People would have to search twenty options, or could not reach the rare ones."""
    async with FakeDiscord() as fake, usher(fake, tmp_path) as parts:
        person = fake.person(7, "Ada", locale="de")
        opened = await person.slash("image")
        await fake.wait_for(lambda: opened.form)
        assert list(opened.fields) == ["prompt", "model", "size", "image", "more"]
        assert opened.selects["model"] == ["flux"]
        sent = await person.send_off(
            opened, prompt="a cat", model="flux", size="wide", more="--seed 7 --steps 9"
        )
        await fake.wait_for(lambda: done(sent.answer))
        wrong = await person.send_off(opened, prompt="a cat", more="on a mat")
        await fake.wait_for(lambda: wrong.answer)
        typed = await person.slash("image", prompt="a cat", more="--guidance 4")
        await fake.wait_for(lambda: done(typed.answer))
        first, second = await parts.queue.jobs.get(1), await parts.queue.jobs.get(2)
        assert first is not None
        assert second is not None
        assert isinstance(first.request, TextToImage)
        assert isinstance(second.request, TextToImage)
        assert (first.request.seed, first.request.steps, second.request.guidance) == (7, 9, 4)
        assert (
            len(next(each["options"] for each in fake.rest.commands if each["name"] == "image"))
            <= 12
        )
        assert wrong.answer is not None
        assert "on a mat" in wrong.answer.shown
        useless = await person.slash("video")  # no model here makes videos
        await fake.wait_for(lambda: useless.answer)
        assert useless.form is None


async def test_an_image_is_given_in_the_form(tmp_path: Path) -> None:
    """A person who opens the form would have to start again to add a picture."""
    go_on = asyncio.Event()
    drawing = CONFIG.replace("IMAGE_S", "0.3").replace(
        "[text-to-image]", "[text-to-image, image-to-image]"
    )
    async with FakeDiscord() as fake, on_discord(fake, tmp_path, drawing, go_on=go_on) as parts:
        person = fake.person(7, "Ada")
        opened = await person.slash("image")
        await fake.wait_for(lambda: opened.form)
        given = person.file("cat.png", image().data)
        sent = await person.send_off(opened, prompt="a dog", image=given)
        await fake.wait_for(lambda: sent.answer)
        job = await parts.queue.jobs.get(1)
        assert job is not None
        assert len(await parts.queue.jobs.inputs(job) or ()) == 1
        go_on.set()
        await fake.wait_for(lambda: done(sent.answer))


async def test_a_result_is_copied_to_the_direct_messages_of_who_asked(tmp_path: Path) -> None:
    """A picture would be lost in a busy channel, or strangers would get other people's pictures."""
    async with FakeDiscord() as fake, usher(fake, tmp_path):
        person, stranger = fake.person(7, "Ada"), fake.person(8)
        call = await person.slash("image", model="flux", prompt="a cat")
        await fake.wait_for(lambda: done(call.answer))
        [result] = fake.channel().messages
        press = await person.click(result, "✉️ Copy")
        await fake.wait_for(lambda: press.followups)
        [copied] = person.direct.messages
        assert copied.files[0].data == result.files[0].data
        assert "✉️ Copy" not in [each.label for each in copied.buttons]
        assert press.followups[0].seen_only_by == 7
        refused = await stranger.click(result, "✉️ Copy")
        await fake.wait_for(lambda: refused.followups)
        assert not stranger.direct.messages
        person.direct.all_messages.clear()  # deleted there
        press = await person.click(result, "✉️ Copy")
        await fake.wait_for(lambda: press.followups)
        assert len(person.direct.messages) == 1
        person.direct.refusal = (403, 50007)
        german = await person.slash("settings", language="de")
        await fake.wait_for(lambda: german.answer)
        press = await person.click(result, "✉️ Copy")
        await fake.wait_for(lambda: press.followups)
        assert "Ich kann dir nicht" in press.followups[0].shown


async def test_a_copy_in_the_direct_messages_stands_for_its_result(tmp_path: Path) -> None:
    """A reply to the copy would refer to another picture, or the channel's picture stay forever."""
    async with FakeDiscord() as fake, usher(fake, tmp_path):
        person = fake.person(7, "Ada")
        words = ("a cat", "a dog")
        calls = [await person.slash("image", model="flux", prompt=each) for each in words]
        await fake.wait_for(lambda: all(done(call.answer) for call in calls))
        first, second = fake.channel().messages
        press = await person.click(first, "✉️ Copy")
        await fake.wait_for(lambda: press.followups)
        direct = person.direct
        [copied] = direct.messages
        await person.says("/again", in_channel=direct, reply_to=copied)
        await fake.wait_for(lambda: done(direct.messages[-1]) and len(direct.messages) == 3)
        assert "a cat" in direct.messages[-1].shown
        await person.open_menu(copied, "Vary")
        await fake.wait_for(lambda: done(direct.messages[-1]) and len(direct.messages) == 4)
        assert "a cat" in direct.messages[-1].shown
        await person.says("/delete", in_channel=direct, reply_to=copied)
        await fake.wait_for(lambda: fake.channel().messages == [second])
        await fake.wait_for(lambda: copied not in direct.messages)


async def test_jobs_wait_in_line_and_one_is_cancelled_by_its_button(tmp_path: Path) -> None:
    """Places would not be shown, or the button would cancel another job."""
    go_on = asyncio.Event()
    async with FakeDiscord() as fake, usher(fake, tmp_path, go_on=go_on):
        person = fake.person(7, "Ada")
        calls = [
            await person.slash("image", model="flux", prompt=f"cat {number}") for number in range(3)
        ]
        last = await fake.wait_for(lambda: calls[2].answer)
        assert last is not None
        stranger = fake.person(8)
        await stranger.click(last, "Cancel")
        await fake.wait_for(lambda: len(stranger.sees()) > len(fake.channel().messages))
        await person.click(last, "Cancel")
        await fake.wait_for(lambda: last.shown.startswith("Cancelled"))
        go_on.set()
        await fake.wait_for(lambda: done(calls[0].answer) and done(calls[1].answer))
        assert last.files == []
        told = [text for message in fake.channel().messages for text in message.history]
        assert any("in line" in text for text in told)


async def test_work_goes_on_after_a_restart_in_the_same_message(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A restart would lose a waiting job, its message or its button."""
    async with FakeDiscord() as fake:
        person = fake.person(7, "Ada")
        async with usher(fake, tmp_path):
            calls = [
                await person.slash("image", model="flux", prompt=f"cat {number}")
                for number in range(2)
            ]
            await fake.wait_for(lambda: all(call.answer for call in calls))
        fake.later(1200)  # the interactions' tokens are worth nothing by now
        async with usher(fake, tmp_path):
            messages = [call.answer for call in calls]
            await fake.wait_for(lambda: all(done(each) for each in messages))
            assert fake.channel().messages == messages
        assert fake.rest.syncs == 1
    assert "is unreachable" not in caplog.text, "a delivery did not wait for the connection"


async def test_an_answer_streams_and_admins_alone_may_preload(tmp_path: Path) -> None:
    """Texts would not arrive, or anyone could load models."""
    async with FakeDiscord() as fake, usher(fake, tmp_path):
        call = await fake.person(7).slash("ask", model="llama", prompt="why?")
        refused = await fake.person(7).slash("preload", model="flux")
        answer = await fake.wait_for(lambda: refused.answer)
        assert answer is not None
        assert answer.seen_only_by == 7
        message = await fake.wait_for(lambda: call.answer)
        assert message is not None
        await fake.wait_for(lambda: any("Regenerate" in each.label for each in message.buttons))
        assert "why?" in message.shown


@pytest.mark.parametrize(
    ("allowed", "thread", "named"),
    [
        (0, False, "View Channel, Send Messages"),
        (1 << 11, False, "View Channel"),
        (1 << 10, False, "Send Messages"),
        (1 << 10 | 1 << 11, True, "Send Messages in Threads"),
    ],
)
async def test_work_is_refused_where_its_result_could_not_be_shown(
    allowed: int, thread: bool, named: str, tmp_path: Path
) -> None:
    """A job was accepted, showed "ready in 5 s" forever, and nobody got its result."""
    async with FakeDiscord() as fake, usher(fake, tmp_path) as parts:
        channel = fake.add_channel(300, thread=thread)
        channel.permissions, channel.refusal = allowed, (403, 50001)
        person = fake.person(7)
        call = await person.slash("image", in_channel=channel, model="flux", prompt="cat")
        answer = await fake.wait_for(lambda: call.answer)
        assert answer is not None
        assert answer.seen_only_by == 7
        assert answer.shown.endswith(f"must give me {named}.")
        assert await parts.queue.jobs.open_jobs() == []
        told = await person.slash("queue", in_channel=channel)
        await fake.wait_for(lambda: told.answer)


@pytest.mark.parametrize("thread", [False, True])
async def test_a_mention_where_the_bot_may_not_write_makes_no_work(
    tmp_path: Path, *, thread: bool
) -> None:
    """Nobody would see the answer until the bot may write again."""
    async with FakeDiscord() as fake:
        parent = fake.add_channel(300)
        parent.permissions = 1 << 10
        channel = fake.add_channel(301, thread=True, parent=300) if thread else parent
        channel.refusal = (403, 50013)
        async with usher(fake, tmp_path) as parts:
            words = f"<@{APPLICATION_ID}> why?"
            await fake.person(7).says(words, in_channel=channel)
            heard = await fake.person(7).says(words)
            there = fake.channel()
            await fake.wait_for(lambda: any(each.reply_to == heard.id for each in there.messages))
            assert await parts.queue.jobs.get(2) is None


async def test_work_is_accepted_in_direct_messages_whatever_rights_are_reported(
    tmp_path: Path,
) -> None:
    """Discord reports no useful permissions for direct messages."""
    async with FakeDiscord() as fake, usher(fake, tmp_path):
        direct = fake.rest.direct(7)
        direct.permissions = 0
        call = await fake.person(7).slash("image", in_channel=direct, model="flux", prompt="cat")
        await fake.wait_for(lambda: done(call.answer))
