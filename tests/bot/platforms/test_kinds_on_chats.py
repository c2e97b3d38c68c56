"""Films, speech and edited pictures on the real platforms: fields, buttons, forms and replies."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from bot.runtime.app import BotParts
from tests.bot.whole_bot import on_discord, on_telegram
from tests.fakes.discord import FakeDiscord
from tests.fakes.telegram import FakeTelegram

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
  amy: {backends: [studio], capabilities: [text-to-speech], vram: 2GB, load_s: 0.1, service_s: 0.2}
  ear: {backends: [studio], capabilities: [speech-to-text], vram: 2GB, load_s: 0.1, service_s: 0.2}
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


@asynccontextmanager
async def telegram(folder: Path) -> AsyncIterator[tuple[FakeTelegram, BotParts]]:
    chats = 'chats:\n  telegram: {token: "${TELEGRAM_TOKEN}", api_url: "${TELEGRAM_API}"}'
    async with FakeTelegram() as fake, on_telegram(fake, folder, f"{MODELS}\n{chats}") as parts:
        yield fake, parts


async def request_of(parts: BotParts, job_id: int) -> Any:
    job = await parts.queue.jobs.get(job_id)
    assert job is not None
    return job.request


async def test_a_picture_is_filmed_by_its_button_on_discord(tmp_path: Path) -> None:
    """The button would reach no command, or a film be sent as a picture."""
    async with discord(tmp_path) as (fake, parts):
        person = fake.person(7, "Ada")
        call = await person.slash("image", model="flux", prompt="a cat")
        await fake.wait_for(lambda: call.answer and "seed" in call.answer.shown)
        assert call.answer is not None
        await person.click(call.answer, "🎞️ Film")
        await fake.wait_for(lambda: [m for m in fake.channel().messages if "0:0" in m.shown])
        film = fake.channel().messages[-1]
        assert film.files[0].data[4:8] == b"ftyp"
        assert "from 1 · wan · 0:0" in film.shown
        assert (await request_of(parts, 2)).kind == "text-to-video"


async def test_the_fields_of_discord_are_told_apart(tmp_path: Path) -> None:
    """The mask would be combined with the picture, or the last picture begin the film."""
    async with discord(tmp_path) as (fake, parts):
        person = fake.person(7, "Ada")
        mask = person.file("mask.png", png((0, 0, 0, 0)), "image/png")
        photo = person.file("photo.png", png("red"), "image/png")
        await person.slash("edit", prompt="a hat", picture=photo, mask=mask)
        await fake.wait_for(lambda: any("pen" in m.shown for m in fake.channel().messages))
        edited = await request_of(parts, 1)
        assert (edited.edit, edited.mask) == (True, True)
        last = person.file("last.png", png("blue"), "image/png")
        await person.slash("film", prompt="a cat", last=last, picture=photo)
        await fake.wait_for(lambda: any("wan" in m.shown for m in fake.channel().messages))
        job = await parts.queue.jobs.get(2)
        assert job is not None
        colors = []
        for file in await parts.queue.jobs.inputs(job) or ():
            with Image.open(BytesIO(file.data)) as opened:
                colors.append(opened.convert("RGB").getpixel((0, 0)))
        assert colors == [(255, 0, 0), (0, 0, 255)]


async def test_a_picture_is_edited_by_a_reply_to_the_question_for_it(tmp_path: Path) -> None:
    """Where Discord opens a form, people on Telegram could not say what to change."""
    async with telegram(tmp_path) as (fake, parts):
        person = fake.person(7)
        person.says("/image flux a cat")
        await fake.wait_for(lambda: any("seed" in m.shown for m in person.chat.from_bot))
        [result] = person.chat.from_bot
        person.sends_data(result, "edit-picture:1")
        await fake.wait_for(lambda: len(person.chat.from_bot) == 2)
        question = person.chat.from_bot[1]
        assert question.awaits
        person.says("make it red", reply_to=question)
        await fake.wait_for(lambda: any("pen" in m.shown for m in person.chat.from_bot))
        edited = await request_of(parts, 2)
        assert (edited.prompt, edited.edit, edited.source) == ("make it red", True, 1)


async def test_a_text_replied_to_is_read_on_telegram(tmp_path: Path) -> None:
    """A person would have to copy what someone wrote."""
    async with telegram(tmp_path) as (fake, parts):
        person, group = fake.person(7), fake.group()
        said = fake.person(8).says("Good **morning**", chat=group)
        person.says("/speak", chat=group, reply_to=said)
        await fake.wait_for(lambda: any("0:0" in m.shown for m in group.from_bot))
        assert (await request_of(parts, 1)).text == "Good morning"
        [sound] = group.from_bot
        assert sound.file is not None
        assert sound.shown.startswith("Good morning\namy · 0:0")
