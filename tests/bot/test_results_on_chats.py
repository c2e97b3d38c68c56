"""What stands under a result, pressed on real chats: the whole bot on fake Discord and Telegram."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bot import config as configuration
from bot.app import Parts, build
from tests.bot.telegram_bot import picture
from tests.fakes.discord import FakeDiscord
from tests.fakes.discord_state import FakeMessage as DiscordMessage
from tests.fakes.telegram import FakeTelegram
from tests.fakes.telegram_state import FakeMessage as TelegramMessage

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


@asynccontextmanager
async def usher(text: str, environ: dict[str, str], folder: Path) -> AsyncIterator[Parts]:
    config = configuration.parse(CONFIG + text, environ)
    app = build(config, database_url=f"sqlite:///{folder}/usher.sqlite")
    async with app.running() as parts, asyncio.TaskGroup() as group:
        task = group.create_task(parts.queue.run())
        yield parts
        task.cancel()


@asynccontextmanager
async def on_discord(fake: FakeDiscord, folder: Path) -> AsyncIterator[Parts]:
    async with usher(DISCORD, {"DISCORD_TOKEN": fake.token}, folder) as parts:
        await fake.connected()
        yield parts


@asynccontextmanager
async def on_telegram(fake: FakeTelegram, folder: Path) -> AsyncIterator[Parts]:
    environ = {"TELEGRAM_TOKEN": fake.token, "TELEGRAM_API": fake.url}
    polls = fake.api.polls
    async with usher(TELEGRAM, environ, folder) as parts:
        await fake.wait_for(lambda: fake.api.polls > polls)
        yield parts


async def drawn(fake: FakeDiscord, count: int) -> DiscordMessage:
    """Wait until so many results with pictures and buttons are there; return the newest."""

    def results() -> list[DiscordMessage]:
        return [each for each in fake.channel().messages if each.files and len(each.buttons) > 1]

    await fake.wait_for(lambda: len(results()) >= count, timeout_s=30)
    return results()[-1]


async def test_a_result_on_discord_is_edited_varied_enlarged_and_deleted(tmp_path: Path) -> None:
    """Broken: what stands under a picture does nothing on Discord, or only until a restart."""
    async with FakeDiscord() as fake:
        person, stranger = fake.person(7, "Ada"), fake.person(8)
        async with on_discord(fake, tmp_path):
            await person.slash("image", model="flux", prompt="a cat", seed=7)
            first = await drawn(fake, 1)
            assert first.files[0].name.startswith("SPOILER_")
        fake.later(7200)
        async with on_discord(fake, tmp_path):
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
            await person.click(second, "🎲 Subtle")
            await drawn(fake, 3)
            larger = await person.click(second, "⬆️ Upscale")
            await fake.wait_for(
                lambda: any("enlarged" in m.shown for m in fake.channel().messages), timeout_s=30
            )
            assert larger.response_type == 6
            await person.click(first, "🗑️ Delete")
            await fake.wait_for(lambda: first not in fake.channel().messages)


async def test_the_menu_of_a_message_on_discord_asks_about_its_words(tmp_path: Path) -> None:
    """Broken: the menus are there and lead nowhere."""
    async with FakeDiscord() as fake, on_discord(fake, tmp_path):
        person = fake.person(7, "Ada")
        written = fake.person(8, "Bob").write("GPU stands for something.")
        opened = await person.open_menu(written, "Ask about this")
        await fake.wait_for(lambda: opened.form)
        assert opened.fields["about"] == "GPU stands for something."
        await person.send_off(opened, prompt="for what?")
        await fake.wait_for(
            lambda: any("for what?" in each.shown for each in fake.channel().messages), timeout_s=30
        )
        shot = person.file("shot.png", picture(64, 48).data)
        posted = fake.person(8).write("", shot)
        await person.open_menu(posted, "Describe")
        await fake.wait_for(
            lambda: any("64" in each.shown for each in fake.channel().messages), timeout_s=30
        )


async def test_a_result_on_telegram_is_edited_by_a_reply_and_deleted(tmp_path: Path) -> None:
    """Broken: what stands under a picture does nothing on Telegram, or only until a restart."""

    def results() -> list[TelegramMessage]:
        return [each for each in person.chat.from_bot if each.file and len(each.buttons) > 1]

    async with FakeTelegram() as fake:
        person = fake.person(7, "Ada")
        async with on_telegram(fake, tmp_path):
            person.says("/image flux a cat --seed 7")
            await fake.wait_for(results, timeout_s=30)
            [first] = results()
            person.presses(first, "✏️ Edit")
            await fake.wait_for(lambda: len(person.chat.from_bot) == 2)
            prompt = person.chat.from_bot[-1]
            assert "a cat" in prompt.shown
        async with on_telegram(fake, tmp_path):
            person.says("a dog", reply_to=prompt)
            await fake.wait_for(lambda: len(results()) == 2, timeout_s=30)
            assert "a dog" in results()[-1].shown
            assert "seed 7" in results()[-1].shown
            person.says("/describe", reply_to=results()[-1])
            await fake.wait_for(
                lambda: any("Describe this" in m.shown for m in person.chat.from_bot), timeout_s=30
            )
            person.presses(first, "🗑️ Delete")
            await fake.wait_for(lambda: first not in person.chat.from_bot)
