"""Writes Telegram's marks into a text as Markdown for models. Pure functions.

Telegram sends the address behind words, code and quotations as marks ("entities"), which count
UTF-16 units. A model that reads the text alone would miss them.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from telegram import Message, MessageEntity

Reader = Callable[[str, Sequence[MessageEntity]], str]
"""Returns a text for a model, given the text and its marks."""

_BLOCKS = {
    MessageEntity.PRE,
    MessageEntity.BLOCKQUOTE,
    MessageEntity.EXPANDABLE_BLOCKQUOTE,
}
_WRITTEN = _BLOCKS | {MessageEntity.TEXT_LINK, MessageEntity.CODE}
_BEFORE_HOST = re.compile(r"[a-z]+://(?:www\.)?", re.IGNORECASE)
_INVISIBLE = re.compile(r"[\s\u200b-\u200f\u2060\u2800\u3164\ufeff]*")
_TICKS = re.compile("`+")


def text_in(message: Message) -> str:
    """Return the text or caption of a message with its marks written out."""
    return written(
        message.text or message.caption or "", message.entities or message.caption_entities
    )


def written(text: str, marks: Sequence[MessageEntity], begin: int = 0) -> str:
    """Return a text that begins after so many units, with its marks written out.

    Marks beyond the text are left out.
    """
    units, done, out = text.encode("utf-16-le", "surrogatepass"), 0, ""
    for mark, inside in _outermost(mark for mark in marks if mark.type in _WRITTEN):
        start = max(mark.offset - begin, done)
        end = min(mark.offset - begin + mark.length, len(units) // 2)
        if start >= end:
            continue
        is_block = mark.type in _BLOCKS
        out = _beside(out, _cut(units, done, start), is_block=is_block)
        out += _in_markdown(mark, written(_cut(units, start, end), inside, begin + start))
        done = end
        if is_block and done < len(units) // 2 and units[done * 2 : done * 2 + 2] != b"\n\x00":
            out += "\n"
    return out + _cut(units, done, len(units) // 2)


def _outermost(
    marks: Iterator[MessageEntity],
) -> Iterator[tuple[MessageEntity, list[MessageEntity]]]:
    """Yield the marks that no other contains, in order, each with those inside it."""
    left = sorted(marks, key=lambda mark: (mark.offset, -mark.length))
    while left:
        end = left[0].offset + left[0].length
        yield left[0], [each for each in left[1:] if each.offset < end]
        left = [each for each in left[1:] if each.offset >= end]


def _cut(units: bytes, start: int, end: int) -> str:
    return units[start * 2 : end * 2].decode("utf-16-le", "replace")


def _beside(before: str, text: str, *, is_block: bool) -> str:
    """Return a text that can be continued; a block begins on a new line."""
    text = before + text
    return f"{text}\n" if is_block and text and not text.endswith("\n") else text


def _in_markdown(mark: MessageEntity, words: str) -> str:
    match mark.type:
        case MessageEntity.TEXT_LINK:
            return _linked(words, mark.url or "")
        case MessageEntity.CODE:
            ticks = _longer_than(words, "`")
            gap = " " if "`" in words else ""
            return f"{ticks}{gap}{words}{gap}{ticks}"
        case MessageEntity.PRE:
            fence, code = _longer_than(words, "```"), words.strip("\n")
            return f"{fence}{mark.language or ''}\n{code}\n{fence}"
        case _:
            return "\n".join(f"> {line}" for line in words.split("\n"))


def _linked(words: str, address: str) -> str:
    """Return words with the address behind them; addresses inside Telegram say nothing."""
    if not address or address.startswith("tg:") or _host(words) == _host(address):
        return words
    return f"<{address}>" if _INVISIBLE.fullmatch(words) else f"[{words}]({address})"


def _host(address: str) -> str:
    return _BEFORE_HOST.sub("", address.strip(), count=1).rstrip("/").casefold()


def _longer_than(words: str, ticks: str) -> str:
    """Return backticks that do not occur in the words."""
    longest = max(map(len, _TICKS.findall(words)), default=0)
    return ticks if longest < len(ticks) else "`" * (longest + 1)
