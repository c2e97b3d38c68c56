"""No attachment is ignored: on every platform, by every command, of every kind."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bot.commands.make import ask as ask_module
from bot.commands.registry import COMMANDS
from bot.core.attachments import AttachmentKind, kind_of
from bot.core.command import ParamKind
from bot.core.platform import Invocation
from bot.platforms.discord.platform import Discord
from bot.texts.catalogue import CATALOGUES, describe, word
from tests.bot.platforms.discord.discord_bot import RecordingHandler, says
from tests.bot.platforms.discord.discord_bot import running as on_discord
from tests.bot.platforms.telegram.telegram_bot import running as on_telegram
from tests.bot.platforms.web.web_client import running as on_web
from tests.bot.platforms.web.web_client import tab, uploaded
from tests.bot.results import DEAF, FLUX, ask, attachment, done, image, in_bot, of, said
from tests.fakes.command_handler import ScriptedHandler
from tests.fakes.discord.discord import FakeDiscord
from tests.fakes.discord.discord_json import message as message_shape
from tests.fakes.discord.discord_state import APPLICATION_ID, BOT_ROLE_ID
from tests.fakes.memory_log import web_chat
from tests.fakes.telegram.telegram import FakeTelegram
from tests.simulation.bot_installation import ADMIN, Bot, settled

ME = f"<@{APPLICATION_ID}>"
FILES = {
    AttachmentKind.IMAGE: ("cat.png", "image/png"),
    AttachmentKind.TEXT: ("notes.md", "text/markdown"),
    AttachmentKind.DOCUMENT: ("paper.pdf", "application/pdf"),
    AttachmentKind.VIDEO: ("holiday.mp4", "video/mp4"),
    AttachmentKind.ANIMATION: ("dance.gif", "image/gif"),
    AttachmentKind.AUDIO: ("song.mp3", "audio/mpeg"),
    AttachmentKind.ARCHIVE: ("all.zip", "application/zip"),
    AttachmentKind.OTHER: ("model.safetensors", "application/octet-stream"),
}


# ---------------------------------------------------------------- what the dispatch decides


@in_bot()
async def test_every_command_uses_or_names_every_kind(running: Bot) -> None:
    """A request would be answered from its text alone, and its attachments ignored."""
    for command in COMMANDS:
        for kind in AttachmentKind:
            file = attachment(b"\x00", "thing.bin", "", kind=kind)
            call = running.chat.call(f"/{command.name} a cat", user=ADMIN, files=(file,))
            await running.dispatcher.call(call)
            await asyncio.sleep(1)
            told = running.chat.private[-1][1] if running.chat.private else ""
            names = " (thing.bin)"
            refusal = word("en", f"attached.{kind}", command=command.name, names=names)
            assert (told == refusal) == (kind not in command.takes), (command.name, kind, told)
            running.chat.private.clear()
    assert not await running.queue.deliveries.unacknowledged()
    assert not (await settled(running)).messages


@in_bot()
async def test_what_hangs_on_a_message_replied_to_counts_like_what_is_attached(
    running: Bot,
) -> None:
    """A question about a person's video would be answered without anyone having seen it."""
    video = attachment(b"", "holiday.mp4", "video/mp4", replied=True)
    await running.dispatcher.call(running.chat.call("/ask where is this?", files=(video,)))
    await running.dispatcher.call(running.chat.call("/queue", files=(video,)))
    told = (await settled(running)).answers
    assert told[0] == (
        "I can't play holiday.mp4. Send it as an MP4 or WebM file, or a screenshot of the moment you"
        " mean."
    )
    assert "watch" not in told[1]


@in_bot()
async def test_several_kinds_are_all_named(running: Bot) -> None:
    """People would send the next useless file after each refusal."""
    files = [attachment(b"", *FILES[kind]) for kind in FILES]
    call = running.chat.call("/ask why?", files=(*files, attachment(b"", "b.zip", "")))
    await running.dispatcher.call(call)
    ((_, told),) = (await settled(running)).private
    assert "(all.zip, b.zip)" in told
    assert all(FILES[kind][0] in told for kind in FILES.keys() - ask_module.ASK.takes.keys())


def test_a_command_with_a_place_for_images_takes_them() -> None:
    """The form of a slash command would offer what the command then refuses."""
    for command in COMMANDS:
        shows = any(param.kind is ParamKind.IMAGE for param in command.params)
        takes = AttachmentKind.IMAGE in command.takes
        assert shows == takes or command.hidden, command.name


