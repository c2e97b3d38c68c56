"""A voice message on the fake Telegram: from the update to the quoted answer and its voice."""

from pathlib import Path

import pytest

from tests.bot.platforms.telegram.test_telegram_app import CONFIG
from tests.bot.whole_bot import on_telegram
from tests.fakes.telegram.telegram import FakeTelegram
from tests.fakes.telegram.telegram_json import document

pytest.importorskip("av", reason="videos and sound need usher-bot[media]")

from tests.backends.media.recorded_videos import video

MODELS = """
  whisper:
    backends: [studio]
    capabilities: [speech-to-text]
    vram: 2GB
    load_s: 0.1
    service_s: 0.3
  kokoro:
    backends: [studio]
    capabilities: [text-to-speech]
    vram: 1GB
    load_s: 0.1
    service_s: 0.3
chats:
"""


@pytest.mark.thorough
async def test_a_voice_message_is_answered_once_and_read_aloud(tmp_path: Path) -> None:
    """Holding the button of a phone and speaking would not work."""
    config = CONFIG.replace("IMAGE_S", "0.3").replace("\nchats:\n", MODELS)
    async with FakeTelegram() as fake, on_telegram(fake, tmp_path, config) as parts:
        person = fake.person(7, "Ada")
        person.says("/settings --voice on")
        await fake.wait_for(lambda: person.chat.from_bot)
        file = fake.keep_file(video("ogg"), name="", mime="audio/ogg", photo=False)
        recorded = document(file)["document"] | {"duration": 1}
        del recorded["file_name"]
        said = person.says("", carries={"voice": recorded})
        person.repeats(said)
        await fake.wait_for(lambda: len(person.chat.from_bot) > 2)
        await parts.presenter.settle(10)
        _, answer, voice = person.chat.from_bot
        assert answer.reply_to == said.id
        assert answer.shown.startswith("🎤 “This is Usher's stand-in: no model listened.")
        assert voice.file is not None
        assert voice.reply_to == answer.id
        assert len(await parts.queue.jobs.history("telegram:7", limit=9)) == 1
        assert await parts.queue.deliveries.unacknowledged() == []
