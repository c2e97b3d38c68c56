"""What comes with a question: documents, videos and recordings belong to it, or are refused before."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from backends.media import videos
from backends.media.documents import DocumentContents
from backends.media.sounds import Voice
from bot.core.platform import Album
from bot.requests.files import documents, media
from queueing.core.requests import Capability, Chat, File
from tests.bot.results import DEAF, QWEN, ask, attachment, done, image, in_bot, model, play
from tests.simulation.bot_installation import Bot, settled

WHISPER = model("whisper", Capability.SPEECH_TO_TEXT)
FRAME = File(name="f.jpg", mime="image/jpeg", data=b"frame")
PAPER = attachment(b"paper", "paper.pdf", "application/pdf")
VIDEO = attachment(b"video", "holiday.mp4", "video/mp4")


@pytest.fixture(autouse=True)
def helped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer as the helper process would, which cannot run in virtual time."""

    async def read(file: File, *, characters: int, images: int, **_: object) -> DocumentContents:
        if file.data == b"scan":
            shown = (FRAME,) * min(2, images)
            return DocumentContents(text="", pages=2, images=shown, truncated=images < 2)
        text = "word " * 10_000 if file.data == b"long" else file.data.decode()
        return DocumentContents(text=text[:characters], truncated=len(text) > characters)

    async def frames(_file: File, most: int, **_: object) -> list[File]:
        return [FRAME] * most

    async def voice(file: File, **_: object) -> Voice:
        return Voice(file=file, seconds=1.0)

    monkeypatch.setattr(documents, "read_document", read)
    monkeypatch.setattr(videos, "frames", frames)
    monkeypatch.setattr(media, "as_voice", voice)


def question(job: Any) -> tuple[str, int]:
    """Return what was asked, and how many images were shown with it."""
    assert isinstance(job.request, Chat)
    last = job.request.messages[-1]
    return last.text, len(last.images)


@in_bot(DEAF)
async def test_a_document_belongs_to_the_question_as_a_text_file_does(running: Bot) -> None:
    """People would copy their papers into the question by hand."""
    notes = attachment(b"a note", "notes.txt", "text/plain")
    job = await done(running, "/ask deaf what is said?", files=(PAPER, notes))
    text, shown = question(job)
    assert text == "> notes.txt\n> a note\n> \n> paper.pdf\n> paper\n\nwhat is said?"
    assert (job.model, shown) == ("deaf", 0)


@in_bot(DEAF)
async def test_what_was_cut_is_said(running: Bot) -> None:
    """A summary of half a paper would be read as a summary of the whole."""
    long = attachment(b"long", "long.pdf", "")
    job = await done(running, "/ask what is said?", files=(long,))
    assert len(question(job)[0]) < 20_100
    (message,) = (await settled(running)).messages.values()
    assert all("✂️ Only the beginning of long.pdf fitted" in text for text in message.texts[:1])
    assert "✂️ Only the beginning of long.pdf fitted into the question." in message.text


def test_a_scan_is_shown_to_a_model_that_sees_and_else_refused() -> None:
    """A scanned letter would be answered unread."""
    scan = attachment(b"scan", "letter.pdf", "application/pdf")

    async def seeing(running: Bot) -> None:
        job = await done(running, "/ask what is said?", files=(scan,))
        assert (job.model, question(job)[1]) == ("qwen", 2)

    async def blind(running: Bot) -> None:
        assert await ask(running, "/ask what is said?", files=(scan,)) is None
        await asyncio.sleep(1)

    play(seeing, DEAF, QWEN)
    ((_, told),) = play(blind, DEAF).private
    assert told.startswith("letter.pdf is a scan without text")


