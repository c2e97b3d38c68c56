"""Small images of the page: who gets them, of what, and when they are deleted."""

import asyncio
from functools import cache
from io import BytesIO
from random import Random

import aiohttp
from PIL import Image

from bot.core.content import Content
from bot.http.signed_links import Original, Ticket
from bot.platforms.web.chat.thumbnails import SCREEN, THUMB, Thumbnails, smaller
from bot.platforms.web.platform import Web
from queueing.core.requests import File, Result, ResultFile
from tests.bot.platforms.web.web_client import image, running
from tests.fakes.command_handler import ScriptedHandler
from tests.fakes.memory_log import MemoryLog, web_chat


class Kept:
    """The results of one person's past jobs, and how often their images were read."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.images = {7: large()}
        self.read = 0

    async def result(self, job_id: int) -> Result | None:
        raise AssertionError(f"only files are read, not job {job_id}")

    async def head(self, job_id: int, _number: int) -> ResultFile | None:
        if job_id not in self.images:
            return None
        size = len(self.images[job_id])
        return ResultFile(name="cat.png", mime="image/png", size=size, owner=self.owner)

    async def piece(self, job_id: int, _number: int, start: int, length: int) -> bytes | None:
        data = self.images.get(job_id)
        self.read += data is not None and length == len(data)
        return data and data[start : start + length]


class Links:
    """Signed links, none of which has expired or is followed."""

    async def find(self, _ticket: Ticket) -> Original | None:
        return None

    async def piece(self, _ticket: Ticket, _start: int, _length: int) -> bytes | None:
        return None

    async def ended(self, _job_id: int) -> bool:
        return False


def web_of(kept: Kept, token: str | None = None) -> Web:
    """Return a page that shows these results."""
    return web_chat(port=0, results=kept, originals=Links(), token=token)


@cache
def large() -> bytes:
    """Return a PNG that is hard to compress."""
    out = BytesIO()
    Image.frombytes("RGB", (1600, 800), Random(1).randbytes(1600 * 800 * 3)).save(out, "PNG")
    return out.getvalue()


def moving() -> bytes:
    frames = [Image.new("RGB", (2000, 20), color) for color in ("red", "blue")]
    out = BytesIO()
    frames[0].save(out, "WEBP", save_all=True, append_images=frames[1:], lossless=True)
    return out.getvalue()


def test_an_image_becomes_small_and_what_is_none_becomes_nothing() -> None:
    """A broken image would fail its message, or an animation stop moving."""
    with Image.open(BytesIO(smaller(large(), THUMB))) as small:
        assert (small.format, small.size) == ("WEBP", (THUMB, THUMB // 2))
    with Image.open(BytesIO(smaller(image().data, SCREEN))) as small:
        assert small.size == (64, 48)  # never larger than it was
    assert smaller(b"no image", THUMB) == smaller(large()[:400], THUMB) == b""
    assert smaller(moving(), THUMB) == b""


def test_every_kind_of_pixels_is_made_small() -> None:
    """A server's image in an unusual mode would be missing from the history."""
    for mode in ("RGBA", "P", "L", "LA", "I;16", "1", "CMYK"):
        out = BytesIO()
        Image.new(mode, (300, 300)).save(out, "JPEG" if mode == "CMYK" else "PNG")
        assert smaller(out.getvalue(), THUMB), mode


async def test_what_is_kept_is_made_once_and_bounded() -> None:
    """Every view of a page would compute each image again, or every image stay in memory."""
    small, read = Thumbnails(MemoryLog(), None, None, most_bytes=500), 0

    async def data() -> bytes:
        nonlocal read
        read += 1
        return image(size=(400, 400)).data

    for _ in range(3):
        assert await small.of("a", "a.png", THUMB, data)
    assert read == 1
    await asyncio.gather(*(small.of(str(at), "b.png", THUMB, data) for at in range(40)))
    assert read == 41
    await small.of("a", "a.png", THUMB, data)
    assert read == 42  # it had been removed for others


async def test_the_image_of_a_past_job_is_its_owners_and_ends_with_it() -> None:
    """The history would show strangers what a person drew, or what was deleted long ago."""
    mine = Kept("web:local")
    async with (
        running(web_of(mine), ScriptedHandler()) as web,
        aiohttp.ClientSession() as http,
    ):
        async with http.get(f"{web.url}past/7") as answer:
            assert (answer.status, answer.content_type) == (200, "image/webp")
            assert answer.headers["Cache-Control"] == "private, no-cache"
            tag, size = answer.headers["ETag"], len(await answer.read())
        assert size < 20_000
        async with http.get(f"{web.url}past/7", headers={"If-None-Match": tag}) as answer:
            assert answer.status == 304
        assert mine.read == 1
        for other in ("8", "-7", "x", "\u0667", "9" * 30):
            async with http.get(f"{web.url}past/{other}") as answer:
                assert answer.status == 404
        del mine.images[7]
        async with http.get(f"{web.url}past/7", headers={"If-None-Match": tag}) as answer:
            assert answer.status == 404
    theirs = Kept("web:ada")
    async with (
        running(web_of(theirs), ScriptedHandler()) as web,
        aiohttp.ClientSession() as http,
        http.get(f"{web.url}past/7") as answer,
    ):
        assert answer.status == 404
    token = "correct-horse-battery-staple"
    async with (
        running(web_of(mine, token), ScriptedHandler()) as web,
        aiohttp.ClientSession() as http,
        http.get(f"{web.url}past/7") as answer,
    ):
        assert answer.status == 401


async def test_a_large_result_is_shown_small_and_downloaded_whole() -> None:
    """Sixty results would be as many megabytes on a phone."""
    log, data = MemoryLog(), large()
    async with (
        running(Web(port=0, log=log), ScriptedHandler()) as web,
        aiohttp.ClientSession() as http,
    ):
        files = (File(name="big.png", mime="image/png", data=data),
                 File(name="moves.webp", mime="image/webp", data=moving()))  # fmt: skip
        ref = await web.send("local", Content(files=files))
        entry = await log.get("local", ref.message)
        assert entry is not None
        assert entry.shown is not None
        big, moves = (f"{web.url}files/{file.id}" for file in entry.shown.files)
        async with http.get(f"{big}?small=1") as answer:
            with Image.open(BytesIO(await answer.read())) as shown:
                assert (shown.format, shown.size) == ("WEBP", (SCREEN, SCREEN // 2))
            small_tag = answer.headers["ETag"]
        async with http.get(big) as answer:
            assert await answer.read() == data
            assert answer.headers["ETag"] != small_tag
        async with http.get(f"{moves}?small=1") as answer:
            assert await answer.read() == moving()
        await web.delete(ref)
        async with http.get(f"{big}?small=1", headers={"If-None-Match": small_tag}) as answer:
            assert answer.status == 404
