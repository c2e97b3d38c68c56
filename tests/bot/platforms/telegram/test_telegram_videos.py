"""Videos, animations and sound on Telegram: played in place, with all that players need to know."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from telegram import InputFile

from backends.media import videos
from bot.core.content import Content
from bot.platforms.telegram.media import as_document
from queueing.core.requests import File
from tests.backends.media.planted import MOVING, PLANTED
from tests.bot.platforms.discord.discord_bot import RecordingHandler
from tests.bot.platforms.telegram.telegram_bot import image, running
from tests.fakes.telegram.telegram import FakeTelegram
from tests.fakes.telegram.telegram_state import FakeMessage

pytest.importorskip("av", reason="videos and sound need usher-bot[media]")

from tests.backends.media.recorded_videos import KINDS, video

pytestmark = pytest.mark.usefixtures("helper_here")


def made(kind: str, **how: object) -> File:
    data = video(kind, **how)
    return File(name=f"wan-1.{kind}", mime=KINDS[kind].mime, data=data)


def moving(kind: str) -> File:
    data = PLANTED[kind](**MOVING)
    return File(name=f"wan-1.{kind.lower()}", mime=f"image/{kind.lower()}", data=data)


async def both_ways(file: File, *, spoiler: bool = False) -> list[FakeMessage]:
    """Return what the chat shows of a file that is sent, and of a text that becomes it."""
    content = Content(body=("a cat",), files=(file,), spoiler=spoiler)
    async with FakeTelegram() as fake, running(fake, RecordingHandler()) as chat:
        person = fake.person(7)
        await chat.send("7", content)
        ref = await chat.send("7", Content(body=("drawing",)))
        await chat.edit(ref, content)
        assert [each.shown for each in person.chat.from_bot] == ["a cat", "a cat"]
        return list(person.chat.from_bot)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: made("mp4"), "video"),
        (lambda: made("mp4", silent=True), "animation"),
        (lambda: made("m4a"), "audio"),
        (lambda: made("mp3"), "audio"),
        (lambda: moving("GIF"), "animation"),
    ],
    ids=["video", "silent", "m4a", "mp3", "gif"],
)
async def test_it_plays_in_place_with_its_size_and_length(
    make: Callable[[], File], kind: str
) -> None:
    """A video would be a document without a player, or a square without a length."""
    file = make()
    for message in await both_ways(file):
        assert message.file is not None
        assert message.file.video == kind
        if file.mime.startswith("audio/"):
            assert message.file.about == {"duration": 1, "title": "wan-1"}
        elif file.mime == "video/mp4":
            expected = {"duration": 1, "width": 64, "height": 48, "still": (64, 48)}
            assert message.file.about == expected


async def test_an_animation_is_never_shown_as_a_still() -> None:
    """Half of the result would silently be missing."""
    for kind in ("WEBP", "PNG"):
        for message in await both_ways(moving(kind)):
            assert message.file is not None, kind
            assert not message.file.photo, kind


async def test_a_hidden_video_is_hidden() -> None:
    """A channel that hides images would show videos."""
    for file in (made("mp4"), made("mp4", silent=True), moving("GIF")):
        assert all(message.spoiler for message in await both_ways(file, spoiler=True))


async def test_videos_and_images_come_in_one_album_and_sounds_in_another() -> None:
    """Several results would be documents, or be refused as a mixture."""
    async with FakeTelegram() as fake, running(fake, RecordingHandler()) as chat:
        person = fake.person(7)
        await chat.send("7", Content(files=(image(), made("mp4"), made("mp4", silent=True))))
        shown = [each.file for each in person.chat.from_bot]
        assert [(file.photo, file.video) for file in shown if file] == [
            (True, ""),
            (False, "video"),
            (False, "video"),
        ]
        await chat.send("7", Content(files=(made("mp3"), made("m4a"))))
        await chat.send("7", Content(files=(made("mp3"), made("mp4"))))
        kinds = [each.file.video for each in person.chat.from_bot[3:] if each.file]
        assert kinds == ["audio", "audio", "", ""]


async def test_a_video_telegram_refuses_comes_as_a_document() -> None:
    """A video with which only Telegram finds fault would never be delivered."""
    content = Content(body=("done",), files=(made("mp4"),))
    async with FakeTelegram() as fake, running(fake, RecordingHandler()) as chat:
        fake.person(7)
        fake.fail("sendVideo", status=400, text="Bad Request: VIDEO_CONTENT_TYPE_INVALID")
        await chat.send("7", content)
        [message] = fake.person(7).chat.from_bot
        assert message.file is not None
        assert message.file.video == ""


@pytest.mark.thorough
async def test_a_long_silent_video_has_a_slider() -> None:
    """Without a sound track, clients show a video as a loop that cannot be rewound."""
    long = made("mp4", frames=16 * 11, silent=True)
    for message in await both_ways(long):
        assert message.file is not None
        assert message.file.video == "video"
        sent = File(name="x.mp4", mime="video/mp4", data=message.file.data)
        assert (await videos.looked_at(sent)).looks.sound == "aac"


async def test_an_answer_read_aloud_is_a_voice_message() -> None:
    """It would be a file to download in a chat where people speak."""
    async with FakeTelegram() as fake, running(fake, RecordingHandler()) as chat:
        for kind in ("mp3", "wav", "ogg"):
            person = fake.person(7)
            await chat.send("7", Content(files=(made(kind),), voice=True))
            message = person.chat.from_bot[-1]
            assert message.file is not None, kind
            assert (message.file.video, message.file.about) == ("voice", {"duration": 1}), kind
            assert message.file.data.startswith(b"OggS"), kind


async def test_where_voices_are_forbidden_a_sound_comes() -> None:
    """A person who accepts no voice messages would never get the answer."""
    async with FakeTelegram() as fake, running(fake, RecordingHandler()) as chat:
        person = fake.person(7)
        fake.fail("sendVoice", status=400, text="Bad Request: VOICE_MESSAGES_FORBIDDEN")
        await chat.send("7", Content(files=(made("mp3"),), voice=True))
        (message,) = person.chat.from_bot
        assert message.file is not None
        assert message.file.video == "audio"


async def test_a_large_file_is_read_in_pieces() -> None:
    """A video of 50 MB would block everything else while it is copied into a socket at once."""
    file = File(name="wan-1.mp4", mime="video/mp4", data=bytes(range(256)) * 10_000)
    document = as_document(file)
    sent = document.parameters(spoiler=False)["document"]
    for each in (sent, document.media({}, spoiler=False).media):
        assert isinstance(each, InputFile)
        request = httpx.Request("POST", "https://telegram.test", files={"it": each.field_tuple})
        for _ in range(2):  # a second try sends it whole once more
            stream: Any = request.stream
            pieces = [piece async for piece in stream]
            assert max(len(piece) for piece in pieces) <= 100_000
            assert file.data in b"".join(pieces)
