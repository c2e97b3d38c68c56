"""What a chat is shown at a job's end fits into what it can show, whatever its length."""

from dataclasses import replace

import pytest

from bot.chat.api.base import Invocation
from bot.chat.api.chat_settings import ChatSettingsTable
from bot.chat.api.origin import Origin
from bot.chat.delivery.result_renderer import RenderedResult, ResultRenderer
from bot.chat.texts import plain
from bot.chat.texts.split import utf16_length
from queueing.core.jobs import JobState
from queueing.core.requests import Chat, ChatMessage
from tests.fakes.chat import LIMITS
from tests.simulation.bot_installation import bot
from tests.simulation.installation import Installation, host, image_model
from tests.simulation.loop import run

TELEGRAM = replace(LIMITS, text=4096, caption=1024)


def packed(text: str) -> RenderedResult:
    """Return what Telegram is shown of an answer stopped when it had come so far."""

    async def scenario() -> RenderedResult:
        async with bot(Installation.of([image_model("flux")], [host("gpu-1", "comfy")])) as running:
            call = running.chat.call("/image flux a cat")
            assert isinstance(call, Invocation)
            await running.gate.call(call)
            (job,) = await running.queue.jobs.open_jobs()
            asked = Chat(messages=(ChatMessage(role="user", text="tell me all"),))
            stopped = replace(job, request=asked, state=JobState.CANCELLED, finished_at=9.0)
            renderer = ResultRenderer(running.queue.jobs, running.queue.models, ChatSettingsTable())
            return await renderer.render(stopped, Origin.of(call, "en"), TELEGRAM, written=text)

    return run(scenario())


@pytest.mark.parametrize("words", [1, 700, 815, 820, 1500, 3200, 3290, 20_000])
def test_every_part_of_an_answer_fits_its_message(words: int) -> None:
    """The chat would refuse the message, and the person would be left without the answer."""
    text = " ".join(f"w{number % 1000:03d}" for number in range(words))
    rendered = packed(text)
    parts = (rendered.content, *rendered.rest)
    for part in parts:
        room = TELEGRAM.caption if part.files else TELEGRAM.text
        assert utf16_length(plain(part.body)) <= room
    if rendered.content.files:
        assert rendered.content.files[0].data.decode() == text
        assert plain(rendered.content.body).startswith(text[:500])
    else:
        shown = " ".join(plain(part.body) for part in parts)
        assert [word for word in shown.split() if word.startswith("w")] == text.split()