def test_a_video_is_shown_in_images_or_named_before_anything_is_accepted() -> None:
    """A question about a video would be answered without anyone having seen it."""

    async def seeing(running: Bot) -> None:
        job = await done(running, "/ask where is this?", files=(VIDEO, image()))
        text, shown = question(job)
        assert (job.model, shown) == ("qwen", 4)
        assert "[a video; images 2 to 4 are from it, in order]" in text

    async def blind(running: Bot) -> None:
        for words in ("/ask deaf where is this?", "/ask where is this?"):
            assert await ask(running, words, files=(VIDEO,)) is None
            await asyncio.sleep(1)

    play(seeing, DEAF, QWEN)
    told = [text for _, text in play(blind, DEAF).private]
    assert told[0].startswith("deaf can't see images, so it can't watch videos (holiday.mp4).")
    assert told[1].startswith(
        "No model here can see images, so I can't watch videos (holiday.mp4)."
    )


@in_bot(DEAF, QWEN)
async def test_files_without_a_question_are_asked_about(running: Bot) -> None:
    """A paper or a video sent alone would be ignored, or answered with nothing."""
    large = 30_000_000
    for file in (
        PAPER,
        VIDEO,
        replace(VIDEO, name=""),
        replace(VIDEO, name="", size=large),
        replace(PAPER, size=large),
    ):
        assert await ask(running, "/ask", files=(file,)) is None
        await asyncio.sleep(1)
    told = (await settled(running)).answers
    assert told == [
        *(
            f"Reply with your question about {name}."
            for name in ("paper.pdf", "holiday.mp4", "this file")
        ),
        "This file is too large (30 MB); I take files of up to 20 MB.",
        "paper.pdf is too large (30 MB); I take files of up to 20 MB.",
    ]


@in_bot(QWEN, WHISPER)
async def test_everything_together_belongs_to_one_question(running: Bot) -> None:
    """An album of several kinds would lose some of them."""
    song = attachment(b"la la", "song.mp3", "audio/mpeg")
    files = (image(), PAPER, song, VIDEO)
    job = await done(running, "/ask what is all this?", files=files)
    text, shown = question(job)
    assert (text.count("paper.pdf"), shown) == (1, 4)
    assert text.endswith("what is all this?\n\nla la")


@in_bot(QWEN)
async def test_too_many_of_a_kind_are_refused(running: Bot) -> None:
    """One message could keep the helper busy for minutes."""
    for file, count in ((PAPER, 5), (VIDEO, 2)):
        assert await ask(running, "/ask what?", files=(file,) * count) is None
        await asyncio.sleep(1)
    told = (await settled(running)).answers
    assert told == [
        "You attached 5 documents; /ask takes at most 4.",
        "You attached 2 videos; /ask takes at most 1.",
    ]


@in_bot(QWEN, WHISPER)
async def test_a_file_that_is_too_large_is_not_even_downloaded(running: Bot) -> None:
    """Gigabytes would be downloaded only to be refused."""
    for file in (PAPER, VIDEO, attachment(b"", "song.mp3", "audio/mpeg")):
        heavy = type(file)(kind=file.kind, name=file.name, mime="", size=30_000_000, read=file.read)
        assert await ask(running, "/ask what?", files=(heavy,)) is None
        await asyncio.sleep(1)
    told = (await settled(running)).answers
    assert all("is too large (30 MB)" in text for text in told)
    assert len(told) == 3


@in_bot(DEAF)
async def test_a_late_document_of_an_album_joins_its_question(running: Bot) -> None:
    """Of three papers sent together, the slow one would silently be missing."""
    first = attachment(b"one", "one.pdf", "application/pdf", part="1")
    late = attachment(b"two", "two.pdf", "application/pdf", part="2")
    album = {"key": "fake:album"}
    await ask(running, "/ask before")
    job = await ask(running, "/ask compare", files=(first,), album=Album(begun=False), **album)
    assert job is not None
    again = running.chat.call("/ask", files=(late,), album=Album(begun=True), **album)
    await running.dispatcher.call(again)
    current = await running.queue.jobs.get(job.id)
    text = "> one.pdf\n> one\n\ncompare\n> two.pdf\n> two"
    assert question(current) == (text, 0)