def test_every_kind_has_a_sentence() -> None:
    """A new kind of attachment would end in an internal error."""
    for language in CATALOGUES:
        sentences = {
            word(language, f"attached.{kind}", command="ask", names=" (a.b)")
            for kind in AttachmentKind
        }
        assert len(sentences) == len(AttachmentKind), language


def test_files_are_told_apart() -> None:
    """A video would be read as text, or a PDF be refused as a broken image."""
    cases: list[tuple[str, str, AttachmentKind]] = [
        *((name, mime, kind) for kind, (name, mime) in FILES.items()),
        *((name, "", kind) for kind, (name, _) in FILES.items()),
        *((name.upper(), "application/octet-stream", kind) for kind, (name, _) in FILES.items()),
        ("scan", "application/pdf; version=1.7", AttachmentKind.DOCUMENT),
        ("letter.rtf", "text/rtf", AttachmentKind.DOCUMENT),
        ("sums.xlsx", "", AttachmentKind.DOCUMENT),
        ("talk.ts", "video/mp2t", AttachmentKind.VIDEO),
        ("tool.ts", "", AttachmentKind.TEXT),
        ("", "", AttachmentKind.OTHER),
    ]
    for name, mime, kind in cases:
        assert kind_of(name, mime) is kind, name


# ---------------------------------------------------------------- what the platforms hand on


FILE: dict[str, Any] = {"file_id": "f", "file_unique_id": "u", "file_size": 5}
VIDEO: dict[str, Any] = FILE | {"width": 320, "height": 240, "duration": 3}
TELEGRAMS: Mapping[AttachmentKind, Mapping[str, Any]] = {
    AttachmentKind.IMAGE: {"photo": [FILE | {"width": 320, "height": 240}]},
    AttachmentKind.VIDEO: {"video": VIDEO},
    AttachmentKind.ROUND_VIDEO: {"video_note": FILE | {"length": 240, "duration": 3}},
    AttachmentKind.ANIMATION: {"animation": VIDEO, "document": FILE | {"mime_type": "video/mp4"}},
    AttachmentKind.VOICE: {"voice": FILE | {"duration": 3, "mime_type": "audio/ogg"}},
    AttachmentKind.AUDIO: {"audio": FILE | {"duration": 3}},
    AttachmentKind.STICKER: {
        "sticker": FILE
        | {"type": "regular", "width": 9, "height": 9, "is_animated": False, "is_video": False}
    },
    AttachmentKind.POLL: {
        "poll": {"id": "1", "question": "tea?", "options": [], "total_voter_count": 0}
        | {"is_closed": False, "is_anonymous": True, "type": "regular"}
        | {"allows_multiple_answers": False, "allows_revoting": False, "members_only": False}
    },
    AttachmentKind.PLACE: {"location": {"latitude": 48.1, "longitude": 11.6}},
    AttachmentKind.CONTACT: {"contact": {"phone_number": "1", "first_name": "Bob"}},
    AttachmentKind.OTHER: {
        "story": {"id": 1, "chat": {"id": 7, "type": "private", "first_name": "A"}}
    },
    **{
        kind: {"document": FILE | {"file_name": FILES[kind][0], "mime_type": FILES[kind][1]}}
        for kind in (AttachmentKind.TEXT, AttachmentKind.DOCUMENT, AttachmentKind.ARCHIVE)
    },
}


async def test_telegram_hands_on_every_kind() -> None:
    """A voice message would get no answer, or a caption be answered without its video."""
    for kind, carries in TELEGRAMS.items():
        handler, carried = RecordingHandler(), dict(carries)
        async with FakeTelegram() as fake, on_telegram(fake, handler):
            person, group = fake.person(7), fake.group()
            theirs = fake.person(8).says("", chat=group, carries=carried)
            person.says("look", chat=group, carries=carried)
            person.says("", carries=carried)
            person.says("what is it?", carries=carried)
            person.says("/ask@usher_test_bot what is it?", chat=group, reply_to=theirs)
            await handler.called(3)
            await fake.quiet()
        calls = {(call.command, call.group, call.text): _shown(call) for call in handler.calls}
        assert calls == {
            ("ask", False, ""): [(kind, False)],
            ("ask", False, "what is it?"): [(kind, False)],
            ("ask", True, "what is it?"): [(kind, True)],
        }, kind


