"""Several images in one message on Discord: a layout in which each has its own buttons."""

import asyncio
from pathlib import Path

import pytest

from bot.core.content import Button, Content
from bot.platforms.discord.components.views import COMPONENTS_MOST
from bot.platforms.discord.renderer import outgoing
from queueing.core.requests import File, TextToImage
from tests.bot.platforms.discord.test_discord_away import elsewhere
from tests.bot.whole_bot import DRAWS_AND_WRITES, on_discord
from tests.fakes.discord.discord import FakeDiscord
from tests.fakes.discord.discord_layouts import GALLERY, LAYOUT, ROW, TEXT, media, parts
from tests.fakes.discord.discord_state import FakeMessage

MODEL = DRAWS_AND_WRITES.replace("IMAGE_S", "0.3").replace(
    "[text-to-image]", "[text-to-image, image-to-image, image-edit, upscale]"
)
CONFIG = f"""
{MODEL}
chats:
  discord: {{token: "${{DISCORD_TOKEN}}", user_install: true}}
"""


def gallery(message: FakeMessage | None) -> bool:
    return message is not None and bool(message.flags & LAYOUT) and bool(message.files)


def newest(fake: FakeDiscord) -> FakeMessage:
    return fake.channel().messages[-1]


def labels(message: FakeMessage) -> list[str]:
    return [each.label for each in message.buttons]


def image(name: str) -> File:
    return File(name=name, mime="image/png", data=b"\x89PNG")


def button(command: str, number: int | None = None) -> Button:
    return Button(command=command, job_id=1, label=f"{command} {number}", number=number)


async def test_each_image_stands_above_its_own_buttons(tmp_path: Path) -> None:
    """No one would know which of four images "3" is, or the wrong one would be enlarged."""
    async with FakeDiscord() as fake, on_discord(fake, tmp_path, CONFIG) as bot:
        person = fake.person(7, "Ada")
        call = await person.slash("image", model="flux", prompt="a *cat*", count=4)
        await fake.wait_for(lambda: gallery(call.answer))
        [shown] = fake.channel().messages
        assert shown is call.answer
        assert "a *cat*" in shown.shown
        assert [each["type"] for each in shown.components] == [TEXT, *[GALLERY, ROW] * 4, ROW]
        assert [each["description"] for each in media(shown.components)] == ["a *cat*"] * 4
        assert labels(shown)[8:13] == [
            "🎲 Vary 3", "⬆️ Upscale 3", "🖌️ Edit image 3", "🎲 Vary (subtle) 3", "🎲 Vary 4",
        ]  # fmt: skip
        assert [each.custom_id for each in shown.buttons][9] == "job:1:upscale:3"
        assert [each.name[-6:] for each in shown.files] == ["-1.png", "-2.png", "-3.png", "-4.png"]
        await person.click(shown, "⬆️ Upscale 3")
        await fake.wait_for(lambda: newest(fake) is not shown and newest(fake).files)
        larger = await bot.queue.jobs.get(2)
        assert larger is not None
        assert isinstance(larger.request, TextToImage)
        assert (larger.request.upscale, larger.request.source) == (True, 1)
        await person.click(shown, "🔄 Again")
        await fake.wait_for(lambda: newest(fake) is not shown and gallery(newest(fake)))
        copied = await person.click(shown, "✉️ Copy")
        await fake.wait_for(lambda: copied.followups)
        [copy] = person.direct.messages
        assert [each.data for each in copy.files] == [each.data for each in shown.files]
        assert labels(copy) == [each for each in labels(shown) if each != "✉️ Copy"]


async def test_one_image_of_several_is_edited(tmp_path: Path) -> None:
    """The form would change the first image, whichever was pressed."""
    async with FakeDiscord() as fake, on_discord(fake, tmp_path, CONFIG) as bot:
        person = fake.person(7, "Ada")
        call = await person.slash("image", model="flux", prompt="a cat", count=4)
        await fake.wait_for(lambda: gallery(call.answer))
        [shown] = fake.channel().messages
        opened = await person.click(shown, "🖌️ Edit image 3")
        await fake.wait_for(lambda: opened.form)
        edited = await person.send_off(opened, prompt="make it red")
        await fake.wait_for(lambda: edited.answer)
        drawn, job = await bot.queue.jobs.get(1), await bot.queue.jobs.get(2)
        assert drawn is not None
        assert job is not None
        output = await bot.queue.jobs.output(drawn)
        assert output is not None
        assert await bot.queue.jobs.inputs(job) == (output.files[2],)
        await fake.wait_for(lambda: edited.answer is not None and edited.answer.files)
        fake.fail("POST", "/interactions/*/*/callback", status=404, code=10062, times=9)
        await person.click(shown, "🖌️ Edit image 2")  # Discord takes no form any more
        await fake.wait_for(lambda: "Reply to this message" in newest(fake).shown)
        prompt = newest(fake)
        await person.says("make it blue", reply_to=prompt)
        await fake.wait_for(lambda: newest(fake).files and newest(fake) is not prompt)
        job = await bot.queue.jobs.get(3)
        assert job is not None
        assert await bot.queue.jobs.inputs(job) == (output.files[1],)


