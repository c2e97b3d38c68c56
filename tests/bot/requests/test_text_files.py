"""A text file belongs to the question it comes with, and is never more than text."""

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.attachments import AttachmentKind, is_text_file
from bot.core.platform import Attachment
from bot.core.refusals import Declined
from bot.requests.files.documents import MOST_BYTES, decoded
from tests.bot.platforms.discord.discord_bot import RecordingHandler
from tests.bot.platforms.discord.discord_bot import running as on_discord
from tests.bot.platforms.telegram.telegram_bot import running
from tests.bot.results import ask, image, in_bot, said
from tests.fakes.discord.discord import FakeDiscord
from tests.fakes.telegram.telegram import FakeTelegram
from tests.simulation.bot_installation import Bot, settled


def text_file(
    data: bytes = b"hello", name: str = "notes.txt", size: int | None = None
) -> Attachment:
    async def read() -> bytes:
        assert len(data) <= MOST_BYTES, "was downloaded"
        return data

    said = size or len(data)
    kind = AttachmentKind.TEXT
    return Attachment(kind=kind, name=name, mime="text/plain", size=said, read=read)


def test_text_files_are_told_from_others() -> None:
    """A program would not be read, or a video be mistaken for one."""
    cases: list[tuple[str, str, bool]] = [
        ("notes.txt", "text/plain; charset=utf-8", True),
        ("main.py", "application/octet-stream", True),
        ("data", "application/json", True),
        ("a.png", "image/png", False),
        ("drawing.xml", "image/svg+xml", False),
        ("song.ts", "video/mp2t", False),
        ("a.zip", "application/zip", False),
        ("README", "", False),
    ]
    for name, mime, text in cases:
        assert is_text_file(name, mime) == text, name


@given(st.binary(max_size=300))
def test_any_bytes_are_text_or_refused(data: bytes) -> None:
    """A broken file would end in an internal error, or reach the model as garbage."""
    with suppress(Declined):
        assert "\x00" not in decoded("a.txt", data)


def test_text_of_other_systems_is_read() -> None:
    """A file saved by Windows' editor would be refused."""
    assert (
        decoded("a", "Übung".encode("utf-16"))
        == decoded("a", "Übung".encode("utf-8-sig"))
        == "Übung"
    )


@in_bot()
async def test_a_question_is_asked_about_its_files(running: Bot) -> None:
    """People would have to paste long texts, which Discord itself turns into files."""
    files = (text_file(), image(), text_file(b"x = 1", "../../main.py\x1b[1m"))
    job = await ask(running, "/ask what is it?", files=files)
    ((_, text),) = said(job)
    assert text == ("> notes.txt\n> hello\n> \n> ../../main.py[1m\n> x = 1\n\nwhat is it?")
    assert job is not None
    assert len(await running.queue.jobs.inputs(job) or ()) == 1
    await ask(running, "/history")
    await asyncio.sleep(2)
    assert "what is it? · " in running.chat.private[-1][1]


@pytest.mark.parametrize(
    ("command", "file", "told"),
    [
        ("/ask why?", text_file(b"\xff\x00\x12"), "notes.txt isn't a text file I can read."),
        (
            "/ask why?",
            text_file(b"x" * (MOST_BYTES + 1)),
            "notes.txt is larger than 200 kB, the limit for text files.",
        ),
        (
            "/ask why?",
            text_file(b"word " * 5000),
            "The attached text has 25009 characters; the limit is 20000.",
        ),
        (
            "/describe",
            text_file(),
            "/describe doesn't take text files (notes.txt). Send a text file with a question about it.",
        ),
    ],
)
@in_bot()
async def test_a_file_that_is_no_use_is_refused_in_one_sentence(
    running: Bot, command: str, file: Attachment, told: str
) -> None:
    """A question would be asked about half a file, or a huge file fill the memory."""
    assert await ask(running, command, files=(file,)) is None
    assert (await settled(running)).answers == [told]


async def test_telegram_brings_the_text_files_of_a_question() -> None:
    """A file sent to the bot, or replied to, would be ignored."""
    handler = RecordingHandler()
    async with FakeTelegram() as fake, running(fake, handler):
        person = fake.person(7)
        notes = fake.keep_file(b"words", name="a.txt", mime="text/plain", photo=False)
        sent = person.says("", document=notes)
        person.says("/ask what is it?", document=notes)
        person.says("/ask what is it?", reply_to=sent)
        person.says("/image vary", reply_to=sent)
        await handler.called(4)
        assert [
            [(file.name, file.kind, file.replied) for file in call.files] for call in handler.calls
        ] == [[("a.txt", AttachmentKind.TEXT, replied)] for replied in (False, False, True, True)]
        assert await handler.calls[0].files[0].read() == b"words"


async def test_discord_brings_the_text_files_of_a_question() -> None:
    """A long message, which Discord itself sends as a file, would be ignored."""
    handler = RecordingHandler()
    async with FakeDiscord() as fake, on_discord(fake, handler):
        person = fake.person(7)
        file = person.file("message.txt", b"words", "text/plain")
        await person.says("what is it?", file, in_channel=person.direct)
        call = await handler.called()
        assert (call.command, [each.name for each in call.files]) == ("ask", ["message.txt"])
        assert await call.files[0].read() == b"words"