async def test_telegram_takes_a_reply_to_our_text_for_a_word_to_us() -> None:
    """In a group a voice message in reply to the bot would get no answer."""
    handler = RecordingHandler()
    voice = dict(TELEGRAMS[AttachmentKind.VOICE])
    async with FakeTelegram() as fake, on_telegram(fake, handler) as chat:
        group = fake.group()
        asked = fake.person(7).says("why?", chat=group)
        await chat.send("-1001", says("because"))
        fake.person(7).says("", chat=group, carries=voice, reply_to=group.from_bot[0])
        fake.person(7).says("", chat=group, carries=voice, reply_to=asked)
        await handler.called()
        await fake.quiet()
    assert [_kinds(call) for call in handler.calls] == [[AttachmentKind.VOICE]]


DISCORDS: Mapping[AttachmentKind, Mapping[str, Any]] = {
    AttachmentKind.STICKER: {"sticker_items": [{"id": "1", "name": "wave", "format_type": 1}]},
    AttachmentKind.POLL: {
        "poll": {
            "question": {"text": "tea?"},
            "answers": [],
            "expiry": "2030-01-01T00:00:00+00:00",
            "allow_multiselect": False,
            "layout_type": 1,
        }
    },
    AttachmentKind.VOICE: {"flags": 1 << 13},
}


async def test_discord_hands_on_every_kind() -> None:
    """A PDF would be summarised unread: in a direct message, by a mention, from a menu."""
    cases: list[AttachmentKind] = [*FILES, *DISCORDS]
    for kind in cases:
        handler = RecordingHandler()
        carries = DISCORDS.get(kind, {})
        name, mime = FILES.get(kind, ("voice-message.ogg", "audio/ogg"))
        has_file = kind in FILES or kind is AttachmentKind.VOICE
        async with FakeDiscord() as fake, on_discord(fake, handler):
            person = fake.person(7)
            files = (person.file(name, b"data", mime),) if has_file else ()
            await person.says("", *files, in_channel=person.direct, **carries)
            await person.says("what is it?", *files, in_channel=person.direct, **carries)
            await person.says(ME, *files, **carries)
            await person.says(f"{ME} what is it?", *files, **carries)
            await person.says("unaddressed", *files, **carries)
            await handler.called(4)
        calls = sorted((call.group, call.text, _kinds(call)) for call in handler.calls)
        assert calls == sorted(
            (group, text, [kind]) for group in (False, True) for text in ("", "what is it?")
        ), kind
        assert {call.command for call in handler.calls} == {"ask"}, kind


async def test_a_reply_to_what_discord_keeps_to_itself_is_told() -> None:
    """“What is this?” below a friend's image would be answered from the text alone."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, on_discord(fake, handler):
        person = fake.person(7)
        theirs = fake.person(8).write("look", fake.person(8).file("cat.png", b"png"))
        await person.says(f"{ME} what is this?", reply_to=theirs)
        await person.says(ME, reply_to=theirs)
        await handler.called(2)
    assert sorted((call.command, call.text, tuple(_shown(call))) for call in handler.calls) == [
        ("ask", text, ((AttachmentKind.UNSEEN, True),)) for text in ("", "what is this?")
    ]


async def test_a_message_that_discord_withholds_is_told_as_such() -> None:
    """A person who picks the bot's role in place of its name would get no answer."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, on_discord(fake, handler):
        await fake.person(7).says(f"<@&{BOT_ROLE_ID}> why?")
        call = await handler.called()
    assert (call.command, call.text) == ("ask", "")
    assert _kinds(call) == [AttachmentKind.WITHHELD]


