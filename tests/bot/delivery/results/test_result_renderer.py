"""What a chat shows at a job's end fits into its messages, whatever its length."""

from dataclasses import replace

from bot.core.content import utf16_length
from bot.delivery.result_renderer import RenderedResult
from bot.texts.catalogue import plain
from queueing.core.jobs import JobState
from queueing.core.requests import Chat, ChatMessage
from tests.bot.delivery.results.rendering import completed, origin, renderer
from tests.fakes.chat import LIMITS

TELEGRAM = replace(LIMITS, text=4096, caption=1024)


async def packed(text: str) -> RenderedResult:
    """Return what Telegram shows of an answer that was stopped at this point."""
    asked = Chat(messages=(ChatMessage(role="user", text="tell me all"),))
    stopped = replace(completed(), request=asked, state=JobState.CANCELLED)
    return await renderer().render(stopped, origin(), TELEGRAM, written=text)


async def test_every_part_of_an_answer_fits_its_message() -> None:
    """The chat would refuse the message, and the person would not get the answer."""
    for words in (1, 700, 815, 820, 1500, 3200, 3290, 20_000):
        text = " ".join(f"w{number % 1000:03d}" for number in range(words))
        rendered = await packed(text)
        parts = (rendered.content, *rendered.rest)
        for part in parts:
            room = TELEGRAM.caption if part.files else TELEGRAM.text
            assert utf16_length(plain(part.body)) <= room, words
        if rendered.content.files:
            assert rendered.content.files[0].data.decode() == text, words
            assert plain(rendered.content.body).startswith(text[:500]), words
        else:
            shown = " ".join(plain(part.body) for part in parts)
            assert [word for word in shown.split() if word.startswith("w")] == text.split(), words
