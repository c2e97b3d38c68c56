"""Real python-telegram-bot with a fake Bot API: messages go out, change, and have buttons."""

import gc

import pytest

from bot.core.content import Button, Content, Markdown, Moment
from bot.core.errors import ChatRefused, ChatUnavailable, TooLarge
from bot.core.platform import MessageRef
from queueing.core.requests import File
from tests.bot.platforms.discord.discord_bot import RecordingHandler, says
from tests.bot.platforms.telegram.telegram_bot import image, running, telegram
from tests.fakes.telegram.telegram import FakeTelegram
from tests.wild.test_images import CUTS

CANCEL = Button(command="cancel", job_id=12, label="Cancel", danger=True)
WAITING = Content(body=("⏳",), buttons=((CANCEL,),))
TEXT_FILE = File(name="answer.md", mime="text/markdown", data=b"# all of it")


# ---------------------------------------------------------------- messages


async def test_an_answer_is_a_reply_that_is_edited_into_an_image() -> None:
    """A status message could not become the result."""
    handler = RecordingHandler()
    async with FakeTelegram() as fake, running(fake, handler) as chat:
        asked = fake.person(7).says("/image cat")
        call = await handler.called()
        ref = await call.respond(Content(body=("⏳ #3 ", Moment(2e9)), buttons=((CANCEL,),)), False)
        assert ref is not None
        [message] = fake.person(7).chat.from_bot
        assert message.reply_to == asked.id
        assert [(each.label, each.data, each.danger) for each in message.buttons] == [
            ("Cancel", "cancel:12", True)
        ]
        await chat.edit(ref, Content(body=("🎨 ", Markdown("**drawing**"))))
        assert message.styled("bold") == ["drawing"]
        assert message.buttons == []
        await chat.edit(ref, Content(body=("done",), files=(image(),), buttons=((CANCEL,),)))
        assert message.file is not None
        assert message.file.photo
        await chat.edit(ref, says("x" * 4000))
        assert message.buttons == []
        assert message.history == [
            "⏳ #3 2033-05-18 03:33 UTC",
            "🎨 drawing",
            "done",
            "x" * 1023 + "…",
        ]


async def test_what_cannot_be_shown_as_a_photo_comes_as_a_document() -> None:
    """An unusual image would be refused and never delivered."""
    cases: list[File] = [
        image(9000, 1100),
        image(2100, 100),
        File(name="cut-out.png", mime="image/png", data=CUTS[0].read_bytes()),
        TEXT_FILE,
        File(name="broken.png", mime="image/png", data=b"no image"),
    ]
    async with FakeTelegram() as fake, running(fake, RecordingHandler()) as chat:
        for file in cases:
            fake.person(7)
            ref = await chat.send("7", WAITING)
            await chat.edit(ref, Content(body=("done",), files=(file,)))
            await chat.send("7", Content(files=(file,)))
            for message in fake.person(7).chat.from_bot[-2:]:
                assert message.file is not None, file.name
                assert not message.file.photo, file.name
                assert (message.file.name, message.file.data) == (file.name, file.data), file.name


async def test_a_photo_telegram_cannot_read_comes_as_a_document() -> None:
    """An image with which only Telegram finds fault would never be delivered."""
    content = Content(body=("done",), files=(image(),))
    async with FakeTelegram() as fake, running(fake, RecordingHandler()) as chat:
        fake.person(7)
        fake.fail("sendPhoto", status=400, text="Bad Request: PHOTO_INVALID_DIMENSIONS")
        fake.fail("editMessageMedia", status=400, text="Bad Request: IMAGE_PROCESS_FAILED")
        await chat.edit(await chat.send("7", content), content)
        [message] = fake.person(7).chat.from_bot
        assert message.file is not None
        assert not message.file.photo


async def test_several_images_come_as_an_album_with_the_buttons_beneath() -> None:
    """Only the first image would arrive, or an album would be refused for its buttons."""
    async with FakeTelegram() as fake, running(fake, RecordingHandler()) as chat:
        person = fake.person(7)
        asked = person.says("hello")
        request = MessageRef(platform="telegram", chat="7", message=str(asked.id))
        images = (image(), image(kind="JPEG"))
        first = await chat.send("7", Content(body=("two",), files=images), reply_to=request)
        assert [each.shown for each in person.chat.from_bot] == ["two", ""]
        assert len({each.album for each in person.chat.from_bot}) == 1
        assert first.message == str(person.chat.from_bot[0].id)
        assert person.chat.from_bot[0].reply_to == asked.id
        both = await chat.send("7", Content(body=("two",), files=images, buttons=((CANCEL,),)))
        last = fake.message("7", both.message)
        assert last is not None
        assert (last.shown, last.file, len(last.buttons)) == ("two", None, 1)
        await chat.send("7", Content(files=(image(), TEXT_FILE)))
        assert [each.file.photo for each in person.chat.from_bot[-2:] if each.file] == [False] * 2
        with pytest.raises(TooLarge):
            await chat.send("7", Content(files=(image(),) * 11))


async def test_links_are_never_unfolded() -> None:
    """Because of an address in a prompt or an answer, Telegram would fetch and show a page."""
    async with FakeTelegram() as fake, running(fake, RecordingHandler()) as chat:
        fake.person(7)
        ref = await chat.send("7", says("see https://example.org"))
        await chat.edit(ref, says("see https://example.org/b"))
        sent = [each.values for each in fake.api.requests if "link_preview" in str(each.values)]
        assert [each["link_preview_options"] for each in sent] == [{"is_disabled": True}] * 2


