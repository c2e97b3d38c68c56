"""The buttons under a result, pressed on real chats: the whole bot on fake Discord and Telegram."""

import asyncio
from pathlib import Path

import pytest

from tests.bot.platforms.telegram.telegram_bot import image
from tests.bot.whole_bot import on_discord, on_telegram
from tests.fakes.discord.discord import FakeDiscord
from tests.fakes.discord.discord_state import FakeMessage as DiscordMessage
from tests.fakes.telegram.telegram import FakeTelegram
from tests.fakes.telegram.telegram_state import FakeMessage as TelegramMessage

CONFIG = """
hosts:
  gpu-1:
    vram: 24GB
    backends:
      studio: {kind: demo}
models:
  flux:
    backends: [studio]
    capabilities: [text-to-image, image-to-image]
    vram: 7GB
    load_s: 0.1
    service_s: 0.3
  lens:
    backends: [studio]
    capabilities: [upscale]
    vram: 2GB
    load_s: 0.1
    service_s: 0.3
  llama:
    backends: [studio]
    capabilities: [text-to-text, vision]
    vram: 7GB
    load_s: 0.1
    service_s: 0.3
"""
DISCORD = """
chats: {discord: {token: "${DISCORD_TOKEN}"}}
rooms: {"discord:100": {spoiler: true}}
"""
TELEGRAM = """
chats: {telegram: {token: "${TELEGRAM_TOKEN}", api_url: "${TELEGRAM_API}"}}
"""


async def drawn(fake: FakeDiscord, count: int) -> DiscordMessage:
    """Wait until this many results with images and buttons are there; return the newest."""

    def results() -> list[DiscordMessage]:
        return [each for each in fake.channel().messages if each.files and len(each.buttons) > 1]

    await fake.wait_for(lambda: len(results()) >= count)
    return results()[-1]


@pytest.mark.thorough
async def test_a_result_on_discord_is_edited_varied_enlarged_and_deleted(tmp_path: Path) -> None:
    """The buttons under an image would do nothing on Discord, or stop working after a restart."""
    async with FakeDiscord() as fake:
        person, stranger = fake.person(7, "Ada"), fake.person(8)
        async with on_discord(fake, tmp_path, CONFIG + DISCORD):
            await person.slash("image", model="flux", prompt="a cat", seed=7)
            first = await drawn(fake, 1)
            assert first.files[0].name.startswith("SPOILER_")
        fake.later(7200)
        async with on_discord(fake, tmp_path, CONFIG + DISCORD):
            refused = await stranger.click(first, "✏️ Edit")
            await fake.wait_for(lambda: refused.answer)
            opened = await person.click(first, "✏️ Edit")
            await fake.wait_for(lambda: opened.form)
            assert opened.fields["prompt"] == "a cat"
            assert opened.fields["seed"] == "7"
            await person.send_off(opened, prompt="a dog")
            second = await drawn(fake, 2)
            assert "a dog" in second.shown
            assert "seed 7" in second.shown
            await person.click(second, "🎲 Vary (subtle)")
            await drawn(fake, 3)
            larger = await person.click(second, "⬆️ Upscale")
            await fake.wait_for(lambda: any("upscaled" in m.shown for m in fake.channel().messages))
            assert larger.response_type == 6
            await person.click(first, "🗑️ Delete")
            await fake.wait_for(lambda: first not in fake.channel().messages)


async def test_the_menu_of_a_message_on_discord_asks_about_its_words(tmp_path: Path) -> None:
    """The menus would have no effect."""
    async with FakeDiscord() as fake, on_discord(fake, tmp_path, CONFIG + DISCORD):
        person = fake.person(7, "Ada")
        written = fake.person(8, "Bob").write("GPU stands for something.")
        opened = await person.open_menu(written, "Ask about this")
        await fake.wait_for(lambda: opened.form)
        assert opened.fields["about"] == "Bob: GPU stands for something."
        await person.send_off(opened, prompt="for what?")
        await fake.wait_for(
            lambda: any("for what?" in each.shown for each in fake.channel().messages)
        )
        shot = person.file("shot.png", image(64, 48).data)
        posted = fake.person(8).write("", shot)
        await person.open_menu(posted, "Describe")
        await fake.wait_for(lambda: any("64" in each.shown for each in fake.channel().messages))


