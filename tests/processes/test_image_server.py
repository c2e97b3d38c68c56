"""`usher run` with an image server: drawn and edited for a program, from request to file."""

import io
from base64 import b64decode
from pathlib import Path
from typing import Any

import aiohttp
from PIL import Image

from tests.backends.images.test_images import mask, photo
from tests.fakes.servers.painters import painting, plain
from tests.processes.bot_process import BotProcess


def configuration(port: int, url: str, database: Path) -> str:
    return f"""
database: {database}
api: {{host: 127.0.0.1, port: {port}, open: true}}
hosts:
  studio:
    vram: 24GB
    backends:
      painter: {{kind: images, url: "{url}"}}
models:
  klein:
    backends: [painter]
    model: alpha
    vram: 8GB
    capabilities: [text-to-image, image-to-image, image-edit]
"""


async def test_an_image_is_drawn_and_edited_with_a_mask_and_references(tmp_path: Path) -> None:
    """The parts between a program's request and a server's calls might not fit together."""
    bot = BotProcess(tmp_path)
    async with painting("sdcpp") as fake, aiohttp.ClientSession() as session:
        bot.configure(configuration(bot.port, fake.url, tmp_path / "usher.sqlite"))
        await bot.start()
        api = f"http://127.0.0.1:{bot.port}/v1"
        try:
            asked: dict[str, Any] = {"model": "klein", "prompt": "a secret cat", "size": "128x64"}
            async with session.post(f"{api}/images/generations", json=asked) as drawn:
                data = b64decode((await drawn.json())["data"][0]["b64_json"])
            form = aiohttp.FormData({"model": "klein", "prompt": "put both into one"})
            for colour in ("red", "blue"):
                form.add_field("image[]", photo(colour=colour).data, filename="a.jpg")
            form.add_field("mask", mask().data, filename="mask.png")
            async with session.post(f"{api}/images/edits", data=form) as edited:
                assert edited.status == 200, await edited.text()
                assert len((await edited.json())["data"]) == 1
        finally:
            await bot.kill()
        body = fake.asked("/sdcpp/v1/img_gen")[-1]
    assert Image.open(io.BytesIO(data)).size == (128, 64)
    assert b"secret" not in data
    assert len(body["ref_images"]) == 2
    sent = Image.open(io.BytesIO(plain(body["mask_image"])))
    assert (sent.getpixel((10, 10)), sent.getpixel((630, 10))) == (255, 0)