async def test_only_the_mentioned_person_is_notified() -> None:
    """A prompt or an answer would notify people, or the ping would notify no one."""
    bait = "@somebody @usher_test_bot"
    async with FakeTelegram() as fake, running(fake, RecordingHandler()) as chat:
        group = fake.group()
        await chat.send("-1001", Content(body=(bait, Markdown(f"**{bait}**"))))
        await chat.send("-1001", Content(body=("Ready: your image",), mention="7"))
        assert [each.notified for each in group.from_bot] == [[], ["7"]]


# ---------------------------------------------------------------- buttons


async def test_a_button_of_before_a_restart_still_works() -> None:
    """Buttons on old messages would do nothing after a restart."""
    async with FakeTelegram() as fake:
        group = fake.group()
        async with running(fake, RecordingHandler()) as chat:
            ref = await chat.send("-1001", WAITING)
        for unreadable in (False, True):
            handler = RecordingHandler()
            async with running(fake, handler):
                press = fake.person(8).presses(group.from_bot[0], "Cancel", unreadable=unreadable)
                call = await handler.called()
                await fake.wait_for(lambda press=press: press.answered)  # type: ignore[misc]
            assert (call.command, dict(call.options), call.button) == ("cancel", {"id": 12}, True)
            assert (call.user, call.group, call.replied_to) == ("telegram:8", True, ref)
            assert call.key == f"telegram:cb:{press.id}"
            assert press.alert is None


async def test_a_short_private_word_to_a_press_is_an_alert() -> None:
    """The words "only the owner may press this" would be written into the group for everyone."""
    handler = RecordingHandler()
    async with FakeTelegram() as fake, running(fake, handler) as chat:
        group = fake.group()
        await chat.send("-1001", WAITING)
        press = fake.person(8).presses(group.from_bot[0], "Cancel")
        call = await handler.called()
        assert await call.respond(says("Only the owner can do that."), True) is None
        assert press.alert == "Only the owner can do that."
        assert len(group.from_bot) == 1


async def test_a_long_word_to_a_press_is_a_message() -> None:
    """An answer longer than an alert would be cut or refused."""
    handler = RecordingHandler()
    async with FakeTelegram() as fake, running(fake, handler) as chat:
        group = fake.group()
        await chat.send("-1001", WAITING)
        for content, private in ((says("long " * 50), True), (WAITING, True), (says("ok"), False)):
            press = fake.person(8).presses(group.from_bot[0], "Cancel")
            call = await handler.called(len(handler.calls) + 1)
            ref = await call.respond(content, private)
            assert ref is not None
            assert press.answered
            assert press.alert is None
            assert fake.message(ref.chat, ref.message) is group.from_bot[-1]
            assert group.from_bot[-1].reply_to == group.from_bot[0].id


async def test_a_private_word_that_comes_too_late_is_a_message() -> None:
    """A slow command's answer to a press would be lost."""
    handler = RecordingHandler()
    async with FakeTelegram() as fake, running(fake, handler) as chat:
        group = fake.group()
        await chat.send("-1001", WAITING)
        fake.fail("answerCallbackQuery", status=400, text="Bad Request: query is too old")
        fake.person(8).presses(group.from_bot[0], "Cancel")
        await (await handler.called()).respond(says("too late"), True)
        assert group.from_bot[-1].shown == "too late"


async def test_a_button_of_another_age_is_confirmed_and_forgotten() -> None:
    """Data that this version does not know would crash a handler, or the button spin forever."""
    handler = RecordingHandler()
    async with FakeTelegram() as fake, running(fake, handler) as chat:
        fake.person(7)
        await chat.send("7", WAITING)
        press = fake.person(7).sends_data(fake.person(7).chat.from_bot[0], "cancel:12; drop table")
        await fake.wait_for(lambda: press.answered)
        assert handler.calls == []


# ---------------------------------------------------------------- start


async def test_the_menu_lists_what_a_person_may_call() -> None:
    """People would see no commands, or admin commands they cannot use."""
    async with FakeTelegram() as fake:
        fake.person(1)
        describe = {"en": "Draw", "de": "Zeichnen"}
        chat = telegram(fake, admins=("1", "2"), describe=lambda _key, language: describe[language])
        async with running(fake, RecordingHandler(), chat):
            await fake.wait_for(lambda: len(fake.api.menus) == 4)
    names = {key: [each["command"] for each in menu] for key, menu in fake.api.menus.items()}
    assert names["default", ""] == ["image", "cancel", "queue"]
    assert names["1", "de"] == ["image", "cancel", "queue", "preload"]
    assert fake.api.menus["default", "de"][0]["description"] == "Zeichnen"
    assert fake.api.menus["1", ""][0]["description"] == "Draw"


async def test_check_says_as_whom_without_taking_updates() -> None:
    """`usher check` could not distinguish good tokens from bad ones, or would lose commands."""
    async with FakeTelegram() as fake:
        assert "@usher_test_bot" in await telegram(fake).check()
        fake.token = "1:wrong"
        with pytest.raises(ChatRefused, match="token"):
            await telegram(fake).check()
        fake.token = fake.api.token
        fake.api.webhook = "https://example.org"
        with pytest.raises(ChatRefused, match="webhook"):
            await telegram(fake).check()
        fake.fail("getMe", status=502)
        with pytest.raises(ChatUnavailable):
            await telegram(fake).check()
        assert fake.api.polls == 0
    gc.collect()  # a connection left open would warn now
