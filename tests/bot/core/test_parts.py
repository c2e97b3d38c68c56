"""Highlighted or typeable parts of a message: the same words on every platform, never more."""

from bot.core.content import CommandText, Content, Strong
from bot.platforms.discord import renderer as discord_render
from bot.platforms.telegram import renderer as telegram_render
from bot.platforms.telegram.text.markdown import SpanKind
from bot.platforms.web.chat import renderer as web_content
from bot.platforms.web.chat.chat_log import StrongPart, TypedPart
from bot.texts.catalogue import plain


def test_a_name_stands_out_and_a_command_can_be_taken_over() -> None:
    """A list would be hard to read, or its commands would have to be typed by hand."""
    body = (Strong("flux"), " · ", CommandText("/help image"), " ", CommandText("/queue"))
    assert plain(body) == "flux · /help image /queue"
    assert discord_render.fit(body, 2000) == "**flux** · `/help image` `/queue`"
    shown = telegram_render.fit(body, 4096)
    assert shown.text == plain(body)
    assert [(shown.text[span.start : span.end], span.kind) for span in shown.spans] == [
        ("flux", SpanKind.BOLD),
        ("/help image", SpanKind.CODE),  # Telegram's clients link a bare /queue themselves
    ]
    parts = web_content.shown_of("1", "2", Content(body=body)).body
    assert parts[0] == StrongPart(text="flux")
    assert parts[2] == TypedPart(text="/help image")