async def test_a_forwarded_message_brings_its_words_and_files() -> None:
    """What a person forwards to the bot would be answered with the help, or without being seen."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, on_discord(fake, handler):
        person = fake.person(7)
        forwarded = message_shape(
            person.write("look at this", person.file("paper.pdf", b"%PDF", "application/pdf")),
            fake.url,
        )
        reference = {"type": 1, "message_id": "1", "channel_id": str(person.direct.id)}
        await person.says(
            "",
            in_channel=person.direct,
            message_snapshots=[{"message": forwarded}],
            message_reference=reference,
        )
        call = await handler.called()
    assert (call.command, call.text, call.quoted) == ("ask", "", "")
    assert [each.text for each in call.forwarded] == ["look at this"]
    assert _kinds(call) == [AttachmentKind.DOCUMENT]


def test_every_kind_is_brought_by_some_platform() -> None:
    """A sentence would exist for a kind that no platform brings, or a kind never be tested."""
    hidden = {AttachmentKind.UNSEEN, AttachmentKind.WITHHELD}
    assert {*TELEGRAMS, *DISCORDS, *FILES, *hidden} == set(AttachmentKind)


async def test_a_slash_command_and_a_menu_hand_on_every_kind() -> None:
    """A file that is no image would be dropped from the field for images."""
    for kind, (name, mime) in FILES.items():
        handler = RecordingHandler(commands=COMMANDS)
        async with FakeDiscord() as fake:
            await _slash_and_menu(fake, handler, name, mime)
        assert [_kinds(call) for call in handler.calls] == [[kind], [kind]], kind
        assert [call.files[0].replied for call in handler.calls] == [False, True], kind


async def _slash_and_menu(
    fake: FakeDiscord, handler: RecordingHandler, name: str, mime: str
) -> None:
    async with on_discord(fake, handler, Discord(fake.token, describe=describe)):
        person = fake.person(7)
        file = person.file(name, b"data", mime)
        await person.slash("ask", prompt="what is it?", image=file)
        await handler.called()
        await person.open_menu(person.write("look", file), "Ask about this")
        await handler.called(2)


async def test_the_page_hands_on_every_kind() -> None:
    """A file dropped onto the page would be shown there but never looked at."""
    for kind, (name, mime) in FILES.items():
        handler = ScriptedHandler()
        async with on_web(web_chat(port=0), handler) as web, tab(web) as page:
            key = await page.say("", uploads=[await uploaded(web, b"data", name, mime)])
            alone = await handler.taken()
            await page.say("and this?", reply_to=f"line-{key}")
            replied = await handler.taken()
        assert (alone.command, alone.text, _kinds(alone)) == ("ask", "", [kind]), kind
        assert [(file.kind, file.replied) for file in replied.files] == [(kind, True)], kind


def _kinds(call: Invocation) -> list[AttachmentKind]:
    return [file.kind for file in call.files]


def _shown(call: Invocation) -> list[tuple[AttachmentKind, bool]]:
    return [(file.kind, file.replied) for file in call.files]


# ---------------------------------------------------------------- what comes without a word


@in_bot()
async def test_images_without_a_word_are_described_and_a_text_file_is_asked_about(
    running: Bot,
) -> None:
    """An image alone would be answered with a complaint about a missing “prompt”."""
    job = await ask(running, "/ask", files=(image(), image()))
    assert said(job) == [("user", "Describe this image.")]
    assert job is not None
    assert len(await running.queue.jobs.inputs(job) or ()) == 2
    file = attachment(b"words", "notes.txt", "text/plain")
    assert await ask(running, "/ask", files=(file, image())) is None
    assert (await settled(running)).answers == ["Reply with your question about notes.txt, a.png."]


@in_bot(FLUX, DEAF)
async def test_an_image_where_no_model_sees_is_refused_in_a_sentence_of_its_own(
    running: Bot,
) -> None:
    """A person would be told that a “prompt” is missing, and write one without effect."""
    for line in ("/ask", "/ask what is it?", "/describe"):
        assert await ask(running, line, files=(image(),)) is None
    told = {text for _, text in (await settled(running)).private}
    assert told == {"No model here can see images. /models lists what each of them can do."}


@in_bot()
async def test_the_menu_of_a_message_with_words_and_an_image_asks_about_both(running: Bot) -> None:
    """Its form would contain the text but not the image."""
    shown = replace(image(), replied=True)
    job = await ask(running, "/ask-about", files=(shown,), quoted="Is it a cat?")
    assert said(job) == [("user", "> Is it a cat?\n\nWhat is this about?")]
    assert job is not None
    assert len(await running.queue.jobs.inputs(job) or ()) == 1


@in_bot()
async def test_an_attached_image_comes_before_the_result_that_is_replied_to(running: Bot) -> None:
    """A variation would be drawn from the old result, and the attached image be lost."""
    first = await done(running, "/image a cat")
    ref = await of(running, first)
    mine = image(32)
    varied = await ask(running, "/vary", files=(mine,), replied_to=ref)
    assert varied is not None
    assert [file.data for file in (await running.queue.jobs.inputs(varied) or ())] == [
        await mine.read()
    ]
    options = {"id": first.id}
    assert await ask(running, "/vary", files=(mine,), options=options) is None
    assert (await settled(running)).answers == [
        "Do you mean the image you attached or job 1? Please choose one."
    ]
