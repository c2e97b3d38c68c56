"""What each platform shows of an answer, in a form that tests can compare."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import JsonValue

from bot.core.content import Body, Content, Markdown
from bot.markdown.elements import Blocks, Element, Kind
from bot.markdown.pages import Measure
from bot.platforms.discord.renderer import TEXT_MOST as DISCORD_MOST
from bot.platforms.discord.renderer import measured as discord_measured
from bot.platforms.discord.renderer import text_of
from bot.platforms.telegram.renderer import TEXT_MOST as TELEGRAM_MOST
from bot.platforms.telegram.renderer import OutgoingTelegram, outgoing
from bot.platforms.telegram.renderer import measured as telegram_measured
from bot.platforms.web.chat.chat_log import MarkdownPart
from bot.platforms.web.chat.renderer import shown_of, with_blocks


def _of_page(measured: Callable[[Body], int]) -> Measure:
    return lambda blocks: measured((Markdown.of(blocks),))


MEASURES = {
    "telegram": (_of_page(telegram_measured), TELEGRAM_MOST),
    "discord": (_of_page(discord_measured), DISCORD_MOST),
}


def on_telegram(part: Markdown) -> OutgoingTelegram:
    return outgoing(Content(body=(part,)), group=False, now=0.0)


def entities(message: OutgoingTelegram) -> list[list[str]]:
    """Return each entity's kind, the text it covers, and its address or language."""
    return [
        [str(each.type), covered(message, each), *filter(None, (each.url, each.language))]
        for each in message.entities
    ]


def covered(message: OutgoingTelegram, entity: Any) -> str:
    raw = message.text.encode("utf-16-le")
    return raw[entity.offset * 2 : (entity.offset + entity.length) * 2].decode("utf-16-le")


def on_discord(part: Markdown) -> str:
    return text_of(Content(body=(part,)))


def on_page(part: Markdown) -> list[JsonValue]:
    [shown] = with_blocks(shown_of("1", "2", Content(body=(part,)))).body
    assert isinstance(shown, MarkdownPart)
    return list(shown.blocks)


_DISCORD_CODE = re.compile(
    r"\\[^\w\s]"
    r"|```(?:[a-z0-9_+\-.#]+?\n)?\n*(?P<block>[^\n].*?)\n*```"
    r"|(?P<ticks>`+)(?P<line>.*?[^`])(?P=ticks)(?!`)",
    re.DOTALL | re.IGNORECASE,
)


def unquoted(text: str) -> str:
    return re.sub("^(> )+", "", text, flags=re.MULTILINE)


def code_on_discord(text: str) -> list[str]:
    """Return what Discord shows as code, by the patterns of its client."""
    found = [
        match for match in _DISCORD_CODE.finditer(unquoted(text)) if match["block"] or match["line"]
    ]
    return [match["block"] or re.sub("^ (?=`)|(?<=`) $", "", match["line"]) for match in found]


def codes(nodes: Blocks, *kinds: Kind) -> Iterator[Element]:
    for node in nodes:
        if node.kind in kinds:
            yield node
        yield from codes(node.children, *kinds)
