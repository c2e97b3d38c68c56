"""Videos and sound play on the page, in a real browser, and hidden ones when they are asked for."""

import aiohttp
import pytest

from backends.media import videos
from backends.media.helper.process import WALL_S
from bot.core.content import Content
from bot.requests.files import images
from bot.requests.files.images import bare
from queueing.core.requests import File
from tests.bot.platforms.web.web_client import running
from tests.fakes.command_handler import ScriptedHandler
from tests.fakes.memory_log import web_chat
from tests.fakes.programs.chromium import running_chromium

pytest.importorskip("av", reason="videos and sound need usher-bot[media]")

from tests.backends.media.planted import SECRET
from tests.backends.media.recorded_videos import KINDS, tags_of, video


def content(
    kind: str, *, spoiler: bool = False, sizes: tuple[tuple[int, int], ...] = ()
) -> Content:
    file = File(name=f"wan-1.{kind}", mime=KINDS[kind].mime, data=video(kind, frames=24))
    return Content(files=(file,), spoiler=spoiler, sizes=sizes)


@pytest.mark.browser
async def test_videos_and_sound_play_in_place(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A video would be a file to download, or a hidden video be visible to any bystander."""
    with running_chromium(tmp_path_factory.mktemp("chromium")) as browser:
        async with running(web_chat(port=0), ScriptedHandler()) as web, browser.page() as page:
            await page.goto(web.url)
            await page.wait_text("Connected")
            await web.send("local", content("webm"))
            await page.wait("document.querySelector('video')?.videoWidth === 64")
            assert await page.evaluate("document.querySelector('video').controls")
            await web.send("local", content("wav"))
            await page.wait("document.querySelector('audio')?.duration > 0.5")
            await web.send("local", content("webm", spoiler=True))
            await page.wait("document.querySelector('.asks') !== null")
            assert await page.evaluate("document.querySelectorAll('video').length") == 1
            await page.click(".asks")
            await page.wait("document.querySelectorAll('video').length === 2")
            await page.wait("[...document.querySelectorAll('video')].at(-1).videoWidth === 64")

            # A card keeps the room that its video needs.
            sizes = ((640, 360),)
            ref = await web.send("local", Content(body=("wan",), waits=True, sizes=sizes))
            room = "(({ offsetWidth, offsetHeight }) => [offsetWidth, offsetHeight])"
            await page.wait("document.querySelector('.room') !== null")
            before = await page.evaluate(f"{room}(document.querySelector('.room'))")
            await web.edit(ref, content("webm", sizes=sizes))
            await page.wait("document.querySelectorAll('video').length === 3")
            last = "[...document.querySelectorAll('video')].at(-1)"
            assert await page.evaluate(f"{room}({last})") == before
            await page.wait(f"{last}.videoWidth === 64")
            assert await page.evaluate(f"{room}({last})") == before
            assert page.errors == []


@pytest.mark.parametrize("kind", ["mp4", "mov", "mp3", "ogg"])
async def test_an_uploaded_video_is_kept_without_what_a_camera_wrote(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The location where a video was taken would be stored, and revealed."""
    monkeypatch.setattr(images, "_UPLOAD_S", WALL_S)  # a busy machine may need it
    before = video(kind)
    after = await bare(before)
    assert SECRET in tags_of(before)
    assert SECRET not in tags_of(after)
    monkeypatch.setattr(videos, "available", lambda: False)
    assert await bare(before) == b""


async def test_a_player_can_seek() -> None:
    """A player asks for ranges; Safari plays nothing without."""
    for kind in ("mp4", "webm", "flac", "mp3", "ogg", "wav"):
        file = content(kind).files[0]
        async with running(web_chat(port=0), ScriptedHandler()) as web:
            ref = await web.send("local", Content(files=(file,)))
            entry = await web._log.get("local", ref.message)
            assert entry is not None, kind
            assert entry.shown is not None, kind
            address = f"{web.url}files/{entry.shown.files[0].id}"
            async with (
                aiohttp.ClientSession() as session,
                session.get(address, headers={"Range": "bytes=100-"}) as answer,
            ):
                assert answer.status == 206, kind
                assert answer.headers["Content-Type"] == file.mime, kind
                assert await answer.read() == file.data[100:], kind