async def test_a_gallery_that_cannot_be_deleted_says_so_in_its_place(tmp_path: Path) -> None:
    """Deleted images would stay, because a gallery never becomes a plain message again."""
    async with FakeDiscord() as fake, on_discord(fake, tmp_path, CONFIG) as bot:
        person = fake.person(7, "Ada")
        call = await person.slash("image", model="flux", prompt="a cat", count=2)
        await fake.wait_for(lambda: gallery(call.answer))
        [shown] = fake.channel().messages
        await bot.presenter.settle(10)
        fake.fail("DELETE", "/channels/*/messages/*", status=403, code=50013)
        await person.click(shown, "🗑️ Delete")
        await fake.wait_for(lambda: not shown.files)
        assert fake.channel().messages == [shown]
        assert shown.shown == "Deleted."
        assert shown.buttons == []


async def test_a_gallery_takes_the_place_of_a_message_of_an_earlier_run(tmp_path: Path) -> None:
    """A restart would leave the old message behind, or send the images twice."""
    go_on = asyncio.Event()
    async with FakeDiscord() as fake:
        person = fake.person(7, "Ada")
        async with on_discord(fake, tmp_path, CONFIG, go_on=go_on):
            call = await person.slash("image", model="flux", prompt="a cat", count=2)
            await fake.wait_for(lambda: call.answer)
        async with on_discord(fake, tmp_path, CONFIG):
            await fake.wait_for(lambda: gallery(call.answer))
            assert fake.channel().messages == [call.answer]


@pytest.mark.parametrize("late", [False, True])
async def test_a_gallery_reaches_a_caller_from_elsewhere(tmp_path: Path, late: bool) -> None:
    """No gallery came where only the caller sees answers, or only direct messages are possible."""
    go_on = asyncio.Event()
    async with FakeDiscord() as fake, on_discord(fake, tmp_path, CONFIG, go_on=go_on):
        person, channel = fake.person(7, "Ada"), elsewhere(fake)
        options = {"model": "flux", "prompt": "a cat", "count": 2}
        call = await person.slash("image", in_channel=channel, **options)
        await fake.wait_for(lambda: call.answer)
        if late:
            fake.later(1000)
        go_on.set()
        where = person.direct if late else channel
        await fake.wait_for(lambda: any(map(gallery, where.seen_by(7))))
        assert len(where.seen_by(7)) == 1
        assert channel.messages == []


async def test_a_layout_never_has_too_many_parts() -> None:
    """Discord would refuse ten images with all their buttons."""
    commands = ("vary", "upscale", "video", "edit-image", "vary-subtle")
    for count in range(2, 11):
        own = [tuple(button(each, n) for each in commands) for n in range(1, count + 1)]
        shared = tuple(button(each) for each in ("again", "edit", "delete", "copy"))
        rows = (shared, *own, (button("show"),))
        files = tuple(image(f"flux:dev {n}.png") for n in range(count))
        content = Content(body=("cats",), files=files, buttons=rows, spoiler=True, alt="cats")
        view = outgoing(content, now=0.0).view
        assert view is not None
        made = view.to_components()
        assert len(list(parts(made))) <= COMPONENTS_MOST, count
        shown = list(media(made))
        names = [each["media"]["url"] for each in shown]
        assert len(set(names)) == count
        assert names[1] == "attachment://SPOILER_2-flux_dev_1.png"
        assert all(each["spoiler"] for each in shown)
        ids = [each["custom_id"] for each in parts(made) if "custom_id" in each]
        kept = commands if count <= 4 else commands[:1]
        assert {f"job:1:{each}:{n}" for each in kept for n in range(1, count + 1)} <= set(ids)
        assert ids[-5:] == [f"job:1:{each}" for each in ("again", "edit", "delete", "copy", "show")]
