"""Videos and edited images on Discord: fields are distinguished, buttons reach their job."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from bot.app.app import BotParts
from tests.bot.whole_bot import on_discord
from tests.fakes.discord.discord import FakeDiscord

MODELS = """
hosts:
  gpu-1:
    vram: 24GB
    backends:
      studio: {kind: demo}
models:
  flux: {backends: [studio], capabilities: [text-to-image], vram: 4GB, load_s: 0.1, service_s: 0.2}
  pen: {backends: [studio], capabilities: [image-edit], vram: 4GB, load_s: 0.1, service_s: 0.2}
  wan:
    backends: [studio]
    capabilities: [text-to-video, image-to-video]
    vram: 4GB
    load_s: 0.1
    service_s: 0.2
"""


def png(color: Any) -> bytes:
    out = BytesIO()
    Image.new("RGBA", (64, 64), color).save(out, "PNG")
    return out.getvalue()


@asynccontextmanager
async def discord(folder: Path) -> AsyncIterator[tuple[FakeDiscord, BotParts]]:
    text = f'{MODELS}\nchats:\n  discord: {{token: "${{DISCORD_TOKEN}}"}}'
    async with FakeDiscord() as fake, on_discord(fake, folder, text) as parts:
        yield fake, parts


async def request_of(parts: BotParts, job_id: int) -> Any:
    job = await parts.queue.jobs.get(job_id)
    assert job is not None
    return job.request


@pytest.mark.thorough
async def test_an_image_is_filmed_by_its_button_on_discord(tmp_path: Path) -> None:
    """The button would reach no command, or a video be sent as an image."""
    async with discord(tmp_path) as (fake, parts):
        person = fake.person(7, "Ada")
        call = await person.slash("image", model="flux", prompt="a cat")
        await fake.wait_for(lambda: call.answer and "seed" in call.answer.shown)
        assert call.answer is not None
        await person.click(call.answer, "🎞️ Video")
        await fake.wait_for(lambda: [m for m in fake.channel().messages if "0:0" in m.shown])
        video = fake.channel().messages[-1]
        assert video.files[0].data[4:8] == b"ftyp"
        assert "from 1 · wan · 0:0" in video.shown
        assert (await request_of(parts, 2)).kind == "text-to-video"


async def test_the_fields_of_discord_are_told_apart(tmp_path: Path) -> None:
    """The mask would be combined with the image, or the last image be used as the first."""
    async with discord(tmp_path) as (fake, parts):
        person = fake.person(7, "Ada")
        mask = person.file("mask.png", png((0, 0, 0, 0)), "image/png")
        photo = person.file("photo.png", png("red"), "image/png")
        await person.slash("edit", prompt="a hat", image=photo, mask=mask)
        await fake.wait_for(lambda: any("pen" in m.shown for m in fake.channel().messages))
        edited = await request_of(parts, 1)
        assert (edited.edit, edited.mask) == (True, True)
        last = person.file("last.png", png("blue"), "image/png")
        await person.slash("video", prompt="a cat", last=last, image=photo)
        await fake.wait_for(lambda: any("wan" in m.shown for m in fake.channel().messages))
        job = await parts.queue.jobs.get(2)
        assert job is not None
        colors = []
        for file in await parts.queue.jobs.inputs(job) or ():
            with Image.open(BytesIO(file.data)) as opened:
                colors.append(opened.convert("RGB").getpixel((0, 0)))
        assert colors == [(255, 0, 0), (0, 0, 255)]
