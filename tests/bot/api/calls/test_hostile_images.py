"""Files that are no images, too large or bombs, in every part of a request that takes an image."""

import asyncio
import base64
import io
import struct
import zlib
from collections.abc import AsyncIterator, Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from PIL import Image

from bot.api.calls.request_files import IMAGES_MOST
from tests.bot.api.whole_api import CONFIG, Api, running

SEES = CONFIG.replace("[text-to-image]", "[text-to-image, image-to-image]").replace(
    "chats: {}",
    """  clip:
    backends: [studio]
    capabilities: [embedding, image-embedding]
    vram: 1GB
    load_s: 0.01
    service_s: 0.01
chats: {}""",
)
Body = tuple[str, dict[str, Any]]


def said(part: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [part]}]


def chat(url: str) -> Body:
    part = {"type": "image_url", "image_url": {"url": url}}
    return "/chat/completions", {"model": "llama", "messages": said(part)}


def response(url: str) -> Body:
    return "/responses", {
        "model": "llama",
        "input": said({"type": "input_image", "image_url": url}),
    }


def embedding(url: str) -> Body:
    return "/embeddings", {"model": "clip", "input": [{"image": url}]}


def edit(url: str) -> Body:
    return "/images/edits", {"model": "flux", "prompt": "red", "images": [{"image_url": url}]}


def job(url: str) -> Body:
    return "/jobs", {"model": "flux", "prompt": "red", "images": [url]}


def talk(url: str) -> Body:
    return "/jobs", chat(url)[1]


WAYS: list[Callable[[str], Body]] = [chat, response, embedding, edit, job, talk]


def png(width: int, height: int, *chunks: tuple[bytes, bytes]) -> bytes:
    """Return an image whose header states its size; its pixels are missing."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        ends = struct.pack(">I", zlib.crc32(kind + body))
        return struct.pack(">I", len(body)) + kind + body + ends

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", head), *chunks, (b"IDAT", zlib.compress(bytes(99))), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def drawn(kind: str) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (64, 64), "blue").save(out, kind)
    return out.getvalue()


def data_url(data: bytes, mime: str = "image/png") -> str:
    return f"data:{mime};base64,{base64.b64encode(data).decode()}"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running(tmp_path, SEES) as api:
        yield api


GOOD = drawn("PNG")
DRAWING = b"<svg xmlns='http://www.w3.org/2000/svg'/>"


@cache
def files() -> dict[str, bytes]:
    """Return the files by their names; they are made once, and only where they are used."""
    return {
        "nothing": b"",
        "a text": b"not an image",
        "a page": b"<html><script>alert(1)</script></html>",
        "a drawing of lines": DRAWING,
        "a document": b"%PDF-1.7\n",
        "an archive": b"PK\x03\x04" + bytes(60),
        "a program for printers": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
        "a format that cannot be read": b"\0\0\0\x18ftypheic" + bytes(40),
        "half an image in a rarer format": drawn("TIFF")[:-100],
        "half an image": GOOD[: len(GOOD) // 2],
        "an image without pixels": png(100, 100),
        "fifty thousand pixels square": png(50_000, 50_000),
        "more pixels than there are": png(2**31 - 1, 2**31 - 1),
        "a text that unpacks to gigabytes": png(
            10, 10, (b"zTXt", b"k\0\0" + zlib.compress(bytes(50_000_000)))
        ),
        "21 MB": GOOD + bytes(21_000_000),
    }


URLS: dict[str, str] = {
    "not base64": "data:image/png;base64,@@@",
    "base64 cut short": data_url(GOOD)[:-3],
    "text in a data URL": "data:image/png,%89PNG",
    "no data": "data:",
    "an empty data URL": "data:image/png;base64,",
    "an address": "https://example.com/a.png",
    "a file of the server": "file:///etc/passwd",
    "a path": "/etc/passwd",
    "an address in a data URL": data_url(b"https://example.com/a.png"),
    "a data URL in a data URL": data_url(data_url(GOOD).encode()),
    "a thousand parameters": "data:image/png;" + "a=b;" * 1000 + "base64,AA",
    "a drawing of lines that calls itself an image": data_url(DRAWING),
}


def images() -> dict[str, str]:
    return URLS | {name: data_url(data) for name, data in files().items()}


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")  # the client's
async def test_an_image_that_is_none_is_refused_by_name(
    api: Api, subtests: pytest.Subtests
) -> None:
    """It would reach a server, or crash the bot."""
    for way, (name, url) in product(WAYS, images().items()):
        if name == "21 MB" and way is not chat:
            continue  # all ways share one door, and this takes a second each
        with subtests.test(way.__name__, image=name):
            path, body = way(url)
            answer = await api.post(path, body, status=400)
            assert answer["error"]["param"]
            assert answer["error"]["message"].endswith(".")
            assert len(answer["error"]["message"]) < 300
    assert not await api.parts.queue.jobs.history("api:local", limit=1)
    for way in WAYS:
        path, body = way(data_url(GOOD, "text/html"))  # known by its bytes
        await api.post(path, body, status=202 if path == "/jobs" else 200)


async def test_a_file_that_is_no_image_is_refused_in_a_form(api: Api) -> None:
    """A form would be a way round the check."""
    for name, data in files().items():
        form = aiohttp.FormData({"prompt": "red", "model": "flux"})
        kind = "image/png"
        form.add_field("image", io.BytesIO(data), filename="a.png", content_type=kind)
        async with api.session.post(f"{api.url}/images/edits", data=form) as answer:
            assert (answer.status, name) == (400, name)
            assert (await answer.json())["error"]["param"] == "image"
    assert not await api.parts.queue.jobs.history("api:local", limit=1)


WRONG: list[Any] = [
    None,
    7,
    True,
    [],
    {},
    {"url": None},
    {"url": 7},
    {"url": []},
    [data_url(GOOD)],
    "",
]


async def test_an_image_of_another_type_is_refused(api: Api, subtests: pytest.Subtests) -> None:
    """A number in place of a text would be a bug and logged as one."""
    for way, value in product(WAYS, WRONG):
        with subtests.test(way.__name__, value=str(value)[:40]):
            path, body = way(value)
            assert (await api.post(path, body, status=400))["error"]["message"]
    assert not await api.parts.queue.jobs.history("api:local", limit=1)


async def test_a_call_has_so_many_images(tmp_path: Path) -> None:
    """Each takes a moment to decode; thousands would hold up everyone's images."""
    part = {"type": "image_url", "image_url": {"url": data_url(GOOD)}}
    body = chat("")[1]

    async def sent(count: int, status: int, api: Api) -> Any:
        asked = {**body, "messages": [{"role": "user", "content": [part] * count}]}
        return await api.post("/chat/completions", asked, status=status)

    async with running(tmp_path, SEES) as api:
        answer = await sent(IMAGES_MOST + 1, 400, api)
        assert f"more than {IMAGES_MOST} images" in answer["error"]["message"]
        await asyncio.gather(*(sent(IMAGES_MOST, 200, api) for _ in range(2)))


async def test_a_model_that_only_redraws_takes_one_image(api: Api) -> None:
    """The others would be silently ignored."""
    path, body = job(data_url(GOOD))
    answer = await api.post(path, {**body, "images": body["images"] * 2}, status=400)
    assert "can't edit images" in answer["error"]["message"]