@pytest.mark.thorough
async def test_a_result_on_telegram_is_edited_by_a_reply_and_deleted(tmp_path: Path) -> None:
    """The buttons under an image would do nothing on Telegram, or stop working after a restart."""

    def results() -> list[TelegramMessage]:
        return [each for each in person.chat.from_bot if each.file and len(each.buttons) > 1]

    async with FakeTelegram() as fake:
        person = fake.person(7, "Ada")
        async with on_telegram(fake, tmp_path, CONFIG + TELEGRAM):
            person.says("/image flux a cat --seed 7")
            await fake.wait_for(results)
            [first] = results()
            person.presses(first, "✏️ Edit")
            await fake.wait_for(lambda: len(person.chat.from_bot) == 2)
            prompt = person.chat.from_bot[-1]
            assert "a cat" in prompt.shown
        async with on_telegram(fake, tmp_path, CONFIG + TELEGRAM):
            person.says("a dog", reply_to=prompt)
            await fake.wait_for(lambda: len(results()) == 2)
            assert "a dog" in results()[-1].shown
            assert "seed 7" in results()[-1].shown
            person.says("/describe", reply_to=results()[-1])
            await fake.wait_for(
                lambda: any("Describe this" in m.shown for m in person.chat.from_bot)
            )
            person.presses(first, "🗑️ Delete")
            await fake.wait_for(lambda: first not in person.chat.from_bot)


async def test_every_image_of_an_album_belongs_to_its_job(tmp_path: Path) -> None:
    """A reply to the second image would be lost, or the image stay after /delete."""

    def images() -> list[TelegramMessage]:
        return [each for each in person.chat.from_bot if each.file]

    async with FakeTelegram() as fake, on_telegram(fake, tmp_path, CONFIG + TELEGRAM) as bot:
        person = fake.person(7, "Ada")
        person.says("/image flux a cat --count 2")
        await fake.wait_for(lambda: len(images()) == 2)
        await bot.presenter.settle(240.0)  # the image is seen before Telegram's answer is read
        person.says("/vary", reply_to=images()[1])
        await fake.wait_for(lambda: len(images()) == 3)
        drawn, varied = await bot.queue.jobs.get(1), await bot.queue.jobs.get(2)
        assert drawn is not None
        assert varied is not None
        output = await bot.queue.jobs.output(drawn)
        assert output is not None
        assert await bot.queue.jobs.inputs(varied) == (output.files[1],)
        person.says("/delete", reply_to=images()[-1])
        await fake.wait_for(lambda: len(images()) == 2)
        person.says("/delete", reply_to=images()[1])
        await fake.wait_for(lambda: not images())


async def test_one_image_of_an_album_is_edited_by_its_button(tmp_path: Path) -> None:
    """The reply would change the first image, whichever was meant."""
    edits = CONFIG.replace("[text-to-image,", "[text-to-image, image-edit,")
    async with FakeTelegram() as fake, on_telegram(fake, tmp_path, edits + TELEGRAM) as bot:
        person = fake.person(7, "Ada")
        person.says("/image flux a cat --count 2")
        await fake.wait_for(lambda: len([m for m in person.chat.from_bot if m.file]) == 2)
        await bot.presenter.settle(240.0)
        first = next(each for each in person.chat.from_bot if each.buttons)
        person.presses(first, "🖌️ 2")
        await fake.wait_for(lambda: person.chat.from_bot[-1].awaits)
        person.says("make it red", reply_to=person.chat.from_bot[-1])
        await fake.wait_for(lambda: len([m for m in person.chat.from_bot if m.file]) == 3)
        drawn, edited = await bot.queue.jobs.get(1), await bot.queue.jobs.get(2)
        assert drawn is not None
        assert edited is not None
        output = await bot.queue.jobs.output(drawn)
        assert output is not None
        assert await bot.queue.jobs.inputs(edited) == (output.files[1],)


async def test_nothing_follows_a_result_that_is_deleted_while_it_comes(tmp_path: Path) -> None:
    """The second image would appear after its person has deleted both."""
    go_on = asyncio.Event()
    async with FakeTelegram() as fake, on_telegram(fake, tmp_path, CONFIG + TELEGRAM) as bot:
        person = fake.person(7, "Ada")
        fake.fail("sendPhoto", until=go_on)
        person.says("/image flux a cat --count 2")
        await fake.wait_for(lambda: any(m.method == "sendPhoto" for m in fake.api.requests))
        first = next(each for each in person.chat.from_bot if each.file)
        person.presses(first, "🗑️ Delete")
        await fake.wait_for(lambda: first not in person.chat.from_bot)
        go_on.set()
        await bot.presenter.settle(240.0)
        assert not person.chat.from_bot
        assert await bot.queue.deliveries.unacknowledged() == []
