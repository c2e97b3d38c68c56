"""Broken images of every format that Pillow knows: each only affects itself."""

import ast
import asyncio
import io
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from backends.media.images import open_image
from bot.core.refusals import Declined
from bot.platforms.web.chat.renderer import shown_file
from bot.requests.files import images
from queueing.core.errors import Rejected
from queueing.core.requests import File
from tests.bot.platforms.web.web_client import running, tab
from tests.fakes.command_handler import ScriptedHandler
from tests.fakes.memory_log import web_chat
from tests.fuzz.hostile_input import EXAMPLES, bounded

PACKAGES = ("queueing", "backends", "bot", "benchmarks")


@cache
def heads() -> dict[str, bytes]:
    """Return a small good file of every format that can be written, by its name."""
    Image.init()
    image = Image.effect_noise((24, 16), 60)
    made = {}
    for kind in sorted(Image.SAVE):
        for mode in ("RGB", "L", "1", "P", "F", "CMYK"):
            out = io.BytesIO()
            try:
                image.convert(mode).save(out, kind)
            except Exception:  # noqa: BLE001  not every format takes every mode
                continue
            made[kind] = out.getvalue()
            break
    return made


def broken(good: bytes, random: Random) -> bytes:
    """Return a file with some of its bytes changed, mostly in its header, and perhaps cut."""
    data = bytearray(good)
    for _ in range(random.randint(1, 6)):
        at = random.randrange(min(len(data), random.choice((32, 200, len(data)))))
        data[at] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
    return bytes(data[: random.choice((len(data), random.randrange(len(data)) + 1))])


def test_every_format_is_tried() -> None:
    """Formats whose readers raise unusual errors would be left out."""
    assert {"AVIF", "DDS", "SPIDER", "TIFF", "ICO", "JPEG2000", "PNG", "WEBP"} <= set(heads())


@bounded
@given(st.randoms(use_true_random=False))
def test_whatever_a_reader_raises_costs_that_image_only(random: Random) -> None:
    """An image whose reader raises an unusual error blocked a person's page for good."""
    asyncio.run(_taken([_file(kind, broken(good, random)) for kind, good in heads().items()]))


def _file(kind: str, data: bytes) -> File:
    return File(name=f"a.{kind}", mime=f"image/{kind.lower()}", data=data)


async def _taken(files: Sequence[File]) -> None:
    """Do everything with each image that is done with images from outside."""
    for file in files:
        assert shown_file("ada", "msg", file).size == len(file.data)
        with suppress(Declined):
            await images.checked(file.data)
        with suppress(Rejected):
            open_image(file)
        await images.fitted(file, 8)
        await images.dimensions(file)


def test_images_are_opened_by_named_formats_only() -> None:
    """Any of Pillow's forty readers, most of them rarely used, would see a stranger's bytes."""
    unnamed = [
        f"{source}:{call.lineno}"
        for package in PACKAGES
        for source in Path(package).rglob("*.py")
        for call in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) in {"Image.open", "PIL.Image.open"}
        and "formats" not in {given.arg for given in call.keywords}
    ]
    assert not unnamed


@pytest.mark.parametrize("kind", ["AVIF", "DDS", "SPIDER", "PNG"])
async def test_a_page_goes_on_after_broken_images(kind: str) -> None:
    """The message would be repeated forever and all later messages would wait."""
    random = Random(kind)
    async with (
        running(web_chat(port=0), ScriptedHandler()) as web,
        tab(web) as page,
        aiohttp.ClientSession(headers={"Origin": web.url.rstrip("/")}) as session,
    ):
        for _ in range(min(EXAMPLES, 8)):
            data = broken(heads()[kind], random)
            about = {"Content-Type": f"image/{kind.lower()}"}
            async with session.post(f"{web.url}upload", data=data, headers=about) as answer:
                upload = (await answer.json())["id"]
            await page.say("look", uploads=[upload])
            await page.next("taken")


async def test_a_frame_whose_handling_fails_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The socket would end, and the page would send the same frame again, forever."""

    async def fails(*_: object) -> None:
        raise RuntimeError("a fault of this machine")

    monkeypatch.setattr("bot.platforms.web.chat.calls.Calls.say", fails)
    async with running(web_chat(port=0), ScriptedHandler()) as web, tab(web) as page:
        key = await page.say("/image cat")
        assert await page.next("refused") == {"type": "refused", "key": key, "reason": "invalid"}
        await page.send(type="suggest", id=1, command="image", param="model", typed="f")
        await page.next("values")
